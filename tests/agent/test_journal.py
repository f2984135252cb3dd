"""What a turn commits, and when."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from tests.kit import call, calls, plan, runtime, say, session

from jaato.errors import StoreError
from jaato.protocol.events import Event, MessageModel, ToolCallStart
from jaato.storage.sqlite import SqliteStore
from jaato.tools.tool import tool


class Counting(SqliteStore):
    """The real store; `commits` has what each append wrote, and after `fail_at` of them the disk is full."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.commits: list[list[str]] = []
        self.fail_at: int | None = None

    def append(self, events: Sequence[Event]) -> None:
        """Write them, and note which."""
        if self.fail_at is not None and len(self.commits) >= self.fail_at:
            raise StoreError("The disk is full.")
        super().append(events)
        self.commits.append([type(event).__name__ for event in events])


@tool(access="read", core=True)
async def look() -> str:
    """Look."""
    return "seen"


def test_a_turn_with_one_call_makes_four_commits(tmp_path: Path) -> None:
    """A reply and the start of its first call become durable together, before the call has any effect."""
    runner = runtime(tmp_path, [look])
    runner.store.close()
    store = Counting(tmp_path / "state" / "jaato.db")
    runner.store = store

    async def main() -> None:
        async with runner.create(plan(tmp_path, [call("look"), say("done")])) as opened:
            store.commits.clear()
            await opened.post("go")

    anyio.run(main)
    runner.close()
    assert store.commits == [
        ["MessageUser"],
        ["MessageModel", "ToolCallStart"],
        ["ToolCallEnd"],
        ["MessageModel", "TurnCompleted"],
    ]


def test_what_is_held_is_durable_when_anything_waits(tmp_path: Path) -> None:
    """While a slow tool or a question waits, the reply that led there is in the log."""
    gone_on = anyio.Event()

    @tool(access="read", core=True)
    async def wait() -> str:
        """Wait."""
        await gone_on.wait()
        return "over"

    async def main() -> None:
        async with session(tmp_path, [calls(("wait", {}), ("wait", {})), say("done")], [wait]) as opened:
            async with anyio.create_task_group() as group:
                group.start_soon(opened.post, "go")
                with anyio.fail_after(60):
                    while len(opened.state.started) < 2:
                        await anyio.sleep(0)
                stored = list(opened.journal.store.read(opened.state.session_id))
                gone_on.set()
            kinds = [type(event) for event in stored]
            assert kinds[-3:] == [MessageModel, ToolCallStart, ToolCallStart]
            assert [event.seq for event in stored if isinstance(event, Event)] == list(
                range(1, len(stored) + 1)
            )

    anyio.run(main)


def test_an_event_held_alone_is_committed_by_the_loop(tmp_path: Path) -> None:
    """Nothing held stays unwritten when the loop has had its turn, though nothing else is recorded."""

    async def main() -> None:
        async with session(tmp_path, [call("look"), say("done")], [look]) as opened:
            await opened.post("go")
            seen: list[Event] = []
            opened.journal.bus.listen(seen.append)
            last = [event for event in opened.state.messages if event.role == "assistant"][-1]
            before = opened.journal.store.last_seq(opened.state.session_id)
            told: list[int] = []
            opened.journal.hold(
                MessageModel(**opened.journal.head(), message=last, turn_id="t", finish_reason="stop"),
                lambda: told.append(len(seen)),
            )
            assert (seen, told) == ([], [])
            await anyio.sleep(0)
            await anyio.sleep(0)
            assert opened.journal.store.last_seq(opened.state.session_id) == before + 1
            assert told == [1]

    anyio.run(main)


def test_a_store_that_fails_under_a_held_reply_ends_the_turn(tmp_path: Path) -> None:
    """Neither the reply nor the call it asks for happens when the log cannot be written."""
    ran: list[str] = []

    @tool(access="read", core=True)
    async def act() -> str:
        """Act."""
        ran.append("ran")
        return "done"

    runner = runtime(tmp_path, [act])
    runner.store.close()
    store = Counting(tmp_path / "state" / "jaato.db")
    runner.store = store

    async def main() -> None:
        script = [calls(("act", {}), ("act", {})), say("done")]
        async with runner.create(plan(tmp_path, script)) as opened:
            store.fail_at = len(store.commits) + 1
            with pytest.raises(StoreError, match="disk is full"):
                await opened.post("go")
            store.fail_at = None
            assert ran == []
            assert (await opened.post("again")) is not None

    anyio.run(main)
    runner.close()
