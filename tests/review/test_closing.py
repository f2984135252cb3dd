"""Turns and sessions that are stopped or closed in the middle: what ends with them, and what does not wait for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest
from tests.kit import call, plan, recorded, reopened, results, runtime, say, session

from jaato.errors import JaatoError
from jaato.protocol.events import BackgroundUpdated, Event, TurnCompleted
from jaato.tools.call import Call
from jaato.tools.tool import tool


@tool(core=True, access="read")
async def forever() -> str:
    """Never end."""
    await anyio.sleep_forever()
    return "never"


def test_a_session_that_closes_waits_for_the_end_of_its_turn(tmp_path: Path) -> None:
    """Closing under a running turn stops it, the turn's end is in the log, and nothing is seen afterwards."""

    async def main() -> None:
        made = runtime(tmp_path, [forever])
        live = made.create(plan(tmp_path, [call("forever")]))
        await live.__aenter__()
        events: list[Event] = []
        live.journal.bus.listen(events.append)
        running = asyncio.ensure_future(live.post("go"))
        while not live.state.started:
            await anyio.sleep(0)
        await live.__aexit__(None, None, None)
        assert isinstance(events[-2], TurnCompleted)
        count = len(events)
        made.close()
        turn = await running
        assert turn is not None
        assert turn.reason == "cancelled"
        assert len(events) == count
        with pytest.raises(JaatoError, match="closed"):
            await live.post("more")
        with pytest.raises(JaatoError, match="closed"):
            await live.background(lambda: anyio.sleep(0))

    anyio.run(main)


def test_a_call_that_closes_its_own_session_does_not_wait_for_itself(tmp_path: Path) -> None:
    """A tool may close the session it runs in."""

    @tool(core=True, access="read")
    async def leave(*, call: Call) -> str:
        """Close."""
        await call.services["session"].__aexit__(None, None, None)
        return "left"

    async def main() -> None:
        async with session(tmp_path, [call("leave"), say("never")], [leave]) as live:
            with anyio.fail_after(60):
                turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "cancelled"

    anyio.run(main)


def test_a_closed_session_s_tasks_are_cancelled_and_known_when_it_opens_again(tmp_path: Path) -> None:
    """A task that a close has stopped is recorded as cancelled, and the reopened session still shows it."""

    @tool(core=True, access="read", background_after_s=0.0)
    async def long() -> str:
        """Go on and on."""
        await anyio.sleep_forever()
        return "never"

    async def main() -> None:
        async with session(tmp_path, [call("long"), say("done")], [long]) as live:
            await live.post("go")
            session_id = live.state.session_id
        async with reopened(tmp_path, session_id, [], [long]) as again:
            updates = [event for event in recorded(again) if isinstance(event, BackgroundUpdated)]
            assert [event.status for event in updates] == ["running", "cancelled"]
            (task,) = again.tasks.all()
            assert task.status.value == "cancelled"
            assert task.done.is_set()

    anyio.run(main)


def test_a_tool_that_never_returns_does_not_keep_the_program_alive(tmp_path: Path) -> None:
    """After its timeout a blocking tool is left to itself; further calls run, and the program can end."""
    code = f"""
import threading, anyio
from pathlib import Path
from tests.kit import calls, results, say, session
from jaato.tools.tool import tool

@tool(core=True, access="read", timeout_s=0.01)
def never() -> str:
    "Wait for what does not come."
    threading.Event().wait()
    return ""

async def main() -> None:
    async with session(Path({str(tmp_path)!r}), [calls(*[("never", {{}})] * 10), say("done")], [never]) as live:
        await live.post("go")
        print([result.error.code for result in results(live)].count("tool_timeout"))

anyio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout.strip()) == (0, "10"), done.stderr


def test_the_threads_of_a_session_end_with_it(tmp_path: Path) -> None:
    """Worker threads are reused while a session lives and are gone soon after."""

    @tool(core=True, access="read")
    def work() -> int:
        """Say which thread this is."""
        return threading.get_ident()

    async def main() -> None:
        before = threading.active_count()
        async with session(tmp_path, [*[call("work")] * 20, say("done")], [work]) as live:
            await live.post("go")
            assert len({result.structured for result in results(live)}) == 1
        while threading.active_count() > before:
            await anyio.sleep(0)

    anyio.run(main)


def test_a_message_after_a_stop_opens_a_turn_of_its_own(tmp_path: Path) -> None:
    """What the user says after a stop does not wait in the inbox of the turn that ends."""

    async def main() -> None:
        async with session(tmp_path, [call("forever"), say("heard")], [forever]) as live:
            running = asyncio.ensure_future(live.post("go"))
            while not live.state.started:
                await anyio.sleep(0)
            live.stop()
            turn = await live.post("rather this")
            assert turn is not None
            assert turn.reason == "stop"
            assert (await running).reason == "cancelled"  # type: ignore[union-attr]
            assert live.state.messages[-1].text == "heard"

    anyio.run(main)
