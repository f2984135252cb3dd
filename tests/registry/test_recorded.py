"""When a call is in the log: before its answer where it had an effect, soon after where it only read."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from jaato.agent import journal as journals
from jaato.errors import StoreError
from jaato.protocol.arp import Invocation
from jaato.protocol.events import Event, ToolCallEnd, ToolCallStart
from jaato.runtime.blueprint import Blueprint
from jaato.server.registry.callers import Caller, Callers
from jaato.server.registry.course import How
from jaato.server.registry.heard import Heard
from jaato.server.registry.opening import open_registry
from jaato.storage.sqlite import SqliteStore
from jaato.tools.call import Call
from jaato.tools.tool import Tool, tool

SECRET = "hunter2-hunter2-hunter2"
DONE = threading.Event()


class Full(SqliteStore):
    """The real store, on a disk that is full while `full`."""

    full = False

    def append(self, events: Sequence[Event]) -> None:
        """Write them, if there is room."""
        if self.full:
            raise StoreError("The disk is full.")
        super().append(events)


@tool(access="read")
async def look(text: str = "") -> dict[str, str]:
    """Look."""
    return {"seen": text}


@tool(access="read")
async def learn(call: Call) -> str:
    """Come to know a secret, and say it."""
    call.services["secrets"].add("LEARNT", SECRET)
    return f"it is {SECRET}"


@tool(access="read")
async def talk(call: Call) -> None:
    """Say something meanwhile."""
    call.output("so far")
    await anyio.sleep(0)
    await anyio.sleep(0)


@tool(access="read")
async def spoil(words: list[str]) -> int:
    """Change what it was given."""
    words += ["b", "c"]
    return len(words)


@tool(access="read")
async def wait() -> None:
    """Wait until it is told."""
    with anyio.fail_after(10):
        while not DONE.is_set():
            await anyio.sleep(0.001)


@tool(access="read")
async def fail() -> None:
    """Raise something."""
    raise RuntimeError("no")


@tool(access="write")
async def change() -> str:
    """Change something."""
    return "changed"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[Caller, Full, Callers]]:
    """A caller of a registry, and the store of its log."""
    given = Blueprint(
        workspace=path,
        state_dir=path / "state",
        environ={"HOME": str(path)},
        tools=(look, learn, talk, spoil, wait, fail, change),
        allow=("change",),
    )
    callers = open_registry(given, []).callers
    runtime = callers._runtime
    runtime.store.close()
    store = runtime.store = Full(path / "state" / "jaato.db")
    try:
        yield await callers.caller("", "anyone"), store, callers
    finally:
        store.full = False
        await callers.close()


def logged(caller: Caller, store: SqliteStore) -> list[str]:
    """The calls in the log: which began and which ended."""
    events = list(store.read(caller.session.state.session_id))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [
        f"{type(event).__name__[8:]} {event.tool}"
        for event in events
        if isinstance(event, ToolCallStart | ToolCallEnd)
    ]


def tool_of(caller: Caller, name: str) -> Tool:
    """A tool that is served."""
    found = caller.session.catalog.find(name)
    assert found is not None
    return found.tool


def asked(**args: object) -> Invocation:
    """What a call is asked with."""
    return Invocation(args)


def test_an_effect_is_in_the_log_before_its_answer(tmp_path: Path) -> None:
    """The end of a call with an effect, or that failed, is durable when it is answered, and what was held before it too."""

    async def main() -> None:
        async with opened(tmp_path) as (caller, store, _):
            assert (await caller.call(tool_of(caller, "change"), asked(), {})).value == "changed"
            assert logged(caller, store) == ["Start change", "End change"]
            await caller.call(tool_of(caller, "look"), asked(text="a"), {})
            assert logged(caller, store)[2:] == []
            await caller.call(tool_of(caller, "change"), asked(), {})
            assert logged(caller, store)[2:] == ["End look", "Start change", "End change"]
            assert (await caller.call(tool_of(caller, "fail"), asked(), {})).problem is not None
            assert logged(caller, store)[5:] == ["End fail"]
            async with anyio.create_task_group() as group:
                for name in ("change", "look", "change"):
                    group.start_soon(caller.call, tool_of(caller, name), asked(), {})
            assert logged(caller, store)[6:].count("End change") == 2

    anyio.run(main)


def test_what_only_reads_is_in_the_log_soon_after_its_answer(tmp_path: Path) -> None:
    """Calls that only read are answered first; their records are committed together, in a moment, or when it ends."""
    commits: list[int] = []

    async def main() -> str:
        async with opened(tmp_path) as (caller, store, _):
            caller.session.journal.bus.listen(lambda event: commits.append(store.last_seq(event.session_id)))
            for text in "abc":
                assert (await caller.call(tool_of(caller, "look"), asked(text=text), {})).value == {
                    "seen": text
                }
            assert logged(caller, store) == []
            with anyio.fail_after(10):
                while not commits:
                    await anyio.sleep(journals.UNHURRIED_S)
            assert logged(caller, store) == ["End look"] * 3
            assert len(set(commits)) == 1
            await caller.call(tool_of(caller, "look"), asked(text="d"), {})
            assert len(logged(caller, store)) == 3
            return caller.session.state.session_id

    session_id = anyio.run(main)
    store = SqliteStore(tmp_path / "state" / "jaato.db")
    ends = [event for event in store.read(session_id) if isinstance(event, ToolCallEnd)]
    store.close()
    assert len(ends) == 4


def test_a_read_that_is_over_at_once_is_one_event(tmp_path: Path) -> None:
    """A call that only reads and ends before its start is written is one event: its end has the arguments as they were, and
    where it comes from. One that takes longer has a start, in time, with the moment it began at."""

    async def main() -> None:
        async with opened(tmp_path) as (caller, store, _):
            origin = {"request_id": "r-1", "flow_id": "f-1"}
            await caller.call(tool_of(caller, "spoil"), asked(words=["a"]), origin)
            await caller.call(tool_of(caller, "fail"), asked(), {"request_id": "r-2"})
            async with anyio.create_task_group() as group:
                group.start_soon(caller.call, tool_of(caller, "wait"), asked(), {"request_id": "r-3"})
                with anyio.fail_after(10):
                    while "Start wait" not in logged(caller, store):
                        await anyio.sleep(journals.UNHURRIED_S)
                assert "End wait" not in logged(caller, store)
                DONE.set()
            caller.session.journal.let_go()
            spoil, fail, start, wait = [
                event
                for event in store.read(caller.session.state.session_id)
                if isinstance(event, ToolCallStart | ToolCallEnd)
            ]
            assert isinstance(spoil, ToolCallEnd)
            assert (spoil.origin, spoil.arguments) == (origin, {"words": ["a"]})
            assert isinstance(fail, ToolCallEnd)
            assert (fail.origin, fail.arguments, fail.result.ok) == ({"request_id": "r-2"}, {}, False)
            assert isinstance(start, ToolCallStart)
            assert (start.tool, start.origin, start.arguments) == ("wait", {"request_id": "r-3"}, {})
            assert isinstance(wait, ToolCallEnd)
            assert (wait.origin, wait.arguments) == (None, None)
            assert wait.timestamp > start.timestamp
            assert not caller.session.journal.owed

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


def test_what_is_said_meanwhile_is_seen_after_the_beginning(tmp_path: Path) -> None:
    """Whoever watches sees that a call has begun before what it says, though its record is in no hurry, and also where
    something else was recorded since."""
    seen: list[str] = []

    async def main() -> None:
        async with opened(tmp_path) as (caller, _, _):
            caller.session.journal.bus.listen(
                lambda event: seen.append(f"{type(event).__name__} {getattr(event, 'tool', '')}")
            )
            await caller.call(tool_of(caller, "talk"), asked(), {})
            await caller.call(tool_of(caller, "look"), asked(), {})
            async with anyio.create_task_group() as group:
                group.start_soon(caller.call, tool_of(caller, "talk"), asked(), {})
                group.start_soon(caller.call, tool_of(caller, "change"), asked(), {})

    anyio.run(main)
    assert seen[:3] == ["ToolCallStart talk", "ToolOutput ", "ToolCallEnd talk"]
    assert "ToolCallStart change" in seen[: seen.index("ToolOutput ", 3)]
    assert seen.index("ToolCallStart talk", 3) < seen.index("ToolOutput ", 3)


def test_nothing_is_answered_while_the_log_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is answered before a full disk is noticed is told in the server's log; from then on nothing is answered until
    there is room again."""

    async def main() -> None:
        async with opened(tmp_path) as (caller, store, _):
            await caller.call(tool_of(caller, "look"), asked(text="a"), {})
            caller.session.journal.let_go()
            store.full = True
            await caller.call(tool_of(caller, "look"), asked(text="b"), {})
            with caplog.at_level(logging.ERROR):
                caller.session.journal.let_go()
            assert "The disk is full" in caplog.text
            for _ in range(3):
                with pytest.raises(StoreError, match="disk is full"):
                    await caller.call(tool_of(caller, "look"), asked(text="c"), {})
            store.full = False
            for text in "de":
                assert (await caller.call(tool_of(caller, "look"), asked(text=text), {})).value == {
                    "seen": text
                }
            caller.session.journal.let_go()
            assert logged(caller, store) == ["End look"] * 3

    anyio.run(main)


def test_an_answer_before_its_record_has_no_secret_in_it(tmp_path: Path) -> None:
    """Answer and log have the same placeholder, also in a call whose secret came to light while it ran."""

    async def main() -> None:
        async with opened(tmp_path) as (caller, store, _):
            secrets = caller.session.journal.secrets
            assert secrets.active
            asking = asked(text=f"say {SECRET}")
            assert (await caller.call(tool_of(caller, "look"), asking, {})).value == {"seen": f"say {SECRET}"}
            said = (await caller.call(tool_of(caller, "learn"), asked(), {})).value
            assert said == secrets.mask(f"it is {SECRET}") != f"it is {SECRET}"
            caller.session.journal.let_go()
            events = list(store.read(caller.session.state.session_id))
            assert said in [
                part.text
                for event in events
                if isinstance(event, ToolCallEnd)
                for part in event.result.content
            ]
            assert SECRET not in repr(events)

    anyio.run(main)
