"""When a call is in the log: its start before it is made, its end before its answer."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from msgspec import structs

from jaato.errors import StoreError
from jaato.protocol.arp import Invocation
from jaato.protocol.events import Event, ToolCallEnd, ToolCallStart
from jaato.protocol.messages import Problem, ToolResult
from jaato.runtime.session_options import SessionOptions
from jaato.server.registry.application import open_registry
from jaato.server.registry.audit import Audit, AuditFilter
from jaato.server.registry.caller_sessions import Caller, Callers
from jaato.server.registry.running_call import has_begun
from jaato.storage.sqlite import SqliteStore
from jaato.tools.call import Call
from jaato.tools.tool import Tool, tool, tool_from

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
    with anyio.fail_after(60):
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
    given = SessionOptions(
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


def test_a_call_is_in_the_log_before_its_answer(tmp_path: Path) -> None:
    """Start and end of every call, whatever it does and however it ends, are durable when it is answered; each says once
    where the call comes from and what it was given."""

    async def main() -> None:
        async with opened(tmp_path) as (caller, store, _):
            origin = {"request_id": "r-1", "flow_id": "f-1"}
            assert (await caller.call(tool_of(caller, "spoil"), asked(words=["a"]), origin)).value == 3
            assert (await caller.call(tool_of(caller, "change"), asked(), origin)).value == "changed"
            assert (await caller.call(tool_of(caller, "fail"), asked(), origin)).problem is not None
            names = ("spoil", "change", "fail")
            assert logged(caller, store) == [f"{what} {name}" for name in names for what in ("Start", "End")]
            async with anyio.create_task_group() as group:
                for name in ("change", "look", "change"):
                    group.start_soon(caller.call, tool_of(caller, name), asked(), {})
            assert sorted(logged(caller, store)[6:]) == sorted(
                [*["Start change", "End change"] * 2, "Start look", "End look"]
            )
            start, end = [
                event
                for event in store.read(caller.session.state.session_id)
                if isinstance(event, ToolCallStart | ToolCallEnd)
            ][:2]
            assert isinstance(start, ToolCallStart)
            assert isinstance(end, ToolCallEnd)
            assert (start.origin, start.arguments) == (origin, {"words": ["a"]})
            assert (end.origin, end.arguments) == (None, None)

    anyio.run(main)


def test_what_is_said_meanwhile_is_seen_after_the_beginning(tmp_path: Path) -> None:
    """Whoever watches sees that a call has begun before what it says."""
    seen: list[str] = []

    async def main() -> None:
        async with opened(tmp_path) as (caller, _, _):
            caller.session.journal.bus.listen(lambda event: seen.append(type(event).__name__))
            await caller.call(tool_of(caller, "talk"), asked(), {})

    anyio.run(main)
    assert seen == ["ToolCallStart", "ToolOutput", "ToolCallEnd"]


def test_nothing_is_answered_while_the_log_cannot_be_written(tmp_path: Path) -> None:
    """While the disk is full no call is made, also none that only reads; one whose end finds no room is not answered."""

    async def main() -> None:
        async with opened(tmp_path) as (caller, store, _):
            store.full = True
            with pytest.raises(StoreError, match="disk is full"):
                await caller.call(tool_of(caller, "look"), asked(text="a"), {})
            store.full = False
            DONE.clear()

            async def waiting() -> None:
                with pytest.raises(StoreError, match="disk is full"):
                    await caller.call(tool_of(caller, "wait"), asked(), {})

            async with anyio.create_task_group() as group:
                group.start_soon(waiting)
                while logged(caller, store) != ["Start wait"]:
                    await anyio.sleep(0.001)
                store.full = True
                DONE.set()
            store.full = False
            assert (await caller.call(tool_of(caller, "look"), asked(text="b"), {})).value == {"seen": "b"}
            assert logged(caller, store) == ["Start wait", "Start look", "End look"]

    anyio.run(main)


def test_a_call_that_goes_on_in_the_background_ends_once(tmp_path: Path) -> None:
    """It has one end in the log, which says that it goes on."""
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
            assert logged(caller, store) == ["Start go_on", "End go_on"]

    anyio.run(main)


def test_an_answer_has_no_secret_that_its_log_has_not(tmp_path: Path) -> None:
    """The response and the log have the same placeholder, also in a call whose secret came to light while it ran."""

    async def main() -> None:
        async with opened(tmp_path) as (caller, store, _):
            secrets = caller.session.journal.secrets
            said = (await caller.call(tool_of(caller, "learn"), asked(), {})).value
            assert said == secrets.mask(f"it is {SECRET}") != f"it is {SECRET}"
            events = list(store.read(caller.session.state.session_id))
            assert said in [
                part.text
                for event in events
                if isinstance(event, ToolCallEnd)
                for part in event.result.content
            ]
            assert SECRET not in repr(events)

    anyio.run(main)


def test_a_log_of_ends_without_starts_is_read(tmp_path: Path) -> None:
    """Logs of earlier versions have calls that only read as one event: its end says where the call comes from."""

    async def main() -> None:
        async with opened(tmp_path) as (caller, store, _):
            journal, origin = caller.session.journal, {"request_id": "r-1"}
            done = ToolResult("c", "look", True, structured={"seen": "a"})
            end = ToolCallEnd(
                **journal.head(),
                call_id="c",
                tool="look",
                result=done,
                duration_s=0.001,
                origin=origin,
                arguments={"text": "a"},
            )
            journal.record(end)
            (entry,) = Audit(store, AuditFilter(request="r-1")).newest(10)
            assert (entry.tool, entry.outcome, entry.who) == ("look", "ok", "anyone")
            stopped = structs.replace(
                end, result=ToolResult("c", "look", False, error=Problem("cancelled", "It was."))
            )
            assert has_begun(stopped)
            assert not has_begun(structs.replace(stopped, arguments=None))

    anyio.run(main)
