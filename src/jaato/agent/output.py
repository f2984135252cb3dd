"""A running call's output on its way from any thread to the watchers: gathered, never queued without bound."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from jaato.agent.journal import Journal
from jaato.protocol.events import ToolOutput
from jaato.tools.call import clean

KEPT_CHARS = 64_000
"""Characters shown of what piles up while the loop is busy; the tool's result is not affected."""


class OutputSink:
    """Call it with text from any thread; watchers get it on the loop, in as few events as they can take."""

    def __init__(self, journal: Journal, call_id: str, loop: asyncio.AbstractEventLoop) -> None:
        self._journal = journal
        self._call_id = call_id
        self._loop = loop
        self._lock = threading.Lock()
        self._parts: list[str] = []
        self._chars = 0
        self._offset = 0
        self._due = False
        self.also: Callable[[str], None] | None = None

    def __call__(self, text: str) -> None:
        """Show text."""
        if self.also is not None:
            self.also(text)
        with self._lock:
            self._parts.append(text)
            self._chars += len(text)
            while self._chars > KEPT_CHARS and len(self._parts) > 1:
                self._chars -= len(self._parts[0])
                self._offset += len(self._parts.pop(0))
            if self._due:
                return
            self._due = True
        try:
            self._loop.call_soon_threadsafe(self._flush)
        except RuntimeError:
            return  # the loop has ended; nobody watches any more

    def _flush(self) -> None:
        with self._lock:
            text, offset = "".join(self._parts), self._offset
            self._parts.clear()
            self._offset += len(text)
            self._chars = 0
            self._due = False
        head = self._journal.shown()
        self._journal.show(ToolOutput(**head, call_id=self._call_id, text=clean(text), offset=offset))
