"""Work that is begun where it comes up: where it never waits it needs no task, which would cost as much as a short call."""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from sys import getrefcount
from typing import Any

Work = Coroutine[Any, Any, None]
Has = Callable[[asyncio.Task[None]], None]
Over = Callable[[asyncio.Task[None], BaseException | None], None]


class Spare:
    """A task that waits for work, whose first step then runs within it but outside of its turn. Work that waits for
    something is gone on with by the task: all of it is in one task, which can be cancelled at any time, and in one context.

    A task that is made with `eager_start` (Python 3.12) does the same, once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._gate: asyncio.Future[None] = loop.create_future()
        self._rest: Rest | None = None
        self._parked = False
        self.task = loop.create_task(self._wait())

    @property
    def ready(self) -> bool:
        """Whether it waits for work."""
        return self._parked and not self._gate.done()

    @property
    def used(self) -> bool:
        """Whether it never will again."""
        return self._gate.done() or self.task.done()

    def begin(self, work: Work) -> bool:
        """Run the work until it waits for something: whether it does. Raises what the work raises before that."""
        context = copy_context()
        _enter_task(self._loop, self.task)
        try:
            awaited = context.run(work.send, None)
        except StopIteration:
            return False
        finally:
            _leave_task(self._loop, self.task)
        self._rest = Rest(work, context, awaited)
        if not self._gate.done():  # else it has cancelled itself
            self._gate.set_result(None)
        return True

    def retire(self) -> None:
        """Do no other work: somebody has kept the task of work that is over, to cancel it or to hear of its end."""
        if not self._gate.done():
            self._gate.set_result(None)

    async def _wait(self) -> None:
        self._parked = True
        try:
            await self._gate
        except asyncio.CancelledError as error:
            if self._rest is None:
                raise
            self._rest.cancel(error)
        if self._rest is not None:
            await self._rest


class Rest:
    """What is left of work that waits for `awaited`, gone on with as the task would that had begun it."""

    def __init__(self, work: Work, context: Context, awaited: Any) -> None:
        self._work = work
        self._context = context
        self._awaited = awaited
        self._cancelled: asyncio.CancelledError | None = None

    def cancel(self, error: asyncio.CancelledError) -> None:
        """The task was cancelled before it went on: so is what is awaited, and the work hears it from there."""
        if self._awaited is None or not self._awaited.cancel(*error.args):
            self._cancelled = error

    def __await__(self) -> Generator[Any, Any, None]:
        step: Callable[[Any], Any] = self._work.send
        awaited: Any = self._awaited
        if self._cancelled is not None:
            awaited = self._context.run(self._work.throw, self._cancelled)
        while True:
            try:
                thing = yield awaited
                step = self._work.send
            except GeneratorExit:
                self._context.run(self._work.close)
                raise
            except BaseException as error:  # noqa: BLE001 whatever is thrown in is the work's to handle
                step, thing = self._work.throw, error
            try:
                awaited = self._context.run(step, thing)
            except StopIteration:
                return


class Eager:
    """Begins work within a task that is at hand; as soon as that is taken there is another."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._spare = Spare(self._loop)

    def begin(self, work: Work, has: Has, over: Over, *, at_once: bool) -> None:
        """Do the work, as far as it goes `at_once`, if there is a task for it; else when it is its turn. `has` is told of its
        task before it begins, `over` of the task and what it raised when it has ended, but not of work that has at once
        and raised nothing. Being cancelled counts as raising nothing."""
        spare = self._at_hand() if at_once else None
        task = self._loop.create_task(work) if spare is None else spare.task
        holders = getrefcount(task)
        has(task)
        if spare is not None:
            try:
                if not spare.begin(work):
                    if getrefcount(task) > holders or task._callbacks:  # noqa: SLF001 nothing else has them
                        spare.retire()
                    return
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 as a task would keep it
                spare.retire()
                over(task, None if isinstance(error, asyncio.CancelledError) else error)
                return
        task.add_done_callback(lambda task: over(task, None if task.cancelled() else task.exception()))

    def _at_hand(self) -> Spare | None:
        """The task that work can be begun in now; None where there is none yet, or a task is running."""
        spare = self._spare
        if spare.ready:
            return spare if asyncio.current_task(self._loop) is None else None
        if spare.used:
            self._spare = Spare(self._loop)
        return None

    def close(self) -> None:
        """There is no more work."""
        self._spare.task.cancel()
