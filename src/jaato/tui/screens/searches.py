"""Searches: in the conversation that is shown, and in the messages sent before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import takewhile

from jaato.cli.output.console import one_line
from jaato.tui.link import Link
from jaato.tui.screens.browser import Action, Line, Row, Subject
from jaato.tui.transcript.blocks import Block

MAX_PREVIEW = 20_000
SEARCH_PAGE = 500
"""Entries that a search loads at once."""
ENOUGH = 200
"""Blocks after which a search goes no further back."""


class ConversationSubject(Subject):
    """The blocks of an agent's conversation, the newest first; a search has earlier ones loaded until it has found enough."""

    title = "Search in the conversation"
    empty = "No part of the conversation has these words."
    searches = True

    def __init__(
        self,
        link: Link,
        agent_id: str,
        load_earlier: Callable[[int], Awaitable[None]],
        show: Callable[[Block], None],
    ) -> None:
        self._conversation = link.conversation
        self._layout = link.conversation.layout(agent_id)
        self._load_earlier = load_earlier
        self._show = show
        self._blocks: dict[str, Block] = {}
        self._searching = asyncio.Lock()

    async def rows(self, query: str) -> Sequence[Row]:
        """The blocks with all words; without any, those that are loaded."""
        words = query.lower().split()
        async with self._searching:
            found = self._find(words, None)
            while words and len(found) < ENOUGH and (first := self._conversation.first_seq) is not None:
                oldest = self._layout.blocks[0] if self._layout.blocks else None
                await self._load_earlier(SEARCH_PAGE)
                if self._conversation.first_seq == first:
                    break  # it has failed, which is noted in the conversation
                found += self._find(words, oldest)
        self._blocks |= {str(id(block)): block for block in found}
        return [Row(str(id(block)), one_line(block.words[:400], 120)) for block in found]

    def _find(self, words: Sequence[str], end: Block | None) -> list[Block]:
        """The blocks with all words up to one of them, the newest first."""
        found = []
        for block in reversed([*takewhile(lambda block: block is not end, self._layout.blocks)]):
            text = block.words.lower()
            if text.strip() and all(word in text for word in words):
                found.append(block)
        return found

    async def preview(self, row_id: str) -> Sequence[Line]:
        """The text of the block."""
        return [(self._blocks[row_id].words[:MAX_PREVIEW], "")]

    def actions(self) -> Mapping[str, Action]:
        """Go there."""
        return {"enter": Action("go there", self._go, leaves=True)}

    async def _go(self, row_id: str) -> None:
        self._show(self._blocks[row_id])


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
