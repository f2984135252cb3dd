"""The fold of events in the TypeScript client gives the same state as the one in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
from tests.kit import call, calls, say
from tests.page.node import run_node
from tests.page.random_events import NAMES, Maker
from tests.server.serving import served, turn_of

from jaato.client.state import FILES, WINDOW, apply
from jaato.protocol.codec import decode_event, encode
from jaato.protocol.events.state import State
from jaato.protocol.frames import Opened


def fold_there(sequences: list[list[Any]]) -> list[State]:
    """The states that the TypeScript fold makes of some sequences."""
    lines = "".join(json.dumps(one) + "\n" for one in sequences)
    printed = run_node("tests/fold.ts", text=lines).splitlines()
    return [msgspec.json.decode(line, type=State) for line in printed]


def assert_same(there: State, here: State, where: object = "") -> None:
    """Compare two states field by field, which says where they differ."""
    for name in State.__struct_fields__:
        one, other = (json.loads(encode(getattr(state, name))) for state in (there, here))
        assert one == other, (where, name)


def fold_here(events: list[Any], state: State | None = None) -> State:
    """The state that the Python fold makes."""
    state = State() if state is None else state
    for event in events:
        apply(state, decode_event(json.dumps(event)))
    return state


def test_random_events_fold_to_the_same_state() -> None:
    """Every kind of event, in any order, with repeated ones, with ids and keys that mean something to JavaScript."""
    made = [Maker(seed).events(120) for seed in range(60)]
    assert {event["type"] for one in made for event in one} >= {"agent.output", "tool.output", "gc.completed"}
    assert len({event["type"] for one in made for event in one}) == len(NAMES)
    for seed, (events, there) in enumerate(zip(made, fold_there(made), strict=True)):
        assert_same(there, fold_here(events), seed)


def test_a_snapshot_is_folded_on() -> None:
    """A state that was sent, without its defaults, goes on as the one it was made of."""
    made = [Maker(1_000 + seed).events(160) for seed in range(20)]
    halves = [(one[:80], one[80:]) for one in made]
    sent = [json.loads(encode(fold_here(first))) for first, _ in halves]
    there = fold_there([[{"state": state}, *rest] for state, (_, rest) in zip(sent, halves, strict=True)])
    for events, state in zip(made, there, strict=True):
        assert_same(state, fold_here(events))


def test_a_real_session_folds_to_the_same_state(tmp_path: Path) -> None:
    """What a server sent during two turns with calls, from its snapshot on."""
    recorded: list[str] = []

    async def main() -> None:
        script = [
            call("run", command="printf 'one 🙂\\n'; printf two"),
            calls(("createPlan", {"title": "t", "steps": ["a", "b"]}), ("list_tools", {})),
            say("An answer with 🙂 in it."),
            say("Another."),
        ]
        async with served(tmp_path, script) as server, server.client() as client:
            made = await client.ask("session.create", workspace=str(tmp_path / "work"), yes=True)
            assert isinstance(made.result, Opened), made.error
            for text in ("hello", "more 🙂"):
                recorded.extend(encode(event).decode() for event in client.events)
                await turn_of(client, made.result.session_id, text)
            recorded.extend(encode(event).decode() for event in client.events)

    anyio.run(main)
    events = [json.loads(one) for one in recorded]
    assert {"tool.output", "agent.output", "plan.updated"} <= {event["type"] for event in events}
    (there,) = fold_there([events])
    assert_same(there, fold_here(events))


def test_a_state_stays_bounded_alike() -> None:
    """The window of entries and the list of changed files drop the same ones."""
    turn = {
        "turn_id": "t",
        "reason": "stop",
        "usage": {},
        "model_calls": 1,
        "tool_calls": 0,
        "duration_s": 1.0,
    }
    head = {"session_id": "s", "agent_id": "a", "timestamp": "2026-01-01T00:00:00Z"}
    entries = [head | turn | {"type": "turn.completed", "seq": seq} for seq in range(1, WINDOW + 50)]
    change = {"change": "modified"}
    files = [
        head
        | {"type": "workspace.files_changed", "seq": 1_000 + seq, "files": [change | {"path": f"f{seq}"}]}
        for seq in range(FILES + 20)
    ]
    (there,) = fold_there([entries + files])
    assert_same(there, fold_here(entries + files))
    assert (len(there.entries), len(there.files), there.files_left_out) == (WINDOW, FILES, 20)
