"""An event loop in a thread of its own, for processes that continue between calls."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from jaato.errors import ToolError
from jaato.tools.cancel import CancelToken

if TYPE_CHECKING:
    from jaato.tools.call import Call

T = TypeVar("T")
CLOSE_WITHIN_S = 30.0


class LoopThread:
    """Runs coroutines for any loop and any thread; the thread starts with the first of them.

    Output of servers and kernels is read here and never on the loop of a session. Once it is closed, new work is
    refused, and running work has been cancelled and has ended.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._failure = ""

    @property
    def begun(self) -> bool:
        """Whether the thread runs."""
        return self._loop is not None

    async def run(self, work: Coroutine[Any, Any, T], token: CancelToken | None = None) -> T:
        """Run the coroutine and return its result; cancelling the caller, or its token, cancels it.

        Raises `ToolError` once closed.
        """
        future = self.start(work)
        forget = token.on_cancel(future.cancel) if token is not None else None
        try:
            return await asyncio.wrap_future(future)
        except (asyncio.CancelledError, FutureCancelled):
            if self._closed:
                raise self._over() from None
            if token is not None:
                token.raise_if_cancelled()
            raise
        finally:
            if forget is not None:
                forget()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine without waiting. Raises `ToolError` once closed."""
        with self._lock:
            if self._closed:
                work.close()
                raise self._over()
            if self._loop is None:
                self._begin()
            if self._loop is None:
                work.close()
                raise ToolError(f"{self._name} cannot be started now: {self._failure}. Try again later.")
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Cancel all that runs, wait for its end, and end the thread; a second time does nothing."""
        with self._lock:
            self._closed = True
            loop, stop, thread = self._loop, self._stop, self._thread
            self._loop = self._stop = self._thread = None
        if loop is None or stop is None or thread is None:
            return
        loop.call_soon_threadsafe(stop.set)
        if threading.current_thread() is not thread:
            thread.join(CLOSE_WITHIN_S)

    def _begin(self) -> None:
        ready = threading.Event()
        thread = threading.Thread(target=self._serve, args=(ready,), name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # as many threads as may be
            self._failure = str(error)
            return
        self._thread = thread
        ready.wait()

    def _serve(self, ready: threading.Event) -> None:
        async def main() -> None:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            stop = self._stop
            ready.set()
            await stop.wait()

        try:
            asyncio.run(main())  # at its end it cancels every task and waits for each
        except OSError as error:  # no descriptors for a loop
            self._failure = error.strerror or str(error)
        finally:
            ready.set()

    def _over(self) -> ToolError:
        return ToolError(f"{self._name} has been shut down.")


class SessionCleanup:
    """Runs `clean` with the id of each session that has used a plugin, when the session ends."""

    def __init__(self, clean: Callable[[str], Awaitable[object]]) -> None:
        self._clean = clean
        self._registered: set[str] = set()

    async def register(self, call: Call) -> None:
        """Have the session of a call cleaned up; once, and not for a call without a session."""
        session, session_id = call.services.get("session"), call.session_id
        if session is None or session_id in self._registered:
            return
        self._registered.add(session_id)
        try:
            await session.background(partial(self._wait_for_end, session_id))
        except BaseException:
            self._registered.discard(session_id)
            raise

    async def _wait_for_end(self, session_id: str) -> None:
        import anyio

        try:
            await anyio.sleep_forever()
        finally:
            self._registered.discard(session_id)
            with anyio.CancelScope(shield=True), contextlib.suppress(ToolError):
                await self._clean(session_id)
