"""A running call's output on its way from any thread to the watchers: gathered, never queued without bound."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

from jaato.agent.journal import Journal
from jaato.protocol.events import ToolOutput
from jaato.tools.call import clean
from jaato.tools.processes.text import NOT_SHOWN
from jaato.tools.secrets import Stream

KEPT_CHARS = 64_000
"""Characters shown of what piles up while the loop is busy; the tool's result is not affected."""


class OutputSink:
    """Call it with text from any thread; watchers get it on the loop, in as few events as they can take.

    What is said after the call's end is dropped, unless the call `outlives` its result as a background task.
    """

    outlives = False
    also: Callable[[str], None] | None = None
    _chars = _offset = 0
    _due = _over = False
    _stream: Stream | None = None

    def __init__(self, journal: Journal, call_id: str, loop: asyncio.AbstractEventLoop) -> None:
        self._journal = journal
        self._call_id = call_id
        self._loop = loop
        self._lock = threading.Lock()
        self._parts: deque[str] = deque()

    def __call__(self, text: str) -> None:
        """Show text."""
        if self._over:
            return
        with self._lock:
            if self._stream is None:
                self._stream = self._journal.secrets.stream()
            if text[:3] == "\n[…" and NOT_SHOWN.fullmatch(text):
                self._stream.cut()
            text = self._stream.feed(text)
        self._gather(text)

    def _gather(self, text: str) -> None:
        if not text:
            return
        if self.also is not None:
            self.also(text)
        with self._lock:
            self._parts.append(text)
            self._chars += len(text)
            while self._chars > KEPT_CHARS:
                self._drop_oldest()
            if self._due:
                return
            self._due = True
        try:
            self._loop.call_soon_threadsafe(self.flush)
        except RuntimeError:
            return  # the loop has ended; nobody watches any more

    def _drop_oldest(self) -> None:
        oldest = self._parts.popleft()
        surplus = min(len(oldest), self._chars - KEPT_CHARS)
        if surplus < len(oldest):
            self._parts.appendleft(oldest[surplus:])
        self._chars -= surplus
        self._offset += surplus

    def flush(self) -> None:
        """Show what has gathered; on the loop only."""
        with self._lock:
            text, offset = "".join(self._parts), self._offset
            self._parts.clear()
            self._offset += len(text)
            self._chars = 0
            self._due = False
        if text:
            head = self._journal.shown()
            self._journal.show(ToolOutput(**head, call_id=self._call_id, text=clean(text), offset=offset))

    def end(self) -> None:
        """The call has a result: show what is left of its output before it; nothing comes after."""
        self._over = not self.outlives
        if self._stream is None:
            return  # most calls say nothing
        if self._over:
            self._gather(self._stream.end())
        self.flush()
