"""The lines around the conversation: the tabs of the agents, the plans, and the status."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from jaato.cli.output.console import one_line
from jaato.cli.output.wording import shorten_model
from jaato.protocol.events.state import AgentView, State
from jaato.protocol.specs import Plan
from jaato.settings.budgets import price_text
from jaato.tui.preferences import KeyNames
from jaato.tui.transcript.blocks import SPINNER
from jaato.tui.transcript.lines import add_prefix, clean, cut_line, lay_out_words
from jaato.tui.transcript.looks import Looks

BAR_CELLS = 8
STEP_MARKS = {"completed": "✓", "in_progress": "▸", "failed": "✗", "skipped": "-", "pending": "·"}
NARROW = 96
"""Columns below which the plan is one line above the prompt."""


def is_working(agent: AgentView) -> bool:
    """Whether an agent's spinner turns."""
    return agent.status == "active" or agent.working


class AgentTabs(Widget):
    """A tab for each agent, with the spinner of each that works."""

    DEFAULT_CSS = "AgentTabs { display: none; height: 1; background: $surface; }"

    class Selected(Message):
        """A tab was clicked."""

        def __init__(self, agent_id: str) -> None:
            super().__init__()
            self.agent_id = agent_id

    def __init__(self, names: KeyNames, *, id: str | None = None) -> None:  # noqa: A002 as Textual names it
        super().__init__(id=id)
        self._hint = names.fill(" {app.next_agent} next")
        self._tabs: list[tuple[str, str, str]] = []
        self._selected = ""
        self._frame = 0

    def show(self, agents: Sequence[AgentView], selected: str, name_of: Callable[[str], str]) -> None:
        """Show the agents, if there are several."""
        tabs = [
            (agent.id, one_line(name_of(agent.id) or agent.name or "agent", 30), choose_mark(agent))
            for agent in agents
        ]
        if (tabs, selected) != (self._tabs, self._selected):
            self._tabs, self._selected = tabs, selected
            if self.display != (len(tabs) > 1):
                self.display = len(tabs) > 1
            self.refresh()

    def tick(self) -> None:
        """Advance all spinners."""
        self._frame += 1
        if self.display:
            self.refresh()

    def _labels(self) -> list[tuple[str, str]]:
        """The tabs from the first one that leaves room for the selected one."""
        spinner = SPINNER[self._frame % len(SPINNER)]
        labels = [
            (agent_id, f" {spinner if mark == 'work' else mark} {name} ")
            for agent_id, name, mark in self._tabs
        ]
        last = next((at for at, (agent_id, _) in enumerate(labels) if agent_id == self._selected), 0)
        room, first = self.size.width - cell_len(labels[last][1]) if labels else 0, last
        while first and (room := room - cell_len(labels[first - 1][1]) - 1) >= 0:
            first -= 1
        return labels[first:]

    def render(self) -> Text:
        """The tabs in one line."""
        text = Text(no_wrap=True, end="", overflow="ellipsis")
        for agent_id, label in self._labels():
            text.append(label, "bold reverse" if agent_id == self._selected else "")
            text.append(" ")
        text.append(self._hint, "dim")
        return text

    def on_click(self, event: Click) -> None:
        """Choose the tab under the pointer."""
        at = 0
        for agent_id, label in self._labels():
            if at <= event.x < at + cell_len(label):
                self.post_message(self.Selected(agent_id))
            at += cell_len(label) + 1


def choose_mark(agent: AgentView) -> str:
    """The mark of an agent: `work` for a spinner."""
    if agent.status == "blocked":
        return "?"
    if is_working(agent):
        return "work"
    return {"done": "✓", "error": "✗"}.get(agent.status, "·")


def find_plans(state: State) -> list[tuple[str, Plan]]:
    """The current plan of each agent that has one, the root agent's first."""
    agents = sorted(state.agents.values(), key=lambda agent: agent.id != state.root_agent_id)
    found = [(agent.id, agent.plans.get(agent.plan_id or "")) for agent in agents]
    return [(agent_id, plan) for agent_id, plan in found if plan is not None]


def find_active_plans(state: State) -> list[tuple[str, Plan]]:
    """Those that are under way."""
    return [(agent_id, plan) for agent_id, plan in find_plans(state) if plan.status in ("draft", "active")]


def summarize_plan(plan: Plan) -> str:
    """A plan in one line."""
    done = sum(step.status in ("completed", "skipped") for step in plan.steps)
    now = next((step.description for step in plan.steps if step.status == "in_progress"), plan.title)
    return f"plan {done}/{len(plan.steps)}: {one_line(now, 200)}"


