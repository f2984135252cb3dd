"""The turn loop: calls, their order, what is durable when, limits, the inbox, watchers."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.agent.echo import echo
from tests.kit import call, calls, provider_of, results, say, session

from jaato.agent.turn import Limits
from jaato.protocol.events import (
    Event,
    MidTurnInjected,
    MidTurnQueued,
    ToolCallEnd,
    ToolCallStart,
    ToolOutput,
    TurnCompleted,
)
from jaato.tools.call import Call
from jaato.tools.tool import tool


@pytest.mark.spec("S3", "Message Flow Sequence")
def test_a_call_runs_and_its_result_goes_back_to_the_model(tmp_path: Path) -> None:
    """A reply with calls is answered with their results until the model returns text without calls."""

    async def main() -> None:
        async with session(tmp_path, [call("echo", text="hi"), say("done")], [echo]) as live:
            turn = await live.post("go")
            assert turn is not None
            assert (turn.reason, turn.model_calls, turn.tool_calls) == ("stop", 2, 1)
            assert [message.role for message in live.state.messages] == [
                "user",
                "assistant",
                "tool",
                "assistant",
            ]
            assert results(live)[0].content[0].text == "hi"
            assert provider_of(live).requests[1].messages[-2].role == "tool"
            assert turn.usage.input_tokens == 200

    anyio.run(main)


def test_the_start_is_durable_before_the_tool_runs(tmp_path: Path) -> None:
    """When a tool runs, its start is in the store, and no end yet."""
    seen: list[list[str]] = []

    async def main() -> None:
        @tool(core=True, access="read")
        async def look(*, call: Call) -> str:
            """Look at the log."""
            store = call.services["session"].journal.store
            seen.append([type(event).__name__ for event in store.read(call.session_id)])
            return "ok"

        async with session(tmp_path, [call("look"), say("done")], [look]) as live:
            await live.post("go")
        assert seen[0][-2:] == ["MessageModel", "ToolCallStart"]

    anyio.run(main)


def test_the_result_is_durable_before_the_model_sees_it(tmp_path: Path) -> None:
    """When the model is asked again, the call's end is in the store."""
    seen: list[str] = []

    async def main() -> None:
        def reply(_request: Any) -> Any:
            seen.extend(type(event).__name__ for event in live.journal.store.read(live.state.session_id))
            return say("done")

        async with session(tmp_path, [call("echo", text="x"), reply], [echo]) as live:
            await live.post("go")
        assert seen[-1] == "ToolCallEnd"

    anyio.run(main)


@pytest.mark.spec("S0", "Parallel Tool Execution")
@pytest.mark.spec("S4", "5. Parallel Tool Execution by Default")
@pytest.mark.parametrize("parallel", [1, 8])
def test_calls_of_one_reply_run_at_once_and_results_keep_their_order(tmp_path: Path, parallel: int) -> None:
    """Independent calls overlap, eight at a time and never more; results stand in call order whoever ends first."""
    running: list[int] = []
    most: list[int] = []
    lock = threading.Lock()
    together = threading.Barrier(parallel)

    @tool(core=True, access="read")
    def work(n: int) -> int:
        """Work."""
        with lock:
            running.append(n)
            most.append(len(running))
        together.wait(30)
        with lock:
            running.remove(n)
        return n

    async def main() -> None:
        script = [calls(*[("work", {"n": n}) for n in range(16)]), say("done")]
        async with session(tmp_path, script, [work], parallel=parallel) as live:
            await live.post("go")
            assert [result.structured for result in results(live)] == list(range(16))
        assert max(most) == parallel

    anyio.run(main)


def test_each_parallel_call_has_an_id_of_its_own(tmp_path: Path) -> None:
    """Every call has a unique id that its events and its result share."""

    async def main() -> None:
        events: list[Event] = []
        script = [calls(("echo", {"text": "a"}), ("echo", {"text": "b"})), say("done")]
        async with session(tmp_path, script, [echo]) as live:
            live.journal.bus.listen(events.append)
            await live.post("go")
        started = [event.call_id for event in events if isinstance(event, ToolCallStart)]
        assert len(set(started)) == 2
        assert {event.call_id for event in events if isinstance(event, ToolCallEnd)} == set(started)

    anyio.run(main)


