"""The tabs of the agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.text import Text
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from jaato.cli.output.console import one_line
from jaato.protocol.events.state import AgentView
from jaato.tui.preferences import KeyNames
from jaato.tui.transcript.blocks import SPINNER

HINT_CELLS = 60
"""Columns of a terminal on which a tab less leaves room for the key."""


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
        """The whole tabs that fit, from the first one that leaves room for the selected one."""
        spinner = SPINNER[self._frame % len(SPINNER)]
        labels = [
            (agent_id, f" {spinner if mark == 'work' else mark} {name} ")
            for agent_id, name, mark in self._tabs
        ]
        cells = [cell_len(label) + 1 for _, label in labels]
        if sum(cells) <= self.size.width:
            return labels
        first = next((at for at, (agent_id, _) in enumerate(labels) if agent_id == self._selected), 0)
        room, end = self.size.width - cells[first] - len(self._count_hidden(len(labels))), first + 1
        while first and cells[first - 1] <= room:
            first -= 1
            room -= cells[first]
        while end < len(labels) and cells[end] <= room:
            room -= cells[end]
            end += 1
        return labels[first:end]

    def _count_hidden(self, number: int) -> str:
        """How many agents have no tab that fits, and the key that goes through all."""
        hint = self._hint if self.size.width >= HINT_CELLS or not number else ""
        return f"{f'+{number}' if number else ''}{hint}"

    def render(self) -> Text:
        """The tabs in one line."""
        text = Text(no_wrap=True, end="", overflow="ellipsis")
        labels = self._labels()
        for agent_id, label in labels:
            text.append(label, "bold reverse" if agent_id == self._selected else "")
            text.append(" ")
        text.append(self._count_hidden(len(self._tabs) - len(labels)), "dim")
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


def is_working(agent: AgentView) -> bool:
    """Whether an agent's spinner turns."""
    return agent.status == "active" or agent.working
