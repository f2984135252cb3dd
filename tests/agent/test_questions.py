"""Questions on their way to a person and back."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.kit import call, calls, recorded, reopened, results, say, session

from jaato.abc.asker import Answer
from jaato.protocol.events import (
    AgentStatusChanged,
    ClarificationQuestion,
    Event,
    PermissionGranted,
    PermissionRequested,
    PermissionResolved,
)
from jaato.protocol.specs import Grant
from jaato.tools.call import Call
from jaato.tools.permissions.gate import Policy
from jaato.tools.tool import tool

ASK = Policy.of({"defaultPolicy": "ask"})


@tool(core=True, access="write")
async def change(n: int) -> str:
    """Change something."""
    return f"changed {n}"


@pytest.mark.spec("C4", "Permissions")
def test_nobody_to_ask_means_deny_with_the_reason(tmp_path: Path) -> None:
    """With no client able to answer the call is denied at once, and the model is told why."""

    async def main() -> None:
        async with session(tmp_path, [call("change", n=1), say("ok")], [change], policy=ASK) as live:
            await live.post("go")
            error = results(live)[0].error
            assert error is not None
            assert error.code == "permission_denied"
            assert "no one can answer" in error.message
            assert not any(isinstance(event, PermissionRequested) for event in recorded(live))

    anyio.run(main)


@pytest.mark.spec("S0", "Parallel Tool Execution")
def test_prompts_come_one_at_a_time_and_each_is_durable(tmp_path: Path) -> None:
    """Parallel calls that need approval are asked about one after the other; question and answer are in the log."""

    async def main() -> None:
        open_now: list[str] = []
        most = 0
        script = [calls(*[("change", {"n": n}) for n in range(4)]), say("done")]
        async with session(tmp_path, script, [change], policy=ASK) as live:
            leave = live.questions.add_responder()

            async def answer(question: PermissionRequested) -> None:
                await anyio.sleep(0.005)
                open_now.remove(question.question_id)
                said = "y" if question.arguments["n"] != 2 else "n"
                assert live.questions.respond(question.question_id, Answer(answer=said))

            async with anyio.create_task_group() as group:

                def listen(event: Event) -> None:
                    nonlocal most
                    if isinstance(event, PermissionRequested):
                        open_now.append(event.question_id)
                        most = max(most, len(open_now))
                        group.start_soon(answer, event)

                live.journal.bus.listen(listen)
                await live.post("go")
            leave()
            assert most == 1
            assert [result.ok for result in results(live)] == [True, True, False, True]
            asked = [e for e in recorded(live) if isinstance(e, PermissionRequested)]
            settled = [e for e in recorded(live) if isinstance(e, PermissionResolved)]
            assert [e.question_id for e in asked] == [e.question_id for e in settled]
            assert all(len(e.digest) == 64 for e in asked)

    anyio.run(main)


def test_a_turn_grant_covers_the_rest_and_is_in_the_log(tmp_path: Path) -> None:
    """`t` settles the calls that wait; the grant is an event."""

    async def main() -> None:
        script = [calls(*[("change", {"n": n}) for n in range(4)]), say("done")]
        async with session(tmp_path, script, [change], policy=ASK) as live:
            live.questions.add_responder()
            asked: list[str] = []

            def listen(event: Event) -> None:
                if isinstance(event, PermissionRequested):
                    asked.append(event.question_id)
                    live.questions.respond(event.question_id, Answer(answer="t"))

            live.journal.bus.listen(listen)
            with anyio.fail_after(60):
                await live.post("go")
            assert len(asked) == 1
            assert all(result.ok for result in results(live))
            assert sum(isinstance(event, PermissionGranted) for event in recorded(live)) == 1
            assert live.gate.grants() == []

    anyio.run(main)


def test_when_the_last_answerer_leaves_the_question_is_settled(tmp_path: Path) -> None:
    """No call waits on a question that nobody can see."""

    async def main() -> None:
        async with session(tmp_path, [call("change", n=1), say("ok")], [change], policy=ASK) as live:
            leave = live.questions.add_responder()
            blocked: list[str | None] = []

            def listen(event: Event) -> None:
                if isinstance(event, AgentStatusChanged) and event.status == "blocked":
                    blocked.append(event.reason)

            live.journal.bus.listen(listen)
            async with anyio.create_task_group() as group:

                async def go_away() -> None:
                    await anyio.sleep(0.01)
                    leave()

                group.start_soon(go_away)
                with anyio.fail_after(60):
                    await live.post("go")
            assert blocked == ["waiting for permission for change"]
            assert not results(live)[0].ok

    anyio.run(main)


def test_a_question_past_its_deadline_is_denied_as_timeout(tmp_path: Path) -> None:
    """The policy's channel timeout bounds the wait; the method says so."""
    policy = Policy.of({"defaultPolicy": "ask", "channel": {"type": "queue", "timeout": 0.01}})

    async def main() -> None:
        async with session(tmp_path, [call("change", n=1), say("ok")], [change], policy=policy) as live:
            live.questions.add_responder()
            with anyio.fail_after(60):
                await live.post("go")
            error = results(live)[0].error
            assert error is not None
            assert "in time" in error.message
            settled = next(e for e in recorded(live) if isinstance(e, PermissionResolved))
            assert settled.permission.method == "timeout"

    anyio.run(main)