def test_limits_end_the_turn(tmp_path: Path) -> None:
    """A turn stops at its limit of model calls, with every call answered."""

    async def main() -> None:
        script = [call("echo", text=str(n)) for n in range(10)]
        async with session(tmp_path, script, [echo], limits=Limits(model_calls=3)) as live:
            turn = await live.post("go")
            assert turn is not None
            assert (turn.reason, turn.model_calls) == ("limit", 3)
            assert len(results(live)) == 3

    anyio.run(main)


@pytest.mark.spec("S4", "1. Model-First Decision Making")
@pytest.mark.spec("C5", "Client, runtime, session")
def test_a_message_while_the_model_works_waits_for_the_next_pause(tmp_path: Path) -> None:
    """Input that comes mid-turn is queued, is durable, and joins after the running calls; the stream is not cut off."""

    async def main() -> None:
        events: list[Event] = []

        @tool(core=True, access="read")
        async def poke(*, call: Call) -> str:
            """Interrupt ourselves."""
            live = call.services["session"]
            assert await live.post("from a child", source="child") is None
            assert await live.post("also do this") is None
            return "ok"

        async with session(tmp_path, [call("poke"), say("done both")], [poke]) as live:
            live.journal.bus.listen(events.append)
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "stop"
            asked = provider_of(live).requests[1].messages
            assert [m.text for m in asked if m.role == "user"] == [
                "go",
                "also do this",
                "[child] from a child",
            ]
            assert [m.source for m in asked if m.role == "user"] == ["user", "user", "child"]
        assert sum(isinstance(event, MidTurnQueued) for event in events) == 2
        assert sum(isinstance(event, MidTurnInjected) for event in events) == 2

    anyio.run(main)


def test_a_message_that_comes_with_the_last_reply_is_still_answered(tmp_path: Path) -> None:
    """The turn goes on while something waits in the inbox."""

    async def main() -> None:
        def first(_request: Any) -> Any:
            live.notify("one more thing")
            return say("first")

        async with session(tmp_path, [first, say("second")], []) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.model_calls == 2
            assert [m.text for m in live.state.messages] == [
                "go",
                "first",
                "[system] one more thing",
                "second",
            ]
            assert not live.state.queued

    anyio.run(main)


def test_output_of_a_tool_in_a_thread_reaches_the_watchers(tmp_path: Path) -> None:
    """What a tool shows while it runs comes as tool.output with offsets that join to the whole."""

    async def main() -> None:
        pieces: list[ToolOutput] = []

        @tool(core=True, access="read")
        def chatty(*, call: Call) -> str:
            """Talk."""
            for n in range(100):
                call.output(f"line {n}\n")
            time.sleep(0.01)
            return "ok"

        async with session(tmp_path, [call("chatty"), say("done")], [chatty]) as live:
            live.journal.bus.listen(lambda e: pieces.append(e) if isinstance(e, ToolOutput) else None)
            await live.post("go")
        assert "".join(piece.text for piece in pieces) == "".join(f"line {n}\n" for n in range(100))
        assert [piece.offset for piece in pieces] == [
            sum(len(p.text) for p in pieces[:index]) for index in range(len(pieces))
        ]

    anyio.run(main)


def test_a_listener_that_fails_harms_nobody(tmp_path: Path) -> None:
    """Events reach the others, and the turn goes on, when one watcher raises."""

    async def main() -> None:
        seen: list[Event] = []

        def bad(_event: Event) -> None:
            raise RuntimeError("a view's fault")

        async with session(tmp_path, [say("done")], []) as live:
            live.journal.bus.listen(bad)
            live.journal.bus.listen(seen.append)
            await live.post("go")
        assert isinstance([event for event in seen if event.durable][-1], TurnCompleted)

    anyio.run(main)
