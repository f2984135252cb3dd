"""What a hostile tool may raise, return, print or change, and what must hold all the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, results, say, session

from jaato.protocol.events import Event, ToolCallStart, ToolOutput
from jaato.protocol.messages import Text
from jaato.tools.call import CURRENT, Call, Output
from jaato.tools.tool import tool


@tool(core=True, access="read", background_after_s=30.0)
async def movable(n: int) -> int:
    """Quick, but allowed to go on in the background."""
    await anyio.sleep(0)
    return n


class Broken:
    """Nothing about it can be shown."""

    def __repr__(self) -> str:
        raise ValueError("no text")


class BrokenDict(dict[str, Any]):
    """It cannot even be walked through."""

    def items(self) -> Any:
        """Refuse."""
        raise ValueError("no items")


def knot() -> list[Any]:
    """A list that contains itself twice: every way of walking through it doubles at each level."""
    tied: list[Any] = []
    tied += [tied, tied]
    return tied


def tower() -> list[Any]:
    """Small in memory, ten to the tenth when written out."""
    value: list[Any] = [0]
    for _ in range(10):
        value = [value] * 10
    return value


def test_eight_first_background_capable_calls_all_run(tmp_path: Path) -> None:
    """Calls that may move to the background can be the very first, and all at once."""

    async def main() -> None:
        script = [calls(*[("movable", {"n": n}) for n in range(8)]), say("done")]
        async with session(tmp_path, script, [movable]) as live:
            await live.post("go")
            assert [result.structured for result in results(live)] == list(range(8))

    anyio.run(main)


@pytest.mark.parametrize(
    "fault", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, asyncio.CancelledError]
)
@pytest.mark.parametrize("blocking", [False, True])
def test_whatever_a_tool_raises_is_its_own_failure(
    tmp_path: Path, fault: type[BaseException], blocking: bool
) -> None:
    """An exception that would end a program or a task ends only the call of the tool that raised it."""

    @tool(core=True, access="read")
    async def soon() -> str:
        """Fail on the loop."""
        raise fault

    @tool(core=True, access="read")
    def inside() -> str:
        """Fail in a thread."""
        raise fault

    async def main() -> None:
        made = inside if blocking else soon
        async with session(tmp_path, [call(made.__name__), say("done")], [made]) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "stop"
            assert not results(live)[0].ok
            problem = results(live)[0].error
            assert problem is not None
            assert fault.__name__ in problem.message

    anyio.run(main)


@pytest.mark.parametrize(
    "value",
    [{"a": Broken()}, BrokenDict(a=1), Output(text=5), ({"a": 1}, {"continuation_id": object()})],  # type: ignore[arg-type]
    ids=["broken repr", "broken dict", "wrong types", "wrong metadata"],
)
def test_a_value_that_cannot_be_written_ends_no_turn(tmp_path: Path, value: Any) -> None:
    """Whatever a tool returns, the call gets a durable result and the turn goes on."""

    @tool(core=True, access="read")
    async def odd() -> Any:
        """Return it."""
        return value

    async def main() -> None:
        async with session(tmp_path, [call("odd"), say("done")], [odd]) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "stop"
            assert len(results(live)) == 1

    anyio.run(main)


@pytest.mark.parametrize("make", [knot, tower])
def test_a_value_without_end_is_cut_in_bounded_work(tmp_path: Path, make: Callable[[], Any]) -> None:
    """A value that contains itself, or one part a billion times, is shown as far as it goes."""

    @tool(core=True, access="read")
    async def endless() -> Any:
        """Return it."""
        return make()

    async def main() -> None:
        async with session(tmp_path, [call("endless"), say("done")], [endless]) as live:
            await live.post("go")
            assert results(live)[0].ok
            (shown,) = results(live)[0].content
            assert isinstance(shown, Text)
            assert len(shown.text) < 40_000

    anyio.run(main)


def test_an_error_of_a_million_characters_is_cut_and_kept(tmp_path: Path) -> None:
    """A long failure reaches the model as head and tail, with a handle to all of it."""

    @tool(core=True, access="read")
    async def shout() -> str:
        """Fail loudly."""
        raise ValueError("x" * 1_000_000)

    async def main() -> None:
        async with session(tmp_path, [call("shout"), say("done")], [shout]) as live:
            await live.post("go")
            problem = results(live)[0].error
            assert problem is not None
            assert len(problem.message) < 31_000
            assert 'readFile(path="result:' in problem.message
            assert len(problem.traceback or "") <= 30_000

    anyio.run(main)


def test_what_a_tool_does_to_its_arguments_stays_with_it(tmp_path: Path) -> None:
    """History and events show the arguments that were asked for, whatever the tool makes of its own."""

    @tool(core=True, access="read")
    async def spoil(d: dict[str, Any], *, call: Call) -> str:
        """Change everything."""
        d["evil"] = call.arguments["more"] = call.arguments["d"]["deep"] = True
        return "ok"

    async def main() -> None:
        events: list[Event] = []
        async with session(tmp_path, [call("spoil", d={"x": 1}), say("done")], [spoil]) as live:
            live.journal.bus.listen(events.append)
            await live.post("go")
            assert live.state.messages[1].function_calls[0].arguments == {"d": {"x": 1}}
        started = [event for event in events if isinstance(event, ToolCallStart)]
        assert started[0].arguments == {"d": {"x": 1}}

    anyio.run(main)


def test_output_comes_before_the_result_and_never_after_it(tmp_path: Path) -> None:
    """A call's output precedes its end; what is said later, from any thread, is not shown, nor does the call stay
    the current one."""

    async def main() -> None:
        kept: list[Call] = []
        events: list[Event] = []

        @tool(core=True, access="read")
        async def talk(*, call: Call) -> str:
            """Say something."""
            call.output("hello")
            kept.append(call)
            return "ok"

        async with session(tmp_path, [call("talk"), say("done")], [talk]) as live:
            live.journal.bus.listen(events.append)
            await live.post("go")
            names = [type(event).__name__ for event in events]
            assert names.index("ToolOutput") < names.index("ToolCallEnd")
            threads = [threading.Thread(target=kept[0].output, args=("late",)) for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            await anyio.sleep(0)
            assert sum(isinstance(event, ToolOutput) for event in events) == 1
            assert CURRENT.get() is None

    anyio.run(main)
