"""One event loop in a daemon thread, started when the first blocking caller needs it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from jaato.errors import JaatoError

T = TypeVar("T")
LEAVING_S = 5.0
"""How long an interrupted caller waits for the coroutine to put things in order."""


class Portal:
    """Runs coroutines for threads that have no loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, started if it is not running."""
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, name="jaato-loop", daemon=True)
                self._thread.start()
            return self._loop

    def _run(self) -> None:
        assert self._loop is not None
        loop = self._loop
        asyncio.set_event_loop(loop)
        is_over = False
        while not is_over:
            with contextlib.suppress(
                SystemExit, KeyboardInterrupt
            ):  # of a task, which holds it: others wait for this loop
                loop.run_forever()
                is_over = True

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin a coroutine on the loop; the future can be waited on and cancelled from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for its result. Raises when called on the loop itself, which would never end."""
        if threading.current_thread() is self._thread:
            work.close()
            raise JaatoError(
                "A blocking call was made on jaato's own event loop; await the coroutine instead."
            )
        ended = threading.Event()

        async def watched() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = self.start(watched())
        try:
            return future.result()
        except BaseException:
            if future.cancel():
                ended.wait(LEAVING_S)  # a program that ends now would cut its cleaning up short
            raise

    def stop(self) -> None:
        """End the loop and its thread, if they run."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call a function at once where this loop runs, and soon from any other thread; not at all once the loop is closed."""
    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = False
    if is_here:
        function()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(function)


PORTAL = Portal()
"""The portal of this process."""
