"""What must hold of a session whose server was killed: nothing lost, nothing twice, nothing hidden."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

from tests.kill.play import Played
from tests.kill.script import LEDGER, TOOLS, asked

from jaato.agent.event_redaction import redact_log
from jaato.client.state import apply
from jaato.protocol.codec import encode
from jaato.protocol.events import (
    AgentCreated,
    Event,
    MessageUser,
    SessionCreated,
    ToolCallEnd,
    ToolCallStart,
    TurnCompleted,
)
from jaato.protocol.events.state import State
from jaato.storage.sqlite import SqliteStore
from jaato.tools.redaction.redactor import Redactor

EFFECTS = {made.__name__ for made in TOOLS}


def complaints(played: Played, acts: list[str]) -> list[str]:
    """What does not hold, in words; nothing when all does."""
    store = SqliteStore(played.home / "state/jaato.db", read_only=True)
    try:
        logs = {row.id: read(store, row.id) for row in store.sessions()}
    finally:
        store.close()
    found = [f"the last server ended with {played.statuses[-1]}"] if played.statuses[-1] else []
    if sorted(logs) != sorted(played.seen):
        found.append(f"the store has the sessions {sorted(logs)}, the client asked for {sorted(played.seen)}")
    for session_id in played.seen:
        if session_id in logs:
            found += of_a_client(played, session_id, logs[session_id])
            found += of_a_log(logs[session_id])
    found += [
        f"question {key}: {times} answers counted" for key, times in played.answered.items() if times > 1
    ]
    found += of_effects(played.home / "work" / LEDGER, logs)
    said = Counter(
        " ".join(asked(event.message))
        for session_id, log in logs.items()
        for event in log
        if isinstance(event, MessageUser)
        and event.message.source == "user"
        and mine(event, played, session_id)
    )
    if said != Counter(f"act {act}" for act in acts):
        found.append(f"in the log the user said {said}")
    return found


def read(store: SqliteStore, session_id: str) -> list[Event]:
    """A log, which has no damage."""
    log = [event for event in redact_log(store.read(session_id), Redactor.none()) if isinstance(event, Event)]
    assert len(log) == store.last_seq(session_id), "a record of the log is damaged"
    return log


def mine(event: Event, played: Played, session_id: str) -> bool:
    """Whether an event happened in this session, and was not copied into it by a fork."""
    first = next(iter(played.seen))
    return session_id == first or event.seq > played.since.get(session_id, 0)


def of_a_client(played: Played, session_id: str, log: list[Event]) -> list[str]:
    """What the client was shown is in the log, in order, whole and once."""
    found = []
    seen, since = played.seen[session_id], played.since[session_id]
    numbers = [event.seq for event in seen]
    if numbers != list(range(since + 1, len(log) + 1)):
        found.append(f"the client saw {numbers} after {since}, the log has {len(log)} events")
    for event in seen:
        if event.seq > len(log) or encode(log[event.seq - 1]) != encode(event):
            found.append(f"event {event.seq} in the log is not the one that was shown: {event}")
    folded = State()
    for event in log:
        apply(folded, event)
    if durable(folded) != durable(played.states[session_id]):
        found.append("the state of the client is not the fold of the log")
    return found


def durable(state: State) -> bytes:
    """A state without what no log holds: how full the context is, what an agent does just now, what is at hand."""
    state.commands, state.memories, state.memory_count = [], [], 0
    for agent in state.agents.values():
        agent.context_tokens, agent.context_limit, agent.status, agent.reason = 0, None, "idle", None
    return encode(state)


def of_a_log(log: list[Event]) -> list[str]:
    """Dense; nothing open; every turn and call ends once, and no call begins twice."""
    found = []
    if [event.seq for event in log] != list(range(1, len(log) + 1)) or not isinstance(log[0], SessionCreated):
        found.append("the log is not dense")
    state = State()
    for event in log:
        apply(state, event)
    left = (state.open_turn, list(state.calls), list(state.questions), list(state.tasks))
    if any(left):
        found.append(f"left open: {left}")
    for kind in (ToolCallStart, ToolCallEnd):
        twice = [call for call, times in Counter(of_kind(log, kind)).items() if times > 1]
        if twice:
            found.append(f"{kind.__name__} twice for {twice}")
    root = next(event.agent_id for event in log if isinstance(event, AgentCreated))
    turns = [event for event in log if isinstance(event, TurnCompleted) and event.agent_id == root]
    found += [
        f"a turn ended with {turn.reason}: {turn.error}"
        for turn in turns
        if turn.reason != "stop"
        and not (turn.reason == "interrupted" and turn.turn_id in ended_by_the_user(log, root))
    ]
    opened = {event.turn_id for event in log if isinstance(event, MessageUser) and event.agent_id == root}
    if Counter(turn.turn_id for turn in turns) != Counter(opened):
        found.append("not every turn has one end")
    return found


def ended_by_the_user(log: list[Event], root: str) -> set[str]:
    """The turns that the next message of the user may have ended, since it ends an interrupted one: the one of `queued`,
    whose user does not wait, and one begun by background work, of which the user may not know. Its messages stay."""
    messages = [event for event in log if isinstance(event, MessageUser) and event.agent_id == root]
    openings = {event.turn_id: event.message.source for event in reversed(messages)}
    order = list(dict.fromkeys(event.turn_id for event in messages))
    not_awaited = {one.turn_id for one in messages if asked(one.message)[1:] == ("queued",)}
    not_awaited |= {turn_id for turn_id, source in openings.items() if source in ("system", "child")}
    return {one for one, following in pairwise(order) if one in not_awaited and openings[following] == "user"}


def of_kind(log: list[Event], kind: type[ToolCallStart] | type[ToolCallEnd]) -> list[str]:
    """The calls of which there is such an event."""
    return [event.call_id for event in log if isinstance(event, kind)]


def of_effects(ledger: Path, logs: dict[str, list[Event]]) -> list[str]:
    """No effect twice, none without its start in the log, none of a call that is said to have failed, and one of each
    that is said to have succeeded."""
    lines = [line.split(" ") for line in ledger.read_text().splitlines()] if ledger.exists() else []
    found = [
        f"effect {name} happened {n} times" for name, n in Counter(name for _, name in lines).items() if n > 1
    ]
    happened = Counter(call for call, name in lines if name != "shell")
    started: set[str] = set()
    ended: dict[str, ToolCallEnd] = {}
    for log in logs.values():
        started |= {event.call_id for event in log if isinstance(event, ToolCallStart)}
        ended |= {event.call_id: event for event in log if isinstance(event, ToolCallEnd)}
    found += [f"call {call} ran without a start in the log" for call in happened if call not in started]
    for call, end in ended.items():
        code = end.result.error.code if end.result.error else ""
        if end.tool in EFFECTS and end.result.ok and happened[call] != 1:
            found.append(f"call {call} succeeded, its effect happened {happened[call]} times")
        if end.tool in EFFECTS and not end.result.ok and code not in ("interrupted", "cancelled"):
            found.append(f"call {call} failed: {end.result.error}")
    return found
