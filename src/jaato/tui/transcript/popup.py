"""The popup of an interactive session: the calls of one `continuation_id` and what each has shown."""

from __future__ import annotations

from rich.text import Text
from textual.strip import Strip

from jaato.cli.output.console import one_line
from jaato.cli.output.wording import call_text
from jaato.protocol.events import ToolCallEnd
from jaato.tui.lines_view import LinesView
from jaato.tui.preferences import KeyNames
from jaato.tui.transcript.blocks import CallBlock
from jaato.tui.transcript.lines import add_prefix, clean, lay_out_plain
from jaato.tui.transcript.looks import Looks

MAX_CALLS = 100
"""Calls of a session that are kept."""
MAX_LINES = 100
"""Lines of what a call has shown."""


class PopupSession:
    """The calls with one `continuation_id` that follow each other."""

    def __init__(self, continuation_id: str) -> None:
        self.id = continuation_id
        self.count = 0
        """How many calls it has had."""
        self.title = one_line(continuation_id, 60)
        self._calls: list[tuple[str, str]] = []

    def add(self, block: CallBlock, event: ToolCallEnd) -> None:
        """Take in a call that has ended."""
        shown = "\n".join(clean(block.result_text).strip("\n").split("\n")[-MAX_LINES:])
        self._calls = [*self._calls, (call_text(block.tool, block.arguments, 300), shown)][-MAX_CALLS:]
        self.count += 1
        found = event.result.structured
        state = found.get("state") if isinstance(found, dict) else None
        self.title = one_line(f"{self.id} · {state}" if isinstance(state, str) else self.id, 80)

    def lay_out(self, width: int, looks: Looks) -> list[Strip]:
        """The lines of its calls."""
        lines: list[Strip] = []
        for head, shown in self._calls:
            lines += add_prefix(lay_out_plain(head, width - 2, looks.dim), "▸ ", "  ", looks.accent)
            lines += lay_out_plain(shown, width, looks.text) if shown else []
        return lines


class PopupPanel(LinesView, can_focus=False):
    """Shows a session from its end."""

    DEFAULT_CSS = """
    PopupPanel { display: none; height: auto; max-height: 40%; border-top: solid $secondary; padding: 0 1;
                 border-title-color: $secondary; }
    """

    def __init__(self, names: KeyNames, *, id: str | None = None) -> None:  # noqa: A002 as Textual names it
        super().__init__(id=id)
        self._hint = names.fill("{app.popup} hides")

    def show_session(self, session: PopupSession | None) -> None:
        """Show a session; nothing without one."""
        self.display = session is not None
        if session is not None:
            self.border_title = Text(f"{session.title} · {self._hint}")
            self.show_if_new((session.id, session.count), session.lay_out, stays=True)
