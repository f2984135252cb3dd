"""A stop at any moment, and by whom."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.kit import call, calls, recorded, results, say
from tests.subagent.acts import Trap, value
from tests.subagent.cast import stage

from jaato.abc.provider import ModelRequest
from jaato.protocol.events import AgentCompleted, Event, MessageModel, ToolCallEnd
from jaato.providers.scripted import Step


@pytest.mark.parametrize("rounds", range(0, 60, 3))
def test_a_stop_at_any_moment_ends_everything(tmp_path: Path, rounds: int) -> None:
    """Whenever it comes, every call has a result, every task an end, and the next turn works."""

    async def main() -> None:
        scripts = {
            "main": [calls(*[("delegate", {"task": "x"})] * 3), *[say("done")] * 3],
            "anyone": [
                calls(("delegate", {"task": "y", "background": True}), ("list_active_subagents", {})),
                *[say("did")] * 3,
            ],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            async with anyio.create_task_group() as group:
                group.start_soon(live.post, "go")
                for _round in range(rounds):
                    await anyio.sleep(0)
                live.stop()
            with anyio.fail_after(60):
                await live.supervisor.all_done()
            assert not live.state.open_calls
            for child in live.supervisor.subagents.values():
                state = child.session.state
                assert not (state.open_calls)
                assert not (state.open_turn)
                assert not (child.has_slot)
                assert not (child.waits)
                assert not (child.awaited)
            ended = {e.agent_id for e in recorded(live) if isinstance(e, AgentCompleted)}
            assert ended == set(live.journal.session_state.subagents)
            turn = await live.post("again")
            assert turn is not None
            log = [event for event in recorded(live) if isinstance(event, Event)]
            assert [event.seq for event in log] == list(range(1, len(log) + 1))

    anyio.run(main)


def test_a_subagent_cannot_close_or_cancel_who_is_not_below_it(tmp_path: Path) -> None:
    """Nor itself, nor its parent, nor a sibling."""

    async def main() -> None:
        def sly(request: ModelRequest) -> Step:
            names = ("one", "main", "parent", "two")
            return calls(*[("cancel_subagent", {"agent_id": name}) for name in names])

        scripts = {
            "main": [
                call("delegate", task="x", name="two"),
                call("delegate", task="x", name="one"),
                say("done"),
            ],
            "one": [sly, say("did")],
            "two": [say("did")],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert value(live)["result"] == "did"
            ends = [e for e in recorded(live) if isinstance(e, ToolCallEnd) and e.tool == "cancel_subagent"]
            assert len(ends) == 4
            assert not any(event.result.ok for event in ends)

    anyio.run(main)


def test_a_partial_answer_of_a_stopped_subagent_is_kept(tmp_path: Path) -> None:
    """What it had said is in its history, and its report."""

    async def main() -> None:
        trap = Trap()
        scripts = {
            "main": [call("delegate", task="x", name="one"), say("done")],
            "one": [Step(text="so far", calls=call("list_active_subagents").calls), trap.speak],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            async with anyio.create_task_group() as group:
                group.start_soon(live.post, "go")
                await trap.full.wait()
                live.stop()
            child = next(iter(live.supervisor.subagents.values()))
            said = [e for e in recorded(live) if isinstance(e, MessageModel) and e.agent_id == child.id]
            assert said[0].message.text == "so far"
            assert child.report()["status"] == "cancelled"
            assert results(live)[0].error is not None

    anyio.run(main)
