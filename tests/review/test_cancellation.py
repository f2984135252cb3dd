"""Cancellation at every moment: whichever step of a turn is the last one, the history is valid and the session goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.kit import call, calls, provider_of, recorded, reopened, say, session
from tests.review.pairs import assert_paired

from jaato.abc.provider import ModelRequest
from jaato.errors import SessionBusy
from jaato.protocol.events import ToolCallEnd, ToolCallStart, TurnCompleted
from jaato.providers.scripted import ScriptedProvider
from jaato.runtime.embedding.handlers import answer_questions
from jaato.tools.permissions.gate import Policy
from jaato.tools.tool import tool

STEPS = [*range(1, 50), *range(50, 200, 4)]


class Halting(ScriptedProvider):
    """A scripted model that suspends before and after everything it says."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        """Play the next step, slowly."""
        async for chunk in super().stream(request):
            await anyio.lowlevel.checkpoint()
            yield chunk
            await anyio.lowlevel.checkpoint()


@tool(core=True, access="execute")
async def steps(n: int) -> int:
    """Suspend a few times."""
    for _ in range(n):
        await anyio.lowlevel.checkpoint()
    return n


@tool(core=True, access="read", background_after_s=0.0)
async def moved(n: int) -> int:
    """Suspend a few times, in the background."""
    return await steps(n)


@tool(core=True, access="read")
def blocking(n: int) -> int:
    """Run in a thread."""
    return n


SCRIPT = [
    calls(("steps", {"n": 3}), ("moved", {"n": 2}), ("blocking", {"n": 1}), ("steps", {"n": "wrong"})),
    call("steps", n=2),
    say("said", chunks=3),
]


@pytest.mark.parametrize("way", ["stop", "cancel", "thread"])
def test_a_turn_can_be_ended_at_every_step(tmp_path: Path, way: str) -> None:
    """Stopped, cancelled from outside or stopped from a thread after any number of steps: the turn's end and a result
    for each call are in the log, no call began twice, no question is open, and the next message is answered."""

    async def one(path: Path, count: int) -> str:
        path.mkdir()
        tools = [steps, moved, blocking]
        async with session(path, [], tools, policy=Policy.of({})) as live:
            live.model._source = Halting([*SCRIPT], keep_requests=True)
            answer_questions(live, lambda _event: "y")
            running = asyncio.ensure_future(live.post("go"))
            for _ in range(count):
                await asyncio.sleep(0)
            match way:
                case "stop":
                    live.stop()
                case "cancel":
                    running.cancel()
                case _:
                    loop = asyncio.get_running_loop()
                    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(live.stop,))
                    thread.start()
                    thread.join()
            with anyio.fail_after(60):
                await asyncio.wait([running])
            assert not live.is_busy
            assert_paired(live.state.messages)
            assert not live.state.open_calls
            assert not live.state.questions
            log = recorded(live)
            begun = [event.call_id for event in log if isinstance(event, ToolCallStart)]
            ended = [event.call_id for event in log if isinstance(event, ToolCallEnd)]
            assert len(set(begun)) == len(begun)
            assert len(set(ended)) == len(ended)
            ends = [event.reason for event in log if isinstance(event, TurnCompleted)]
            live.model._source = Halting([say("again")] * 30)
            turn = await live.post("more")
            assert turn is not None
            assert turn.reason == "stop"
            assert_paired(live.state.messages)
            assert live.state.messages[-1].text == "again"
            return ends[0] if ends else "never begun"

    async def main() -> None:
        reasons: list[str] = []
        for count in STEPS:
            reasons.append(await one(tmp_path / str(count), count))
            if reasons[-1] == "stop":
                break
        assert {"cancelled", "interrupted"} & set(reasons)

    anyio.run(main)


def test_a_second_writer_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    """Who would write a session that another one holds is told who that is; the holder goes on, and nothing is lost."""

    async def main() -> None:
        async with session(tmp_path, [say("one"), say("two")]) as first:
            await first.post("go")
            session_id = first.state.session_id
            async with reopened(tmp_path, session_id, [say("never")]) as second:
                with pytest.raises(SessionBusy, match="is held by"):
                    await second.post("elsewhere")
            await first.post("here")
        async with reopened(tmp_path, session_id, [say("three")] * 3) as again:
            provider_of(again)._next = 0
            await again.post("on")
            said = [message.text for message in again.state.messages]
            assert said == ["go", "one", "here", "two", "on", "three"]

    anyio.run(main)