def lay_out_plan(
    plans: Sequence[tuple[str, Plan]], name_of: Callable[[str], str], width: int, looks: Looks
) -> list[Strip]:
    """The plans, a line for each step."""
    styles = {"completed": looks.dim, "in_progress": looks.strong, "failed": looks.bad, "skipped": looks.dim}
    marks = {"completed": looks.good, "in_progress": looks.accent, "failed": looks.bad}
    found: list[Strip] = []
    for agent_id, plan in plans:
        if found:
            found.append(Strip([], 0))
        name = name_of(agent_id)
        title = f"{one_line(name, 40)}: {plan.title}" if name else plan.title
        found += lay_out_words(one_line(clean(title), 200), width, looks.heading)
        for step in plan.steps:
            mark = STEP_MARKS.get(step.status, "·")
            text = lay_out_words(
                one_line(step.description, 300), width - 2, styles.get(step.status, looks.text)
            )
            found += add_prefix(text, f"{mark} ", "  ", marks.get(step.status, looks.dim))
    return found


@dataclass(frozen=True, slots=True)
class Status:
    """What the status line says."""

    state: State
    mode: str
    working_s: int | None
    """Seconds of the turn that runs; None without one."""
    connection: str
    """`connected`, `connecting`, `reconnecting`."""
    warning: str
    """Is shown instead of everything else."""
    hint: str
    agent: AgentView | None


class StatusLine(Widget):
    """Model, mode, context, tokens, money, time and connection; what does not fit is left out from the right."""

    DEFAULT_CSS = "StatusLine { height: 1; background: $surface; color: $text; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 as Textual names it
        super().__init__(id=id)
        self._status: Status | None = None
        self._progress = ""
        self._shown = ""
        self._frame = 0

    def show(self, status: Status) -> None:
        """Show a status."""
        self._status = status
        text = self.render().plain
        if text != self._shown:
            self._shown = text
            self.refresh()

    def wait_for(self, progress: str) -> None:
        """Show what a new session waits for."""
        self._progress = progress

    def tick(self) -> None:
        """Advance the spinner."""
        self._frame += 1
        self.refresh()

    def render(self) -> Text:
        """The parts that fit, and the hint on the right."""
        status, width = self._status, max(20, self.size.width)
        if status is None:
            spinner = SPINNER[self._frame % len(SPINNER)]
            return Text(f" {spinner} {self._progress or 'connecting'}", no_wrap=True, end="")
        text = Text(" ", no_wrap=True, end="")
        if status.warning:
            return text.append(cut_line(status.warning, width - 1), "bold")
        hint = status.hint
        for number, part in enumerate(self._parts(status)):
            room = width - text.cell_len - 1
            if number and part.cell_len + 3 > room - (len(hint) + 3 if number > 2 else 0):
                continue
            text.append(" · " if number else "", "dim")
            text.append_text(part)
        room = width - text.cell_len - 1
        if len(hint) + 2 <= room:
            text.append(" " * (room - len(hint)))
            text.append(hint, "dim")
        return text

    def _parts(self, status: Status) -> Iterator[Text]:
        state, agent = status.state, status.agent
        spinner = SPINNER[self._frame % len(SPINNER)]
        if status.connection != "connected":
            yield Text(f"{spinner} {status.connection}", "bold")
        elif status.working_s is not None:
            yield Text(f"{spinner} {format_clock(status.working_s)}", "bold")
        else:
            yield Text("ready")
        provider, model = (
            (agent.provider, agent.model) if agent is not None else (state.provider, state.model)
        )
        yield Text(cut_line(one_line(f"{provider} {shorten_model(model)}", 80), 32))
        if status.mode:
            yield Text(status.mode)
        if agent is not None and agent.context_limit:
            part = min(1.0, agent.context_tokens / agent.context_limit)
            filled = round(part * BAR_CELLS)
            bar = "━" * filled + "╌" * (BAR_CELLS - filled)
            yield Text(f"{bar} {part:.0%}", "bold" if part > 0.75 else "")
        yield Text(
            f"{abbreviate_count(state.usage.input_tokens)} in {abbreviate_count(state.usage.output_tokens)} out"
        )
        if state.turns and not state.unpriced:
            yield Text(price_text(state.cost_usd))
        if state.tasks:
            yield Text(f"{len(state.tasks)} in background")


def abbreviate_count(count: int) -> str:
    """A count in few characters."""
    if count < 1_000:
        return str(count)
    if count < 100_000:
        return f"{count / 1_000:.1f}k"
    return f"{count / 1_000:.0f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def format_clock(seconds: int) -> str:
    """A duration in whole seconds."""
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60}:{seconds % 60:02d}"
