"""A tool that does not want to end is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, say, session

from jaato.agent import tool_runner
from jaato.agent.tool_runner import make_cancellable
from jaato.tools.tool import tool


async def swallows() -> None:
    """Sleep on whatever happens."""
    while True:
        try:
            await anyio.sleep(3600)
        except asyncio.CancelledError:
            continue


async def swallows_plainly() -> None:
    """The same on asyncio alone."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


async def swallows_everything() -> None:
    """Not even closing ends it."""
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            continue


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("stubborn", [swallows, swallows_plainly, swallows_everything])
def test_a_stopped_turn_ends_though_its_tool_swallows_the_cancellation(
    tmp_path: Path, stubborn: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop means stop: the turn ends, the call is shown as cancelled, and the next turn works."""
    monkeypatch.setattr(tool_runner, "GRACE_S", 0.05)
    begun = anyio.Event()

    @tool(access="read", core=True)
    async def stay() -> str:
        """Stay."""
        begun.set()
        await stubborn()
        return "never"

    async def main() -> None:
        async with session(tmp_path, [call("stay"), say("later")], [stay]) as opened:
            ends: list[Any] = []

            async def turn() -> None:
                ends.append(await opened.post("go"))

            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    group.start_soon(turn)
                    await begun.wait()
                    opened.stop()
                assert ends[0].reason == "cancelled"
                assert opened.state.messages[-1].parts[0].error.code == "cancelled"  # type: ignore[union-attr]
                done = await opened.post("again")
                assert done is not None
                assert done.reason == "stop"

    anyio.run(main)


def test_a_tool_that_cleans_up_in_a_shield_has_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a cancelled tool awaits behind a shield is not cut short."""
    monkeypatch.setattr(tool_runner, "GRACE_S", 0.0)
    begun = anyio.Event()
    cleaned: list[str] = []

    @tool(access="read", core=True)
    async def tidy() -> str:
        """Tidy up."""
        try:
            begun.set()
            await anyio.sleep(3600)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
                cleaned.append("yes")
        return "never"

    async def main() -> None:
        opening = session(tmp_path, [call("tidy"), say("later")], [tidy])
        async with opening as opened, anyio.create_task_group() as group:
            group.start_soon(opened.post, "go")
            await begun.wait()
            opened.stop()
        assert cleaned == ["yes"]

    anyio.run(main)


def test_values_and_errors_pass_through() -> None:
    """Awaited with nobody cancelling, a coroutine behaves as under `await`."""

    async def fine(value: int) -> int:
        await asyncio.sleep(0)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0)
        return value

    async def broken() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def main() -> None:
        assert await make_cancellable(fine(3), "fine", asyncio.current_task()) == 3
        with pytest.raises(ValueError, match="no"):
            await make_cancellable(broken(), "broken", asyncio.current_task())
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.set_result(4)
        assert await make_cancellable(future, "future", asyncio.current_task()) == 4
        with anyio.move_on_after(0.01) as scope:
            await make_cancellable(anyio.sleep(3600), "sleep", asyncio.current_task())
        assert scope.cancelled_caught

    anyio.run(main)


def test_time_limits_of_a_tools_own_are_not_taken_for_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that waits in rounds with a time limit each goes on for as long as it likes."""
    monkeypatch.setattr(tool_runner, "GRACE_S", 0.0)

    async def waits() -> int:
        ended = 0
        for _ in range(3):
            with anyio.move_on_after(0.001) as round_:
                await anyio.sleep_forever()
            ended += round_.cancelled_caught
            await anyio.lowlevel.checkpoint()
        return ended

    async def main() -> None:
        assert await make_cancellable(waits(), "waits", asyncio.current_task()) == 3

    anyio.run(main)
