"""Starts that are owed: seen before what comes after them, and not missed where they were lost."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.registry.test_recorded import DONE, asked, logged, opened, tool_of

from jaato.errors import StoreError
from jaato.protocol.events import SharedUpdated, ToolCallEnd, ToolCallStart, ToolOutput
from jaato.server.registry.course import Done, How
from jaato.server.registry.heard import Heard
from jaato.tools.call import Call
from jaato.tools.tool import tool, tool_from


def test_its_beginning_is_seen_first_though_an_effect_is_about_to_be_written(tmp_path: Path) -> None:
    """What a call says is seen after its beginning, also in the moment in which the end of another call waits for its turn."""
    seen: list[type] = []

    async def main() -> None:
        async with opened(tmp_path) as (caller, _, _):
            journal = caller.session.journal
            journal.bus.listen(lambda event: seen.append(type(event)))

            def start() -> ToolCallStart:
                return ToolCallStart(**journal.head(), call_id="c", tool="look", arguments={})

            for owed in (True, False):
                if owed:
                    journal.owe("c", start)
                else:
                    journal.hold(start(), hurried=False)
                journal.hold(SharedUpdated(**journal.head(), key="k", value=1))
                journal.show(ToolOutput(**journal.shown(), call_id="c", text="so far"))
                journal.let_go()

    anyio.run(main)
    assert [kind for kind in seen if kind is not SharedUpdated] == [ToolCallStart, ToolOutput] * 2


def test_an_end_whose_beginning_was_lost_says_what_that_would_have(tmp_path: Path) -> None:
    """A read whose start the store did not take ends with its arguments and its origin."""

    async def main() -> None:
        async with opened(tmp_path) as (caller, store, _):
            DONE.clear()
            async with anyio.create_task_group() as group:
                group.start_soon(caller.call, tool_of(caller, "wait"), asked(), {"request_id": "r-1"})
                await anyio.sleep(0)
                store.full = True
                caller.session.journal.let_go()
                with pytest.raises(StoreError, match="disk is full"):
                    await caller.call(tool_of(caller, "change"), asked(), {"request_id": "r-2"})
                store.full = False
                caller.session.journal.fault = None
                DONE.set()
            caller.session.journal.let_go()
            (end,) = [
                event
                for event in store.read(caller.session.state.session_id)
                if isinstance(event, ToolCallEnd)
            ]
            assert (end.tool, end.origin, end.arguments) == ("wait", {"request_id": "r-1"}, {})

    anyio.run(main)


def test_a_read_that_is_cancelled_at_once_had_begun(tmp_path: Path) -> None:
    """What is over before its start is written is not taken for a call that was never made."""

    async def main() -> None:
        async with opened(tmp_path) as (caller, _, _):
            DONE.clear()
            ends: list[Done] = []

            async def made() -> None:
                ends.append(await caller.call(tool_of(caller, "wait"), asked(), {"request_id": "r-1"}))

            async with anyio.create_task_group() as group:
                group.start_soon(made)
                while not caller.session.journal.owed:
                    await anyio.sleep(0)
                assert caller.cancel("r-1") == 1
            problem = ends[0].problem
            assert problem is not None
            assert (problem.code, ends[0].begun) == ("cancelled", True)

    anyio.run(main)


def test_a_call_that_goes_on_in_the_background_ends_once(tmp_path: Path) -> None:
    """It has one end in the log, also where its task is over before the end that says it goes on is written."""
    over = anyio.Event()

    @tool(access="read", background_after_s=60.0)
    async def go_on(call: Call, background: bool = False) -> str:
        """Go on for a while."""
        call.output("so far")
        await over.wait()
        return "done"

    async def main() -> None:
        async with opened(tmp_path) as (caller, store, _):
            done = await caller.call(tool_from(go_on), asked(background=True), {"request_id": "r-1"})
            assert done.value["auto_backgrounded"] is True
            over.set()
            while caller.session.tasks.running():
                await anyio.sleep(0)
            caller.session.journal.let_go()
            assert logged(caller, store) == ["Start go_on", "End go_on"]

    anyio.run(main)


def test_a_read_that_is_followed_has_a_start(tmp_path: Path) -> None:
    """Who hears of a call hears that it begins."""

    async def main() -> None:
        async with opened(tmp_path) as (caller, store, _):
            heard = Heard(listens=True)
            await caller.call(tool_of(caller, "look"), asked(text="a"), {}, None, How(heard))
            assert heard.begun
            caller.session.journal.let_go()
            assert logged(caller, store) == ["Start look", "End look"]

    anyio.run(main)
