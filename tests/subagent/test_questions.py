"""Questions of subagents reach whoever answers for the session, at any depth, or are answered at once by nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, recorded, results, say
from tests.subagent.acts import change, outcomes, value
from tests.subagent.cast import stage

from jaato.abc.asker import Answer, Question
from jaato.protocol.events import (
    AgentStatusChanged,
    ClarificationQuestion,
    ClarificationResolved,
    Event,
    PermissionRequested,
    PermissionResolved,
)
from jaato.runtime.embedding.handlers import answer_questions
from jaato.tools.permissions.gate import Policy

ASK = Policy.of({"defaultPolicy": "ask", "whitelist": {"tools": ["delegate", "get_subagent_result"]}})
CHAIN: dict[str, Any] = {
    "main": [call("delegate", task="x", name="one"), say("done")],
    "one": [call("delegate", task="x", name="two"), say("did")],
    "two": [call("delegate", task="x", name="three"), say("did")],
}
PLUGINS = ("introspection", "subagent", "clarification")


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.6")
def test_a_permission_question_from_the_bottom_reaches_the_root(tmp_path: Path) -> None:
    """The event names the subagent; the answer lets its call run; nobody above waits on a question nobody sees."""

    async def main() -> None:
        heard: list[Event] = []
        scripts = {**CHAIN, "three": [call("change"), say("changed it")]}
        async with stage(tmp_path, scripts, [change], policy=ASK) as (live, _cast):
            live.journal.bus.listen(heard.append)
            stop = answer_questions(live, lambda event: "y")
            with anyio.fail_after(60):
                await live.post("go")
            stop()
            asked = next(event for event in heard if isinstance(event, PermissionRequested))
            three = next(child for child in live.supervisor.subagents.values() if child.name == "three")
            assert asked.agent_id == three.id
            assert three.depth == 3
            resolved = next(event for event in heard if isinstance(event, PermissionResolved))
            assert resolved.agent_id == three.id
            assert outcomes(live, "three") == ["ok"]
            blocked = [
                event
                for event in heard
                if isinstance(event, AgentStatusChanged) and event.status == "blocked"
            ]
            assert [(event.agent_id, event.reason) for event in blocked] == [
                (three.id, "waiting for permission for change")
            ]

    anyio.run(main)


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.6")
def test_a_clarification_from_the_bottom_reaches_the_root(tmp_path: Path) -> None:
    """The same for what a model asks the user."""

    async def main() -> None:
        question = {"context": "colours", "questions": [{"question": "Which?"}]}
        scripts = {**CHAIN, "three": [call("request_clarification", **question), say("asked")]}
        async with stage(tmp_path, scripts, plugins=PLUGINS) as (live, _cast):
            heard: list[Event] = []
            live.journal.bus.listen(heard.append)
            stop = answer_questions(live, None, lambda event: ["blue"])
            with anyio.fail_after(60):
                await live.post("go")
            stop()
            three = next(child for child in live.supervisor.subagents.values() if child.name == "three")
            asked = [
                event for event in heard if isinstance(event, ClarificationQuestion | ClarificationResolved)
            ]
            assert [event.agent_id for event in asked] == [three.id, three.id]
            assert outcomes(live, "three") == ["ok"]
            assert "blue" in str(three.session.state.messages)

    anyio.run(main)


def test_with_nobody_there_a_question_is_answered_at_once(tmp_path: Path) -> None:
    """A headless session never waits: the call is denied with the reason, and the whole tree ends."""

    async def main() -> None:
        question = {"context": "colours", "questions": [{"question": "Which?"}]}
        scripts = {**CHAIN, "three": [calls(("change", {}), ("request_clarification", question)), say("did")]}
        async with stage(tmp_path, scripts, [change], plugins=PLUGINS, policy=ASK) as (live, _cast):
            with anyio.fail_after(60):
                turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "stop"
            assert outcomes(live, "three")[0] == "permission_denied"
            assert not any(isinstance(event, PermissionRequested) for event in recorded(live))

    anyio.run(main)


def test_an_asker_of_the_program_hears_who_asks(tmp_path: Path) -> None:
    """A channel in place of the desk is told the agent's id with the question."""

    async def main() -> None:
        asked: list[Question] = []

        class Channel:
            async def ask(self, question: Question) -> Answer | None:
                asked.append(question)
                return Answer(answer="y")

        scripts = {**CHAIN, "three": [call("change"), say("did")]}
        async with stage(tmp_path, scripts, [change], policy=ASK, asker=Channel()) as (live, _cast):
            await live.post("go")
            three = next(child for child in live.supervisor.subagents.values() if child.name == "three")
            assert [question.agent_id for question in asked] == [three.id]

    anyio.run(main)


