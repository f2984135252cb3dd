"""Tasks given to other agents of the session, their answers, and what stays apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, recorded, results, say
from tests.subagent.cast import stage

from jaato.abc.provider import ModelRequest
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    AgentOutput,
    Event,
    MessageModel,
    MessageUser,
    MidTurnQueued,
)
from jaato.providers.scripted import Step


def value(live: Any, number: int = -1) -> Any:
    """What a call of the main agent gave."""
    result = results(live)[number]
    assert result.ok, result.error
    return result.structured


def problem(live: Any, number: int = -1) -> str:
    """What was wrong with a call of the main agent."""
    result = results(live)[number]
    assert result.error is not None
    return result.error.message


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
            child = live.crew.children[report["agent_id"]]
            assert child.session.state.messages is not live.state.messages
            assert child.session.provider is live.provider
            assert child.session.ledger is live.ledger
            assert child.session.catalog is live.catalog

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
            with anyio.fail_after(20):
                await live.post("go")
            assert [result.structured["result"] for result in results(live)] == ["met"] * 3
            assert cast.most == 3

    anyio.run(main)


@pytest.mark.spec("S3", "Subagent Coordination", "S3.subagents.1")
@pytest.mark.spec("S4", "8. Subagents Share Runtime, Not State", "S4.share.2")
def test_a_background_task_is_told_through_the_inbox(tmp_path: Path) -> None:
    """delegate returns at once; the answer comes as a message of the child at the next pause, and can be asked for."""

    async def main() -> None:
        may_end, has_ended = anyio.Event(), anyio.Event()

        async def slow(request: ModelRequest) -> Step:
            await may_end.wait()
            return say("the answer is 42")

        async def wait(request: ModelRequest) -> Step:
            may_end.set()
            await has_ended.wait()
            return call("list_active_subagents")

        scripts = {
            "main": [
                call("delegate", task="think", name="deep", background=True),
                wait,
                call("get_subagent_result", agent_id="deep"),
                say("done"),
            ],
            "deep": [slow],
        }
        async with stage(tmp_path, scripts) as (live, _cast):

            def heard(event: Event) -> None:
                if isinstance(event, MidTurnQueued):
                    has_ended.set()

            live.journal.bus.listen(heard)
            await live.post("go")
            begun = value(live, 0)
            assert begun["status"] in ("waiting", "running")
            told = [m for m in live.state.messages if m.source == "child"]
            assert len(told) == 1
            assert told[0].text.startswith("[child] The subagent deep")
            assert "the answer is 42" in told[0].text
            assert value(live)["result"] == "the answer is 42"

    anyio.run(main)


def test_what_is_fetched_is_not_told_twice(tmp_path: Path) -> None:
    """A parent that waits for the result gets no message about it."""

    async def main() -> None:
        scripts = {
            "main": [
                call("delegate", task="x", name="one", background=True),
                call("get_subagent_result", agent_id="one", wait_s=30),
                say("done"),
            ],
            "one": [say("yes")],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert value(live)["result"] == "yes"
            assert [m.source for m in live.state.messages if m.role == "user"] == ["user"]
            assert not live.inbox

    anyio.run(main)


def test_a_subagent_can_be_continued(tmp_path: Path) -> None:
    """It remembers what was said; its second answer comes back like the first."""

    async def main() -> None:
        scripts = {
            "main": [
                call("delegate", task="say a", name="one"),
                call("continue_subagent", agent_id="one", message="and now b"),
                say("done"),
            ],
            "one": [say("a"), say("b")],
        }
        async with stage(tmp_path, scripts) as (live, cast):
            await live.post("go")
            assert value(live)["result"] == "b"
            assert cast.of("one")[1] == ["[parent] say a", "a", "[parent] and now b"]

    anyio.run(main)


def test_a_message_steers_a_subagent_at_work(tmp_path: Path) -> None:
    """send_to_subagent reaches it at its next pause, before it answers."""

    async def main() -> None:
        asked, sent = anyio.Event(), anyio.Event()

        async def work(request: ModelRequest) -> Step:
            asked.set()
            await sent.wait()
            return call("list_active_subagents")

        async def steer(request: ModelRequest) -> Step:
            await asked.wait()
            return call("send_to_subagent", agent_id="one", message="in French")

        async def release(request: ModelRequest) -> Step:
            sent.set()
            return call("get_subagent_result", agent_id="one", wait_s=30)

        scripts = {
            "main": [call("delegate", task="x", name="one", background=True), steer, release, say("done")],
            "one": [work, say("oui")],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert value(live)["result"] == "oui"
            heard = [m.text for m in live.crew.children[value(live)["agent_id"]].member.state.messages]
            assert "[parent] in French" in heard

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


def test_a_task_is_not_over_while_tasks_below_it_run(tmp_path: Path) -> None:
    """A subagent that delegated in the background hears the answer before its own is taken."""

    async def main() -> None:
        scripts = {
            "main": [call("delegate", task="x", name="boss"), say("done")],
            "boss": [
                call("delegate", task="y", name="worker", background=True),
                say("I wait"),
                lambda request: say("heard: " + request.messages[-1].text.splitlines()[-1]),
            ],
            "worker": [say("worked")],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert value(live)["result"] == "heard: worked"

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
    """A subagent's tokens are its own; the ledger and the family know them all."""

    async def main() -> None:
        scripts = {"main": [call("delegate", task="x", name="one"), say("done")], "one": [say("yes")]}
        async with stage(tmp_path, scripts) as (live, _cast):
            turn = await live.post("go")
            assert turn is not None
            assert turn.usage.input_tokens == 200
            assert live.state.usage.input_tokens == 200
            assert value(live)["input_tokens"] == 100
            assert live.journal.family.usage.input_tokens == 100
            assert live.ledger.totals()["prompt_tokens"] == 300

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
            child = next(iter(live.crew.children.values()))
            assert child.session.state.plan is not None
            assert child.session.state.plan.title == "mine"

    anyio.run(main)


def test_what_a_subagent_was_given_is_labelled(tmp_path: Path) -> None:
    """A task comes as [parent], never as the user's words."""

    async def main() -> None:
        scripts = {"main": [call("delegate", task="x"), say("done")], "anyone": [say("yes")]}
        async with stage(tmp_path, scripts) as (live, cast):
            await live.post("go")
            name = next(iter(live.crew.children.values())).name
            assert cast.of(name)[0] == ["[parent] x"]

    anyio.run(main)
