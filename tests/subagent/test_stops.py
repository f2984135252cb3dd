"""A stop reaches every depth, from wherever it comes, and leaves nothing at work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, recorded, say
from tests.subagent.acts import Trap, statuses, value
from tests.subagent.cast import stage

from jaato.abc.provider import ModelRequest
from jaato.agent.session import Session
from jaato.protocol.events import AgentCompleted, TurnCompleted
from jaato.providers.scripted import Step
from jaato.tools.tool import tool

DEEP: dict[str, Any] = {"boss": [call("delegate", task="y", name="worker"), say("did")]}


def endings(live: Session) -> list[tuple[str, str]]:
    """How each subagent's task ended, by name, as the log has it."""
    names = {child.id: child.name for child in live.supervisor.subagents.values()}
    return [(names[e.agent_id], e.reason) for e in recorded(live) if isinstance(e, AgentCompleted)]


@pytest.mark.spec("S3", "Subagent Coordination", "S3.subagents.1")
def test_a_stop_of_the_main_agent_reaches_every_depth(tmp_path: Path) -> None:
    """Model and tool calls three levels down end at once; every turn and every task is recorded as stopped."""

    async def main() -> None:
        trap = Trap(2)

        @tool(access="read", core=True)
        async def stay() -> str:
            """Stay."""
            await trap.stay()
            return ""

        scripts = {
            "main": [call("delegate", task="x", name="boss"), say("done")],
            "boss": [
                calls(
                    ("delegate", {"task": "y", "name": "mid"}), ("delegate", {"task": "z", "name": "caller"})
                )
            ],
            "mid": [call("delegate", task="y", name="deep")],
            "deep": [trap.speak],
            "caller": [call("stay")],
        }
        async with stage(tmp_path, scripts, [stay]) as (live, _cast):
            async with anyio.create_task_group() as group:
                turns: list[Any] = []

                async def run() -> None:
                    turns.append(await live.post("go"))

                group.start_soon(run)
                with anyio.fail_after(60):
                    await trap.full.wait()
                    live.stop()
                    await live.supervisor.all_done()
            assert turns[0].reason == "cancelled"
            assert trap.left == 2
            assert set(statuses(live).values()) == {"cancelled"}
            log = recorded(live)
            ends = [event for event in log if isinstance(event, TurnCompleted)]
            assert len(ends) == 5
            assert {event.reason for event in ends} == {"cancelled"}
            open_calls = [child.session.state.open_calls for child in live.supervisor.subagents.values()]
            assert not any(open_calls)
            assert not live.state.open_calls
            turn = await live.post("again")
            assert turn is not None

    anyio.run(main)


def test_background_tasks_end_with_a_stop_too(tmp_path: Path) -> None:
    """Also when the main agent itself rests, and its turn is long over."""

    async def main() -> None:
        trap = Trap(3)
        scripts = {
            "main": [calls(*[("delegate", {"task": "x", "background": True})] * 3), say("they work")],
            "anyone": [trap.speak],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            with anyio.fail_after(60):
                await live.post("go")
                await trap.full.wait()
                assert set(statuses(live).values()) == {"running"}
                live.stop()
                await live.supervisor.all_done()
            assert set(statuses(live).values()) == {"cancelled"}

    anyio.run(main)


def test_the_end_of_a_session_leaves_no_task(tmp_path: Path) -> None:
    """Whatever works when the session is closed is stopped, recorded, and not there any more."""
    seen: list[str] = []

    async def main() -> None:
        trap = Trap(2)
        before = asyncio.all_tasks()
        scripts = {
            "main": [
                calls(
                    ("delegate", {"task": "x", "name": "boss", "background": True}),
                    ("delegate", {"task": "x", "name": "lone", "background": True}),
                ),
                say("they work"),
            ],
            "boss": [call("delegate", task="y", name="worker")],
            "worker": [trap.speak],
            "lone": [trap.speak],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            live.journal.bus.listen(
                lambda event: seen.append(event.reason) if isinstance(event, AgentCompleted) else None
            )
            with anyio.fail_after(60):
                await live.post("go")
                await trap.full.wait()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        assert trap.left == 2

    anyio.run(main)
    assert seen == ["cancelled"] * 3


def test_a_session_that_is_closed_and_opened_has_its_subagents(tmp_path: Path) -> None:
    """Those that were stopped by the close can be continued, and the agent is told."""

    async def main() -> None:
        trap = Trap()
        scripts: dict[str, Any] = {
            "main": [call("delegate", task="x", name="one", background=True), say("it works")],
            "one": [trap.speak],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            with anyio.fail_after(60):
                await live.post("go")
                await trap.full.wait()
            session_id = live.state.session_id
        again = {
            "main": [
                *scripts["main"],
                call("continue_subagent", agent_id="one", message="go on"),
                say("done"),
            ],
            "one": [say("finished")],
        }
        async with stage(tmp_path, again, again=session_id) as (live, _cast):
            assert statuses(live) == {"one": "cancelled"}
            await live.post("and now?")
            assert any("one" in m.text for m in live.state.messages if m.source == "child")
            assert value(live)["result"] == "finished"

    anyio.run(main)


def test_cancel_subagent_ends_it_and_those_below(tmp_path: Path) -> None:
    """The others go on; the one that was stopped can be continued."""

    async def main() -> None:
        trap = Trap(2)

        async def then(request: ModelRequest) -> Step:
            await trap.full.wait()
            return call("cancel_subagent", agent_id="boss")

        scripts = {
            "main": [
                calls(
                    ("delegate", {"task": "x", "name": "boss", "background": True}),
                    ("delegate", {"task": "x", "name": "other", "background": True}),
                ),
                then,
                call("list_active_subagents"),
                call("cancel_subagent", agent_id="boss"),
                say("done"),
            ],
            "boss": [call("delegate", task="y", name="worker")],
            "worker": [trap.speak],
            "other": [trap.speak],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            with anyio.fail_after(60):
                await live.post("go")
            assert value(live, 2)["stopped"] is True
            rows = {row["name"]: row["status"] for row in value(live, 3)["subagents"]}
            assert rows == {"boss": "cancelled", "other": "running", "worker": "cancelled"}
            assert value(live, 4)["stopped"] is False
            assert ("boss", "cancelled") in endings(live)

    anyio.run(main)


def test_a_time_out_of_the_call_that_waits_ends_the_task(tmp_path: Path) -> None:
    """start_background with a time limit stops a delegate and all below it."""

    async def main() -> None:
        trap = Trap()
        scripts = {
            "main": [
                call("start_background", tool="delegate", args={"task": "x", "name": "boss"}, timeout_s=0.8),
                say("waiting"),
            ],
            **DEEP,
            "worker": [trap.speak],
        }
        plugins = ("introspection", "subagent", "background")
        async with stage(tmp_path, scripts, plugins=plugins) as (live, _cast):
            with anyio.fail_after(60):
                await live.post("go")
                while live.tasks.running():
                    await anyio.sleep(0.01)
            assert statuses(live) == {"boss": "cancelled", "worker": "cancelled"}
            task = live.tasks.all()[0]
            assert task.outcome is not None
            assert task.outcome.problem is not None
            assert "0.8 s" in task.outcome.problem.message

    anyio.run(main)
