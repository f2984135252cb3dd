"""The thread that all terminals of a plugin live on, so that no output ever holds up an agent's event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own, begun when it is first needed. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there; cancelling the future cancels it."""
        with self._lock:
            if self._loop is None:
                ready = threading.Event()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop, ready), name="jaato-terminals", daemon=True
                )
                self._thread.start()
                ready.wait()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def begun(self) -> bool:
        """Whether the thread runs."""
        return self._loop is not None

    def _serve(self, loop: asyncio.AbstractEventLoop, ready: threading.Event) -> None:
        asyncio.set_event_loop(loop)
        loop.call_soon(ready.set)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def close(self) -> None:
        """End the thread; what still runs there is forgotten."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
