"""One log, many agents: each state is the fold of its own events, whole or damaged, in any interleaving."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.kit import call, calls, recorded, say
from tests.subagent.cast import session_of, stage

from jaato.abc.compactor import GCConfig
from jaato.abc.provider import ModelRequest
from jaato.agent.compaction.setup import CompactionSetup
from jaato.agent.compaction.strategies import TruncateGCPlugin
from jaato.agent.journal import Journal
from jaato.agent.state import SessionState, State
from jaato.errors import StoreError
from jaato.protocol.codec import decode_event, encode
from jaato.protocol.events import AgentCreated, Event, GcCompleted
from jaato.protocol.messages import Message, ToolCall, ToolResult
from jaato.protocol.specs import ModelInfo
from jaato.providers.scripted import Step

SCRIPTS: dict[str, Any] = {
    "main": [
        calls(*[("delegate", {"task": "x", "name": f"n{n}"}) for n in range(3)]),
        call("set_shared_state", key="k", value=[1]),
        say("done"),
    ],
    "n0": [calls(*[("delegate", {"task": "y", "name": f"m{n}"}) for n in range(2)]), say("a")],
    "anyone": [calls(("list_active_subagents", {}), ("list_shared_state", {})), say("b")],
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """The events of a session with five subagents on two levels, at work at the same time."""
    found: list[Event] = []

    async def main() -> None:
        async with stage(tmp_path_factory.mktemp("log"), SCRIPTS) as (live, _cast):
            await live.post("go")
            found.extend(event for event in recorded(live) if isinstance(event, Event))
            live_states = {key: record.state for key, record in live.journal.session_state.subagents.items()}
            again = fold(found)
            assert {key: record.state for key, record in again.subagents.items()} == live_states
            assert again.root == live.state

    anyio.run(main)
    return found


def fold(events: list[Event]) -> SessionState:
    """Fold the events into the state of a session."""
    session_state = SessionState(State())
    for event in events:
        session_state.apply(decode_event(encode(event)))
    return session_state


def unpaired(messages: list[Message]) -> list[str]:
    """Results without their call right before them."""
    waiting: list[str] = []
    wrong: list[str] = []
    for message in messages:
        answered = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        wrong += [one for one in answered if one not in waiting]
        waiting = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
    return wrong


def test_any_beginning_of_a_log_folds(log: list[Event]) -> None:
    """Cut anywhere, every agent's history is valid, and nobody has another's messages."""
    mine: dict[str, set[str]] = {}
    for event in log:
        message = getattr(event, "message", None)
        if isinstance(message, Message):
            mine.setdefault(event.agent_id, set()).add(message.id)
    for end in range(1, len(log) + 1):
        session_state = fold(log[:end])
        assert session_state.root.seq == end
        for key, record in session_state.subagents.items():
            assert not unpaired(record.state.messages)
            assert {m.id for m in record.state.messages if m.role != "tool"} <= mine.get(key, set())


def test_a_damaged_record_harms_its_own_agent_at_most(log: list[Event]) -> None:
    """Each event is lost in turn: the root's conversation is whole unless it was its own, and never has a child's words."""
    whole = fold(log)
    for lost in range(1, len(log)):
        session_state = fold([event for event in log if event.seq != log[lost].seq])
        if log[lost].agent_id != whole.root.agent_id:
            assert session_state.root.messages == whole.root.messages
        for key, record in session_state.subagents.items():
            if key != log[lost].agent_id:
                assert record.state.messages == whole.subagents[key].state.messages


def test_a_subagent_whose_beginning_is_lost_is_nobodys(tmp_path: Path) -> None:
    """Its messages stay out of the root's history, and it is not brought back."""

    async def main() -> None:
        async with stage(tmp_path, SCRIPTS) as (live, _cast):
            await live.post("go")
            session_id = live.state.session_id
            lost = next(e for e in recorded(live) if isinstance(e, AgentCreated) and e.name == "n0")
            before = list(live.state.messages)
        database = tmp_path / "state" / "jaato.db"
        with sqlite3.connect(database) as connection:
            where = "WHERE position = (1 << 32) + ?"
            connection.execute(f"UPDATE event SET data = x'7b' {where}", (lost.seq,))
        connection.close()
        async with stage(tmp_path, {}, again=session_id) as (again, _cast):
            assert again.journal.damaged
            assert again.state.messages == before
            assert {child.name for child in again.supervisor.subagents.values()} == {"n1", "n2"}

    anyio.run(main)


def test_a_failing_store_ends_everybody_and_loses_no_order(tmp_path: Path) -> None:
    """When nothing can be written any more each agent hears of it; when it can again, the log is dense."""

    async def main() -> None:
        async with stage(tmp_path, {**SCRIPTS, "main": [*SCRIPTS["main"], say("again")]}) as (live, _cast):
            store, fails = live.journal.store, [False]
            write = store.append
            count = [0]

            def append(events: Any) -> Any:
                count[0] += 1
                fails[0] = fails[0] or count[0] == 12
                if fails[0]:
                    raise StoreError("The disk is full.")
                return write(events)

            store.append = append  # type: ignore[method-assign]  # the disk is full
            with pytest.raises(StoreError):
                await live.post("go")
            with anyio.move_on_after(60) as scope:
                await live.supervisor.all_done()
            assert not scope.cancelled_caught
            store.append = write  # type: ignore[method-assign]  # there is room again
            turn = await live.post("again")
            assert turn is not None
            log = [event for event in recorded(live) if isinstance(event, Event)]
            assert [event.seq for event in log] == list(range(1, len(log) + 1))

    anyio.run(main)


def test_each_agent_makes_room_in_its_own_context(tmp_path: Path) -> None:
    """A subagent whose context fills is compacted by the session's strategy; its parent's history stays as it is."""

    async def main() -> None:
        def long(_request: ModelRequest) -> Step:
            made = call("set_shared_state", key="k", value="x" * 1500)
            return msgspec.structs.replace(made, usage=None)

        scripts = {
            "main": [call("delegate", task="x", name="one"), say("done")],
            "one": [*[long] * 12, say("b")],
        }
        small = ModelInfo(id="script", provider="scripted", context_limit=2_000)
        async with stage(tmp_path, scripts, info=small) as (live, _cast):
            live.compaction.use(CompactionSetup(TruncateGCPlugin(), GCConfig(preserve_recent_turns=1)))
            await live.post("go")
            child = next(iter(live.supervisor.subagents.values()))
            assert session_of(child).compaction.setup is live.compaction.setup
            made = [event for event in recorded(live) if isinstance(event, GcCompleted)]
            assert made
            assert {event.agent_id for event in made} == {child.id}
            assert len(live.state.messages) == 4

    anyio.run(main)


def test_a_pen_of_a_subagent_begins_where_the_log_ends(tmp_path: Path) -> None:
    """Loading a log with subagents and going on keeps the numbers dense."""

    async def main() -> None:
        async with stage(tmp_path, SCRIPTS) as (live, _cast):
            await live.post("go")
            session_id, last = live.state.session_id, live.state.seq
            journal = Journal(live.journal.store, State())
            journal.load(session_id)
            record = next(iter(journal.session_state.subagents))
            assert journal.branch(record).head()["seq"] == last + 1
            assert journal.branch(record).branch(record).shown()["agent_id"] == record

    anyio.run(main)
