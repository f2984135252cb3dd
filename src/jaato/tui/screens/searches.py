"""Searches: in the conversation that is shown, and in the messages sent before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import takewhile

from jaato.cli.output.console import one_line
from jaato.tui.link import Link
from jaato.tui.screens.list_screen import Action, Line, Row, Subject
from jaato.tui.transcript.blocks import Block

MAX_PREVIEW = 20_000
CHARS_BEFORE = 20
"""Characters that are shown before what a search has found."""
SEARCH_PAGE = 500
"""Entries that a search loads at once."""
ENOUGH = 200
"""Blocks after which a search goes no further back."""


class ConversationSubject(Subject[Block]):
    """The blocks of an agent's conversation, the newest first; a search has earlier ones loaded until it has found enough."""

    title = "Search in the conversation"
    empty = "No part of the conversation has these words."
    searches = True

    def __init__(
        self,
        link: Link,
        agent_id: str,
        load_earlier: Callable[[int], Awaitable[None]],
        show: Callable[[Block, Sequence[str]], None],
    ) -> None:
        self._conversation = link.conversation
        self._layout = link.conversation.layout(agent_id)
        self._load_earlier = load_earlier
        self._show = show
        self._searching = asyncio.Lock()
        self._words: list[str] = []

    async def rows(self, query: str) -> Sequence[Row[Block]]:
        """The blocks with all words; without any, those that are loaded."""
        self._words = words = query.lower().split()
        async with self._searching:
            found = self._find(words, None)
            while words and len(found) < ENOUGH and (first := self._conversation.first_seq) is not None:
                oldest = self._layout.blocks[0] if self._layout.blocks else None
                await self._load_earlier(SEARCH_PAGE)
                if self._conversation.first_seq == first:
                    break  # it has failed, which is noted in the conversation
                found += self._find(words, oldest)
        return [Row(str(id(block)), one_line(self._cut(block)[:400], 120), block) for block in found]

    def _cut(self, block: Block) -> str:
        """The text of a block from shortly before the first of the words that are searched for."""
        text = block.words
        start = max(0, text.lower().find(self._words[0]) - CHARS_BEFORE) if self._words else 0
        return f"…{text[start:]}" if start else text

    def _find(self, words: Sequence[str], end: Block | None) -> list[Block]:
        """The blocks with all words up to one of them, the newest first."""
        found = []
        for block in reversed([*takewhile(lambda block: block is not end, self._layout.blocks)]):
            text = block.words.lower()
            if text.strip() and all(word in text for word in words):
                found.append(block)
        return found

    async def preview(self, row: Row[Block]) -> Sequence[Line]:
        """The text of the block."""
        return [(self._cut(row.item)[:MAX_PREVIEW], "")]

    def actions(self) -> Mapping[str, Action[Block]]:
        """Go there."""
        return {"enter": Action("go there", self._go, leaves=True)}

    async def _go(self, row: Row[Block]) -> None:
        self._show(row.item, self._words)


class HistorySubject(Subject[str]):
    """The messages sent before, the newest first."""

    title = "Messages sent before"
    empty = "No message was sent yet."

    def __init__(self, entries: Sequence[str], take: Callable[[str], None]) -> None:
        self._entries = list(reversed(entries))
        self._take = take

    async def rows(self, _query: str) -> Sequence[Row[str]]:
        """All messages."""
        return [Row(str(at), one_line(text, 120), text, text) for at, text in enumerate(self._entries)]

    async def preview(self, row: Row[str]) -> Sequence[Line]:
        """The message."""
        return [(row.item, "")]

    def actions(self) -> Mapping[str, Action[str]]:
        """Put it into the prompt."""
        return {"enter": Action("put into the prompt", self._put, leaves=True)}

    async def _put(self, row: Row[str]) -> None:
        self._take(row.item)