def test_an_answer_counts_once(tmp_path: Path) -> None:
    """A second answer, or one to a question that is not open, changes nothing and says so."""

    async def main() -> None:
        async with session(tmp_path, [call("change", n=1), say("ok")], [change], policy=ASK) as live:
            live.questions.add_responder()
            said: list[bool] = []

            async with anyio.create_task_group() as group:

                async def answer(question_id: str) -> None:
                    said.append(live.questions.respond(question_id, Answer(answer="y")))
                    said.append(live.questions.respond(question_id, Answer(answer="n")))

                def listen(event: Event) -> None:
                    if isinstance(event, PermissionRequested):
                        group.start_soon(answer, event.question_id)

                live.journal.bus.listen(listen)
                await live.post("go")
            assert said == [True, False]
            assert results(live)[0].ok
            assert live.questions.respond("nonsense", Answer(answer="y")) is False

    anyio.run(main)


@pytest.mark.spec("S4", "3. Separation of Data and Presentation")
def test_a_clarification_carries_questions_out_and_pairs_back(tmp_path: Path) -> None:
    """The model's questions reach the client as data, and come back as question and answer pairs."""

    async def main() -> None:
        pairs: list[object] = []

        @tool(core=True, access="read")
        async def ask_user(*, call: Call) -> str:
            """Ask."""
            from jaato.abc.asker import Clarification

            asked = Clarification(id="q1", call_id=call.id, context="why", questions=[{"question": "Which?"}])
            answers = await call.services["clarify"](asked)
            return str(answers)

        async with session(tmp_path, [call("ask_user"), say("ok")], [ask_user]) as live:
            live.questions.add_responder()
            async with anyio.create_task_group() as group:

                async def answer(question_id: str) -> None:
                    live.questions.respond(question_id, ["this one"])

                def listen(event: Event) -> None:
                    if isinstance(event, ClarificationQuestion):
                        group.start_soon(answer, event.question_id)
                    if type(event).__name__ == "ClarificationResolved":
                        pairs.extend(event.qa_pairs)  # type: ignore[union-attr]

                live.journal.bus.listen(listen)
                await live.post("go")
        assert pairs == [("Which?", "this one")]

    anyio.run(main)


def test_nonsense_is_no_consent_and_is_asked_again(tmp_path: Path) -> None:
    """An answer that means nothing is recorded as denied, and the question comes anew."""

    async def main() -> None:
        async with session(tmp_path, [call("change", n=1), say("ok")], [change], policy=ASK) as live:
            live.questions.add_responder()
            given = iter(["perhaps", "y"])

            def listen(event: Event) -> None:
                if isinstance(event, PermissionRequested):
                    live.questions.respond(event.question_id, Answer(answer=next(given)))

            live.journal.bus.listen(listen)
            with anyio.fail_after(60):
                await live.post("go")
            settled = [e.permission.decision for e in recorded(live) if isinstance(e, PermissionResolved)]
            assert settled == ["denied", "allowed"]
            assert results(live)[0].ok

    anyio.run(main)


def test_what_holds_for_the_session_holds_when_it_goes_on(tmp_path: Path) -> None:
    """A `never` that could be kept for the session only is still in force after it was reopened."""
    never = Grant(id="g1", effect="deny", tool="change", scope="session", workspace=str(tmp_path / "work"))

    async def main() -> None:
        async with session(tmp_path, [say("one")], [change], policy=ASK) as live:
            await live.post("go")
            live.journal.record(PermissionGranted(**live.journal.head(), grant=never))
            session_id = live.state.session_id
        script = [say("one"), call("change", n=1), say("ok")]
        async with reopened(tmp_path, session_id, script, [change], policy=ASK) as live:
            asked: list[Event] = []
            live.questions.add_responder()
            live.journal.bus.listen(lambda e: asked.append(e) if isinstance(e, PermissionRequested) else None)
            with anyio.fail_after(60):
                await live.post("again")
            assert not asked
            assert not results(live)[0].ok

    anyio.run(main)
