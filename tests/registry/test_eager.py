"""Work that is begun where it comes up, and goes on in a task."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio
import pytest

from jaato.server.registry.eager import Eager

WORD: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="none")


class Odd(BaseException):
    """Nothing that is foreseen."""


class Desk:
    """Begins work, and notes its task and how it ended."""

    def __init__(self) -> None:
        self.eager = Eager()
        self.tasks: list[asyncio.Task[None]] = []
        self.over: list[BaseException | None] = []

    def begin(self, work: Coroutine[Any, Any, None], *, at_once: bool = True) -> asyncio.Task[None]:
        """Begin it; gives its task."""
        self.eager.begin(
            work, self.tasks.append, lambda _task, problem: self.over.append(problem), at_once=at_once
        )
        return self.tasks[-1]


def run(body: Callable[[Desk], Coroutine[Any, Any, None]]) -> None:
    """Run a body with a desk whose first task is at hand; it calls `begin` from a callback of the loop, as a line does."""

    async def main() -> None:
        desk = Desk()
        await asyncio.sleep(0)
        before = len(asyncio.all_tasks())
        await body(desk)
        await asyncio.sleep(0)
        desk.eager.close()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) < before

    asyncio.run(main())


async def called(function: Callable[[], object]) -> None:
    """Have the loop call it, outside of any task; raises what it raises."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def call() -> None:
        try:
            function()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    asyncio.get_running_loop().call_soon(call)
    await done


def test_what_never_waits_is_done_at_once() -> None:
    """It is done when `begin` returns, within a task, which the next one has too; what it sets in its context is its own."""
    seen: list[Any] = []

    async def work() -> None:
        seen.append((id(asyncio.current_task()), WORD.get()))
        WORD.set("mine")

    async def body(desk: Desk) -> None:
        told: list[int] = []

        def twice() -> None:
            for _ in range(2):
                desk.eager.begin(work(), lambda task: told.append(id(task)), print, at_once=True)
            assert len(seen) == 2
            assert asyncio.current_task() is None

        await called(twice)
        assert seen == [(told[0], "none")] * 2
        assert told[0] == told[1]
        assert WORD.get() == "none"

    run(body)


