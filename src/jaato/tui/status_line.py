"""The status line: model, mode, context, tokens, money, time and connection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text
from textual.widget import Widget

from jaato.cli.output.console import one_line
from jaato.cli.output.wording import shorten_model
from jaato.protocol.events.state import AgentView, State
from jaato.settings.budgets import price_text
from jaato.tui.transcript.blocks import SPINNER
from jaato.tui.transcript.lines import cut_line

BAR_CELLS = 8


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
        if status.connection == "deleted":
            yield Text("deleted", "bold")
        elif status.connection != "connected":
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