def test_one_answer_settles_what_waits_in_the_whole_tree(tmp_path: Path) -> None:
    """Several subagents ask at once; they are asked one at a time, and `all` allows what is pending everywhere."""

    async def main() -> None:
        scripts = {
            "main": [calls(*[("delegate", {"task": "x"})] * 4), say("done")],
            "anyone": [call("change"), say("did")],
        }
        async with stage(tmp_path, scripts, [change], policy=ASK) as (live, _cast):
            asked: list[PermissionRequested] = []

            async def answer(event: PermissionRequested) -> str:
                asked.append(event)
                for _round in range(50):
                    await anyio.sleep(0)
                return "all"

            stop = answer_questions(live, answer)
            with anyio.fail_after(60):
                await live.post("go")
            stop()
            assert len(asked) == 1
            assert [result.structured["result"] for result in results(live)] == ["did"] * 4

    anyio.run(main)


def test_a_grant_for_the_turn_holds_for_all_agents_until_the_root_has_ended_it(tmp_path: Path) -> None:
    """`t` said to one subagent covers the next one's call in the same turn, and nothing in the next turn."""

    async def main() -> None:
        scripts = {
            "main": [
                call("delegate", task="x", name="one"),
                call("delegate", task="x", name="two"),
                say("done"),
                call("delegate", task="x", name="three"),
                say("done"),
            ],
            "anyone": [call("change"), say("did")],
        }
        async with stage(tmp_path, scripts, [change], policy=ASK) as (live, _cast):
            asked: list[str] = []

            def answer(event: PermissionRequested) -> str:
                asked.append(live.supervisor.subagents[event.agent_id].name)
                return "t"

            stop = answer_questions(live, answer)
            await live.post("go")
            await live.post("go")
            stop()
            assert asked == ["one", "three"]

    anyio.run(main)


def test_who_waits_for_an_answer_is_shown_as_blocked(tmp_path: Path) -> None:
    """A background subagent that waits for a person is no silent stall: its status says on what it waits."""

    async def main() -> None:
        asked = anyio.Event()
        questions: list[str] = []

        def listen(event: Event) -> None:
            if isinstance(event, PermissionRequested):
                questions.append(event.question_id)
                asked.set()

        async def then(request: Any) -> Any:
            await asked.wait()
            return call("get_subagent_result", agent_id="one", wait_s=0)

        scripts = {
            "main": [call("delegate", task="x", name="one", background=True), then, say("done")],
            "one": [call("change"), say("did")],
        }
        async with stage(tmp_path, scripts, [change], policy=ASK) as (live, _cast):
            live.journal.bus.listen(listen)
            leave = live.questions.add_responder()
            with anyio.fail_after(60):
                await live.post("go")
                report = value(live)
                assert (report["status"], report["waiting_for"]) == ("blocked", "permission for change")
                live.questions.respond(questions[0], Answer(answer="n"))
                await live.supervisor.all_done()
            leave()
            assert outcomes(live, "one") == ["permission_denied"]

    anyio.run(main)


def test_a_stop_withdraws_the_question(tmp_path: Path) -> None:
    """Nobody is asked any more for a subagent that was stopped."""

    async def main() -> None:
        scripts = {**CHAIN, "three": [call("change"), say("did")]}
        async with stage(tmp_path, scripts, [change], policy=ASK) as (live, _cast):
            heard: list[Event] = []

            def listen(event: Event) -> None:
                heard.append(event)
                if isinstance(event, PermissionRequested):
                    live.stop()

            live.journal.bus.listen(listen)
            leave = live.questions.add_responder()
            with anyio.fail_after(60):
                await live.post("go")
                await live.supervisor.all_done()
            leave()
            assert [type(e) for e in heard if isinstance(e, PermissionRequested | PermissionResolved)] == [
                PermissionRequested,
                PermissionResolved,
            ]

    anyio.run(main)
