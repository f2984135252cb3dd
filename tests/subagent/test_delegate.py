"""Tasks given to other agents of the session, their answers, and what stays apart."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.kit import call, calls, recorded, results, say
from tests.subagent.acts import problem, value
from tests.subagent.cast import session_of, stage

from jaato.abc.provider import ModelRequest
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    AgentOutput,
    Event,
    MessageModel,
    MessageUser,
)
from jaato.providers.scripted import Step


@pytest.mark.spec("S4", "8. Subagents Share Runtime, Not State", "S4.share.1")
def test_a_subagent_does_its_task_in_a_conversation_of_its_own(tmp_path: Path) -> None:
    """It reads the task alone, its words are not in its parent's history, and the parent gets its last message."""

    async def main() -> None:
        scripts = {
            "main": [call("delegate", task="count the moons", name="astro"), say("There are eighty.")],
            "astro": [call("list_active_subagents"), say("Eighty moons.")],
        }
        async with stage(tmp_path, scripts) as (live, cast):
            turn = await live.post("how many moons?")
            assert turn is not None
            assert turn.reason == "stop"
            report = value(live)
            assert (report["name"], report["status"], report["result"]) == (
                "astro",
                "completed",
                "Eighty moons.",
            )
            assert cast.of("astro")[0] == ["[parent] count the moons"]
            assert "Eighty moons." not in [message.text for message in live.state.messages]
            child = live.supervisor.subagents[report["agent_id"]]
            assert child.session.state.messages is not live.state.messages
            assert child.session.model.provider is live.model.provider
            assert child.session.model.ledger is live.model.ledger
            assert session_of(child).catalog is live.catalog

    anyio.run(main)


def test_the_log_says_of_each_event_whose_it_is(tmp_path: Path) -> None:
    """One log, dense; agent.created names the parent, agent.completed how it ended."""

    async def main() -> None:
        scripts = {"main": [call("delegate", task="x", name="one"), say("done")], "one": [say("yes")]}
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            log = [event for event in recorded(live) if isinstance(event, Event)]
            assert [event.seq for event in log] == list(range(1, len(log) + 1))
            created = next(e for e in log if isinstance(e, AgentCreated) and e.parent_agent_id is not None)
            assert created.parent_agent_id == live.state.agent_id
            own = [event for event in log if event.agent_id == created.agent_id]
            assert [type(event) for event in own[:3]] == [AgentCreated, MessageUser, MessageModel]
            last = own[-1]
            assert isinstance(last, AgentCompleted)
            assert (last.success, last.reason, last.summary) == (True, "completed", "yes")

    anyio.run(main)


@pytest.mark.spec("S3", "Subagent Coordination", "S3.subagents.1")
def test_tasks_of_one_reply_run_at_the_same_time(tmp_path: Path) -> None:
    """Three foreground tasks that wait for each other all end."""

    async def main() -> None:
        met: list[str] = []
        all_there = anyio.Event()

        async def meet(request: ModelRequest) -> Step:
            met.append("x")
            if len(met) == 3:
                all_there.set()
            await all_there.wait()
            return say("met")

        scripts = {
            "main": [calls(*[("delegate", {"task": "meet"})] * 3), say("all met")],
            "anyone": [meet],
        }
        async with stage(tmp_path, scripts) as (live, cast):
            with anyio.fail_after(60):
                await live.post("go")
            assert [result.structured["result"] for result in results(live)] == ["met"] * 3
            assert cast.most == 3

    anyio.run(main)


def test_words_of_a_subagent_are_shown_under_its_own_id(tmp_path: Path) -> None:
    """Deltas carry the agent's id, so nobody takes them for the parent's."""

    async def main() -> None:
        scripts = {"main": [call("delegate", task="x", name="one"), say("done")], "one": [say("child words")]}
        async with stage(tmp_path, scripts) as (live, _cast):
            shown: dict[str, str] = {}

            def listen(event: Event) -> None:
                if isinstance(event, AgentOutput):
                    shown[event.agent_id] = shown.get(event.agent_id, "") + event.text

            live.journal.bus.listen(listen)
            await live.post("go")
            assert shown.pop(live.state.agent_id) == "done"
            assert list(shown.values()) == ["child words"]

    anyio.run(main)


def test_a_subagent_whose_model_fails_is_a_failed_call(tmp_path: Path) -> None:
    """The parent reads what was wrong, goes on, and can continue the subagent."""

    async def main() -> None:
        scripts = {
            "main": [
                call("delegate", task="x", name="one"),
                call("continue_subagent", agent_id="one", message="again"),
                say("done"),
            ],
            "one": [],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "stop"
            for number in (0, 1):
                assert problem(live, number).startswith("The subagent one (a")
                assert "failed: one has no line 0" in problem(live, number)

    anyio.run(main)


def test_usage_is_counted_for_each_agent_and_for_all(tmp_path: Path) -> None:
    """A subagent's tokens are its own; the ledger and the session state count them all."""

    async def main() -> None:
        scripts = {"main": [call("delegate", task="x", name="one"), say("done")], "one": [say("yes")]}
        async with stage(tmp_path, scripts) as (live, _cast):
            turn = await live.post("go")
            assert turn is not None
            assert turn.usage.input_tokens == 200
            assert live.state.usage.input_tokens == 200
            assert value(live)["input_tokens"] == 100
            assert live.journal.session_state.usage.input_tokens == 100
            assert live.model.ledger.totals()["prompt_tokens"] == 300

    anyio.run(main)


def test_each_agent_has_its_own_plan(tmp_path: Path) -> None:
    """A plan made by a subagent is not its parent's."""

    async def main() -> None:
        scripts = {
            "main": [call("delegate", task="x", name="one"), call("getPlanStatus"), say("done")],
            "one": [call("createPlan", title="mine", steps=["a", "b"]), say("planned")],
        }
        async with stage(tmp_path, scripts, plugins=("introspection", "subagent", "todo")) as (live, _cast):
            await live.post("go")
            assert live.state.plan is None
            assert not results(live)[-1].ok
            child = next(iter(live.supervisor.subagents.values()))
            assert child.session.state.plan is not None
            assert child.session.state.plan.title == "mine"

    anyio.run(main)


def test_what_a_subagent_was_given_is_labelled(tmp_path: Path) -> None:
    """A task comes as [parent], never as the user's words."""

    async def main() -> None:
        scripts = {"main": [call("delegate", task="x"), say("done")], "anyone": [say("yes")]}
        async with stage(tmp_path, scripts) as (live, cast):
            await live.post("go")
            name = next(iter(live.supervisor.subagents.values())).name
            assert cast.of(name)[0] == ["[parent] x"]

    anyio.run(main)
