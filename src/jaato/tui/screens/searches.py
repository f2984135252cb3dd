"""Searches: in the conversation that is shown, and in the messages sent before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jaato.cli.output.console import one_line
from jaato.tui.screens.browser import Action, Line, Row, Subject
from jaato.tui.transcript.blocks import Block
from jaato.tui.transcript.layout import Layout

MAX_PREVIEW = 20_000


class ConversationSubject(Subject):
    """The blocks of a conversation, the newest first."""

    title = "Search in the conversation"

    def __init__(self, layout: Layout, show: Callable[[Block], None]) -> None:
        self._blocks = [block for block in reversed(layout.blocks) if block.words.strip()]
        self._show = show

    async def rows(self, query: str) -> Sequence[Row]:
        """All blocks."""
        del query
        return [
            Row(str(at), one_line(block.words[:400], 120), block.words[:MAX_PREVIEW])
            for at, block in enumerate(self._blocks)
        ]

    async def preview(self, row_id: str) -> Sequence[Line]:
        """The text of the block."""
        return [(self._blocks[int(row_id)].words[:MAX_PREVIEW], "")]

    def actions(self) -> Mapping[str, Action]:
        """Go there."""
        return {"enter": Action("go there", self._go, leaves=True)}

    async def _go(self, row_id: str) -> None:
        self._show(self._blocks[int(row_id)])


class HistorySubject(Subject):
    """The messages sent before, the newest first."""

    title = "Messages sent before"
    empty = "No message was sent yet."

    def __init__(self, entries: Sequence[str], take: Callable[[str], None]) -> None:
        self._entries = list(reversed(entries))
        self._take = take

    async def rows(self, query: str) -> Sequence[Row]:
        """All messages."""
        del query
        return [Row(str(at), one_line(text, 120), text) for at, text in enumerate(self._entries)]

    async def preview(self, row_id: str) -> Sequence[Line]:
        """The message."""
        return [(self._entries[int(row_id)], "")]

    def actions(self) -> Mapping[str, Action]:
        """Put it into the prompt."""
        return {"enter": Action("put into the prompt", self._put, leaves=True)}

    async def _put(self, row_id: str) -> None:
        self._take(self._entries[int(row_id)])
