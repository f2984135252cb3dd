"""The fold of a log, whole or damaged."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit import call, calls, recorded, say, session

from jaato.abc.store import Damaged
from jaato.agent.state import State
from jaato.protocol.codec import decode_event, encode
from jaato.protocol.events import Event
from jaato.protocol.messages import ToolCall, ToolResult
from jaato.providers.scripted import ScriptedProvider
from jaato.tools.tool import tool


@tool(core=True, access="read")
async def echo(text: str) -> str:
    """Say it again."""
    return text


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """The events of a real session with single and parallel calls, an activation and two turns."""
    found: list[Event] = []

    async def main() -> None:
        script = [
            call("echo", text="a"),
            calls(*[("echo", {"text": str(n)}) for n in range(5)]),
            call("get_tool_schemas", names=["list_background"]),
            say("first"),
            call("echo", text="b"),
            say("second"),
        ]
        path = tmp_path_factory.mktemp("log")
        async with session(path, script, [echo], ("introspection", "background")) as live:
            await live.post("one")
            await live.post("two")
            found.extend(event for event in recorded(live) if not isinstance(event, Damaged))

    anyio.run(main)
    return found


def fold(events: list[Event]) -> State:
    state = State()
    for event in events:
        state.apply(event)
    return state


def unpaired(state: State) -> list[str]:
    """Calls without their result right behind them, but for those still open; results without their call."""
    wrong: list[str] = []
    waiting: list[str] = []
    for message in state.messages:
        answered = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        if message.role == "tool":
            wrong += [one for one in answered if one not in waiting] + [
                w for w in waiting if w not in answered
            ]
            waiting = []
            continue
        wrong += waiting
        waiting = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
    return wrong + [one for one in waiting if one not in state.open_calls and one not in state.results]


@pytest.mark.spec("C5", "Client, runtime, session")
def test_the_state_is_a_fold_of_what_is_stored(log: list[Event]) -> None:
    """Folding the decoded bytes gives the same state, event by event: nothing else goes into it."""
    live, stored = State(), State()
    for event in log:
        live.apply(event)
        stored.apply(decode_event(encode(event)))
        assert live == stored
    assert not unpaired(live)
    assert live.activated == ["list_background"]
    assert live.turns == 2


def test_a_recorded_session_can_be_played_again(log: list[Event], tmp_path: Path) -> None:
    """The replies of a stored session are a script: played in a new one, they make the same calls with the same results."""

    async def main() -> None:
        again = ScriptedProvider.from_events(log)
        async with session(tmp_path, [], [echo], ("introspection", "background")) as live:
            live.model._source = again
            await live.post("one")
            await live.post("two")
            told = [
                [(m.role, m.text, [c.name for c in m.function_calls]) for m in s.messages]
                for s in (live.state, fold(log))
            ]
            assert told[0] == told[1]

    anyio.run(main)


def test_every_prefix_is_a_valid_conversation(log: list[Event]) -> None:
    """Wherever the log ends, only the calls of the last reply are open."""
    for end in range(len(log) + 1):
        assert not unpaired(fold(log[:end]))


@given(data=st.data())
def test_a_log_with_holes_and_doubles_folds_to_a_valid_conversation(
    log: list[Event], data: st.DataObject
) -> None:
    """Records that were lost, or stand twice, never leave a call of an earlier reply without its result."""
    lost = data.draw(st.sets(st.integers(2, len(log) - 1), max_size=8))
    doubled = data.draw(st.sets(st.integers(2, len(log) - 1), max_size=3))
    events = [
        event for index, event in enumerate(log) if index not in lost for _ in range(1 + (index in doubled))
    ]
    state = fold(events)
    assert not unpaired(state)