@pytest.mark.parametrize("at_once", [True, False])
def test_what_waits_goes_on_in_its_task(at_once: bool) -> None:
    """From its beginning to its end it is in one task and one context; time limits and scopes hold over both parts."""
    seen: list[Any] = []

    async def work() -> None:
        WORD.set("mine")
        seen.append(asyncio.current_task())
        with anyio.move_on_after(0.01) as scope:
            await anyio.sleep(60)
        seen.append((asyncio.current_task(), WORD.get(), scope.cancelled_caught))
        async with anyio.create_task_group() as group:
            group.start_soon(asyncio.sleep, 0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)

    async def body(desk: Desk) -> None:
        await called(lambda: desk.begin(work(), at_once=at_once))
        await desk.tasks[0]
        await asyncio.sleep(0)
        assert seen == [desk.tasks[0], (desk.tasks[0], "mine", True)]
        assert desk.over == [None]
        second: list[bool] = []

        async def quick() -> None:
            second.append(True)

        await called(lambda: desk.begin(quick()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert second == [True]

    run(body)


def test_what_it_raises_is_told() -> None:
    """Whether it raises before it waits or after, the one who began it hears; so of a cancellation, which is no problem."""

    async def fails(waits: bool) -> None:
        if waits:
            await asyncio.sleep(0)
        raise LookupError("no")

    async def cancels(waits: bool) -> None:
        if waits:
            await asyncio.sleep(0)
        raise asyncio.CancelledError

    async def body(desk: Desk) -> None:
        for waits in (False, True):
            for work in (fails, cancels):
                await called(partial(desk.begin, work(waits)))
                for _ in range(4):
                    await asyncio.sleep(0)
        assert [str(one) for one in desk.over] == ["no", "None"] * 2

    run(body)


@pytest.mark.parametrize("keeps", ["the task", "a callback"])
def test_a_task_that_somebody_keeps_is_not_used_again(keeps: str) -> None:
    """Who cancels the task of work that is over ends nothing else, and who waits for its end hears of it."""
    kept: list[asyncio.Task[Any]] = []
    seen: list[str] = []

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        if keeps == "the task":
            kept.append(task)
        else:
            task.add_done_callback(lambda _task: seen.append("heard"))

    async def other() -> None:
        await asyncio.sleep(0.001)
        seen.append("whole")

    async def body(desk: Desk) -> None:
        def begin(work: Coroutine[Any, Any, None]) -> None:
            desk.eager.begin(work, lambda _: None, lambda *_: None, at_once=True)

        await called(lambda: begin(work()))
        await called(lambda: begin(other()))
        for task in kept:
            task.cancel()
        while "whole" not in seen:
            await asyncio.sleep(0.001)
        assert seen == (["whole"] if kept else ["heard", "whole"])

    run(body)


@pytest.mark.parametrize("error", [Odd(), GeneratorExit(), BaseExceptionGroup("several", [Odd()])], ids=repr)
def test_nothing_it_raises_ends_more_than_it(error: BaseException) -> None:
    """What is no `Exception` is told as well, as a task keeps it."""

    async def work() -> None:
        raise error

    async def body(desk: Desk) -> None:
        await called(lambda: desk.begin(work()))
        assert desk.over == [error]

    run(body)


def test_who_cancels_it_says_why() -> None:
    """The words of a cancellation reach the work, also before its task goes on."""
    seen: list[Any] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            seen.append(error.args)
            raise

    async def body(desk: Desk) -> None:
        await called(lambda: desk.begin(work()).cancel("enough"))
        await asyncio.wait(desk.tasks)

    run(body)
    assert seen == [("enough",)]


@pytest.mark.parametrize("when", ["by itself", "before it goes on", "while it waits", "for nothing"])
@pytest.mark.parametrize("heeds", [True, False])
def test_it_can_be_cancelled_at_any_time(when: str, heeds: bool) -> None:
    """A cancellation reaches it where it waits, whenever it comes, once; it may clean up, or go on."""
    seen: list[str] = []

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        if when == "by itself":
            task.cancel()
        try:
            await (asyncio.sleep(0) if when == "for nothing" else asyncio.sleep(60))
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("cleaned up")
            if heeds:
                raise
            task.uncancel()
        seen.append("went on")

    async def body(desk: Desk) -> None:
        def begin() -> None:
            task = desk.begin(work())
            if when in ("before it goes on", "for nothing"):
                task.cancel()

        await called(begin)
        if when == "while it waits":
            await asyncio.sleep(0.001)
            desk.tasks[0].cancel()
        await asyncio.wait(desk.tasks)
        await asyncio.sleep(0)
        assert seen == ["cancelled", "cleaned up"] + ["went on"] * (not heeds)
        assert desk.tasks[0].cancelled() is heeds
        assert desk.over == [None]

    run(body)


def test_within_a_task_it_waits_for_its_turn() -> None:
    """Begun where a task runs it has a task of its own, so that no two are one."""
    seen: list[Any] = []

    async def inner() -> None:
        seen.append(asyncio.current_task())

    async def body(desk: Desk) -> None:
        async def outer() -> None:
            seen.append(asyncio.current_task())
            desk.begin(inner())
            assert len(seen) == 1

        await called(lambda: desk.begin(outer()))
        desk.begin(inner())
        await asyncio.wait(desk.tasks[1:])
        assert len(set(seen)) == 3

    run(body)


def test_what_is_left_at_the_end_is_closed() -> None:
    """Work that waits when its loop ends is cancelled and cleans up."""
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(WORD.get())

    async def main() -> None:
        desk = Desk()
        await asyncio.sleep(0)
        await called(lambda: desk.begin(work()))

    asyncio.run(main())
    assert seen == ["none"]
