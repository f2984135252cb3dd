"""What a client asks of a session's log, and what it shows of calls that go on in the background."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from tests.kit import call, say
from tests.server.serving import Raw, served, turn_of

from jaato.protocol.events import BackgroundUpdated, SessionInfo, ToolCallEnd
from jaato.protocol.events.state import State
from jaato.protocol.frames import History, Opened
from jaato.server.sessions import command_handlers

STEPS = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second; while [ ! -e end ]; do sleep 0.05; done; exit 3"


async def read_until(client: Raw, holds: Callable[[State], bool]) -> None:
    """Read what a client is sent until the state it makes is so."""
    (state,) = client.states.values()
    with anyio.fail_after(60):
        while not holds(state):
            await client.next()
            (state,) = client.states.values()


def test_output_after_the_end_of_a_call_is_in_the_state_of_every_client(tmp_path: Path) -> None:
    """A call in the background: a client that came before its end, and one that comes later, have what it printed since;
    nothing of it is kept once the task has ended."""

    async def main() -> None:
        script = [call("run", command=STEPS, background=True), say("It runs."), say("It has ended.")]
        async with served(tmp_path, script) as server, server.client() as first, server.client() as later:
            made = (await first.ask("session.create", workspace=str(tmp_path / "work"), yes=True)).result
            assert isinstance(made, Opened)
            await turn_of(first, made.session_id, "go")

            (end,) = (event for event in first.events if isinstance(event, ToolCallEnd))

            def has_second(state: State) -> bool:
                call = state.background_calls.get(end.call_id)
                return call is not None and "second" in call.output and end.call_id not in state.calls

            (tmp_path / "work/go").touch()
            await read_until(first, has_second)
            await later.ask("session.attach", session_id=made.session_id)
            await later.until(SessionInfo)
            await read_until(later, has_second)
            (tmp_path / "work/end").touch()
            for client in (first, later):
                await read_until(client, lambda state: not state.tasks and not state.background_calls)
            asked = await later.ask(
                "history.request", session_id=made.session_id, types=["background.updated"], limit=1
            )
            assert isinstance(asked.result, History)
            (ended,) = asked.result.events
            assert isinstance(ended, BackgroundUpdated)
            assert ended.result is not None
            assert ended.result.structured["exit_code"] == 3
            assert asked.result.before_seq == ended.seq

    anyio.run(main)


def test_events_of_certain_types_are_found_in_steps(tmp_path: Path, monkeypatch: Any) -> None:
    """Each answer looks at some events and says where to go on; a type that no log holds is refused by name."""
    monkeypatch.setattr(command_handlers, "MOST_SEARCHED", 5)

    async def main() -> None:
        script = [call("run", command="true", need=["write"]), say("Done."), say("More."), say("And more.")]
        async with served(tmp_path, script) as server, server.client() as client:
            made = (await client.ask("session.create", workspace=str(tmp_path / "work"), mode="plan")).result
            assert isinstance(made, Opened)
            for text in ("one", "two", "three"):
                await turn_of(client, made.session_id, text)
            found: list[Any] = []
            before, asked = None, 0
            while asked == 0 or before is not None:
                answer = await client.ask(
                    "history.request",
                    session_id=made.session_id,
                    before_seq=before,
                    types=["message.user", "tool.call_end"],
                )
                assert isinstance(answer.result, History)
                found = [*answer.result.events, *found]
                before, asked = answer.result.before_seq, asked + 1
            assert [type(event).__name__ for event in found] == [
                "MessageUser",
                "ToolCallEnd",
                "MessageUser",
                "MessageUser",
            ]
            assert asked > 2
            refused = await client.ask("history.request", session_id=made.session_id, types=["agent.output"])
            assert refused.error is not None
            assert "'agent.output'" in refused.error.message
            assert "permission.requested" in refused.error.message

    anyio.run(main)
