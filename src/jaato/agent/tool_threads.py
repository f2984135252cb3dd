"""Thread pool for synchronous tools: daemon threads, reused while a session lives, that never block program exit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

Job = tuple[Callable[[], Callable[[], None]], "ToolThreads"]


class ToolThreads:
    """Runs at most `limit` calls at once, each in a daemon thread. When the caller is cancelled the thread is abandoned and
    its slot freed: a tool that never returns costs a thread, but blocks neither the session nor the exit."""

    def __init__(self, limit: int) -> None:
        self._places = asyncio.Semaphore(limit)
        self._idle: list[SimpleQueue[Job | None]] = []
        self._lock = threading.Lock()
        self._closed = False

    async def run(self, work: Callable[[], Any]) -> Any:
        """What `work` returns or raises, in the caller's context."""
        async with self._places:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[Any] = loop.create_future()
            context = context_without_loop()
            self._hand_over(lambda: run_job(work, context, future, loop))
            return await future

    def _hand_over(self, job: Callable[[], Callable[[], None]]) -> None:
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = SimpleQueue()
            threading.Thread(target=run_worker, args=(inbox,), name="jaato-tool", daemon=True).start()
        inbox.put((job, self))

    def keep(self, inbox: SimpleQueue[Job | None]) -> bool:
        """Register an idle thread; False when it is to end."""
        with self._lock:
            if not self._closed:
                self._idle.append(inbox)
            return not self._closed

    def close(self) -> None:
        """End the threads: the idle ones now, a busy one when its tool returns."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)


def run_worker(inbox: SimpleQueue[Job | None]) -> None:
    """Run jobs one after the other until None is received."""
    while (job := inbox.get()) is not None:
        work, workers = job
        deliver = work()
        stays = workers.keep(inbox)  # before the caller continues, so that its next call finds this thread
        deliver()
        del job, work, deliver
        if not stays:
            return


def context_without_loop() -> Context:
    """A copy of the caller's context for a thread that has no loop: a tool may run one of its own there."""
    context = copy_context()
    for variable in context:
        if variable.name == "current_async_library":  # where anyio and sniffio note that a loop runs
            context.run(variable.set, None)
    return context


def run_job(
    work: Callable[[], Any], context: Context, future: asyncio.Future[Any], loop: asyncio.AbstractEventLoop
) -> Callable[[], None]:
    """Run `work`; gives the function that delivers its outcome to the loop, if that is still awaited."""
    value: Any = None
    failure: BaseException | None = None
    try:
        value = context.run(work)
    except BaseException as error:  # noqa: BLE001 whatever a tool raises belongs to its call
        failure = error
    if isinstance(failure, StopIteration):
        failure = RuntimeError("the tool raised StopIteration")

    def set_outcome() -> None:
        if future.done():
            return
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(value)

    def deliver() -> None:
        try:
            loop.call_soon_threadsafe(set_outcome)
        except RuntimeError:
            return  # the loop has ended and the result is not awaited

    return deliver
