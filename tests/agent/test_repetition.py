"""Detection of repeated steps: the fold of the log, what the model and the user are told, and what is no repetition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit import call, calls, plan, provider_of, recorded, reopened, runtime, say, session

from jaato.agent.limits.repetition import ASK_AFTER, NUDGE_AFTER, RepetitionFold
from jaato.agent.session import Session
from jaato.agent.state import State
from jaato.errors import ToolError
from jaato.protocol.events import ClarificationQuestion, Event, MessageUser
from jaato.protocol.messages import Problem, Text, ToolCall, ToolResult
from jaato.tools.tool import tool

COUNT = {"n": 0}


@tool(core=True, access="read")
def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing in {where}"


@tool(core=True, access="read")
def watch() -> dict[str, Any]:
    """Watch something that is still running."""
    return {"task_id": "b1", "status": "running"}


@tool(core=True, access="read")
def tick() -> str:
    """Something that changes."""
    COUNT["n"] += 1
    return f"line {COUNT['n']}"


@tool(core=True, access="read")
def fail(how: str) -> str:
    """Fail in the same way whatever it is given."""
    raise ToolError("The disk is on fire.")


TOOLS: list[Any] = [look, watch, tick, fail]


def nudges(live: Session) -> list[str]:
    """What the model was told of repetitions."""
    return [
        message.text
        for message in live.state.messages
        if message.source == "system" and "repeating yourself" in message.text
    ]


async def played(path: Path, script: list[Any], **more: Any) -> tuple[str, str, int, list[str]]:
    """How a turn ended that plays a script, why, after how many model calls, and what the model was told."""
    async with session(path, script, TOOLS, **more) as live:
        turn = await live.post("go")
        assert turn is not None
        why = turn.error.message if turn.error is not None else ""
        return turn.reason, why, turn.model_calls, nudges(live)


def test_the_same_call_with_the_same_result(tmp_path: Path) -> None:
    """The model is told once after four calls; after ten the turn ends, as no one can answer."""

    async def main() -> None:
        reason, why, model_calls, told = await played(tmp_path, [call("look", where="here")] * 20)
        assert (reason, model_calls, len(told)) == ("limit", ASK_AFTER.call, 1)
        assert "look was called 10 times in a row with the same arguments and the same result" in why
        assert "look was called 4 times in a row" in told[0]

    anyio.run(main)


def test_a_model_that_heeds_the_message_goes_on(tmp_path: Path) -> None:
    """Told once, it does something else: the turn ends as any other. Of the next repetition it is told again."""

    async def main() -> None:
        script = [*[call("look", where="here")] * 5, call("tick")] * 2
        reason, _, _, told = await played(tmp_path, [*script, say("done")])
        assert (reason, len(told)) == ("stop", 2)

    anyio.run(main)


def test_the_same_error_with_other_arguments(tmp_path: Path) -> None:
    """Five failures in a row with the same message, whatever the arguments."""

    async def main() -> None:
        script = [call("fail", how=str(number)) for number in range(20)]
        reason, why, model_calls, told = await played(tmp_path, script)
        assert (reason, model_calls, len(told)) == ("limit", ASK_AFTER.error, 1)
        assert "fail has failed 10 times in a row with the same error" in why

    anyio.run(main)


@pytest.mark.parametrize("period", [2, 3, 4, 5, 6])
def test_steps_in_turns(tmp_path: Path, period: int) -> None:
    """A-B-A-B, A-B-C-A-B-C, and cycles of up to six steps."""

    async def main() -> None:
        script = [call("look", where=str(number % period)) for number in range(30)]
        reason, why, model_calls, told = await played(tmp_path, script)
        assert (reason, model_calls, len(told)) == ("limit", ASK_AFTER.cycle[period], 1)
        assert f"the last {model_calls} steps repeat the same calls in turns (look)" in why

    anyio.run(main)


@pytest.mark.parametrize(
    "step",
    [
        call("tick"),
        call("watch"),
        calls(("watch", {}), ("look", {"where": "here"})),
        calls(("tick", {}), ("fail", {"how": "so"})),
    ],
    ids=["changing output", "still running", "still running beside another", "a failure beside a success"],
)
def test_what_is_no_repetition(tmp_path: Path, step: Any) -> None:
    """Polling something that runs, reading output that changes, and a step of which a part succeeds."""

    async def main() -> None:
        reason, _, _, told = await played(tmp_path, [step] * 40 + [say("done")])
        assert (reason, told) == ("stop", [])

    anyio.run(main)


def test_rounds_of_editing_and_testing_are_no_repetition(tmp_path: Path) -> None:
    """Another edit each time, and the same test with the same failure after it; also a file that is read again and again
    between other calls."""

    async def main() -> None:
        rounds: list[Any] = []
        for number in range(20):
            rounds += [
                call("look", where=f"edit {number}"),
                call("fail", how="test"),
                call("look", where="the file"),
            ]
        reason, _, _, told = await played(tmp_path, [*rounds, say("done")])
        assert (reason, told) == ("stop", [])

    anyio.run(main)


@pytest.mark.parametrize("period", [4, 5, 6])
def test_polling_between_the_same_calls_is_no_repetition(tmp_path: Path, period: int) -> None:
    """A round of calls of which one has a changing result; and two rounds alike, as after results were cleared."""

    async def main() -> None:
        fixed: list[Any] = [call("look", where=str(number)) for number in range(period - 1)]
        reason, _, _, told = await played(tmp_path, [*fixed, call("tick")] * 12 + [say("done")])
        assert (reason, told) == ("stop", [])
        (tmp_path / "twice").mkdir()
        again = [*fixed, call("look", where="last")] * 2
        assert await played(tmp_path / "twice", [*again, say("done")]) == ("stop", "", 2 * period + 1, [])

    anyio.run(main)


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    """With `loop_detection` off nothing is said and nothing ends."""

    async def main() -> None:
        script = [call("look", where="here")] * 20 + [say("done")]
        assert await played(tmp_path, script, loop_detection=False) == ("stop", "", 21, [])

    anyio.run(main)


@pytest.mark.parametrize(
    ("answer", "reason", "said"),
    [("continue", "stop", ""), ("stop", "limit", ""), ("look in the cellar", "stop", "look in the cellar")],
)
def test_the_user_decides(tmp_path: Path, answer: str, reason: str, said: str) -> None:
    """Continue, stop, or another instruction, which the model gets as a message of the user. With each the count starts
    anew: as many steps can follow before the next question."""

    async def main() -> None:
        steps = 2 * ASK_AFTER.call - 1
        script = [*[call("look", where="here")] * steps, call("tick"), say("done")]
        async with session(tmp_path, script, TOOLS) as live:
            asked: list[ClarificationQuestion] = []

            def respond(event: Event) -> None:
                if isinstance(event, ClarificationQuestion):
                    asked.append(event)
                    assert live.questions.respond(event.question_id, [answer], "someone")

            live.journal.bus.listen(respond)
            live.questions.add_responder()
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == reason
            assert len(asked) == 1
            assert asked[0].context.startswith("The agent repeats itself: look was called 10 times")
            users = [
                message.text
                for message in live.state.messages
                if message.source == "user" and message.role == "user"
            ]
            assert users == ["go", *([said] if said else [])]

    anyio.run(main)


def test_the_count_survives_a_restart(tmp_path: Path) -> None:
    """The fold of the stored log is the fold that was there."""

    async def main() -> None:
        async with session(tmp_path, [call("look", where="here")] * 20, TOOLS) as live:
            await live.post("go")
            before, session_id = live.state.repetition, live.state.session_id
            events = [event for event in recorded(live) if isinstance(event, Event)]
        state = State()
        for event in events:
            state.agent_id = state.agent_id or event.agent_id
            state.apply(event)
        assert state.repetition == before
        assert before.find(ASK_AFTER) is not None
        async with reopened(tmp_path, session_id, [say("done")] * 12, TOOLS) as again:
            turn = await again.post("go on")
            assert turn is not None
            assert turn.reason == "stop"
            assert again.state.repetition.find(NUDGE_AFTER) is None
            assert any(isinstance(event, MessageUser) for event in events)
            assert provider_of(again).requests

    anyio.run(main)


def test_the_question_survives_a_restart(tmp_path: Path) -> None:
    """A process dies while the user is asked; what is answered before the turn is resumed reaches the model."""

    async def main() -> None:
        script = [*[call("look", where="here")] * ASK_AFTER.call, call("tick"), say("done")]
        made = runtime(tmp_path, TOOLS)
        live = made.create(plan(tmp_path, script, keep_interrupted_turns=True))
        async with live, anyio.create_task_group() as group:
            live.questions.add_responder(patient=True)
            group.start_soon(live.post, "go")
            while not live.state.questions:
                await anyio.sleep(0.01)
            [question] = live.state.questions
            live.suspend()
            group.cancel_scope.cancel()
        made.close()
        stored = live.state.session_id
        async with reopened(tmp_path, stored, script, TOOLS, keep_interrupted_turns=True) as again:
            again.questions.add_responder(patient=True)
            assert again.questions.respond(question, ["look in the cellar"], "someone")
            turn = await again.resume()
            assert turn is not None
            assert turn.reason == "stop"
            assert "look in the cellar" in [message.text for message in again.state.messages]

    anyio.run(main)


STEPS = st.tuples(st.sampled_from("abc"), st.sampled_from("xy"))
CYCLES = st.builds(
    lambda first, cycle, rounds: first + cycle * rounds,
    st.lists(STEPS, max_size=6),
    st.lists(STEPS, min_size=1, max_size=7),
    st.integers(1, 5),
)


@given(st.lists(STEPS, max_size=80) | CYCLES)
def test_only_real_repetitions_are_found(steps: list[tuple[str, str]]) -> None:
    """What is found is there, at every length of history, and the window never grows."""
    fold = RepetitionFold()
    for number, (name, result) in enumerate(steps, 1):
        made = ToolCall(f"c{number}", name, {"b": 1, "a": [name]})
        fold.add_step([made], {made.call_id: ToolResult(made.call_id, name, True, [Text(result)])})
        assert len(fold.steps) <= max(NUDGE_AFTER.cycle)
        past = steps[:number]
        expected = any(
            len(past) >= length
            and all(past[-place] == past[-place - period] for place in range(1, length - period + 1))
            for period, length in (
                (1, NUDGE_AFTER.call),
                *NUDGE_AFTER.cycle.items(),
            )
        )
        assert (fold.find(NUDGE_AFTER) is not None) == expected


@given(st.lists(st.sampled_from(["fine", "disk", "net"]), max_size=40))
def test_errors_are_counted_in_a_row(outcomes: list[str]) -> None:
    """Success, or another error, starts anew."""
    fold = RepetitionFold()
    row = 0
    for number, outcome in enumerate(outcomes):
        made = ToolCall(f"c{number}", "t", {"n": number})
        problem = None if outcome == "fine" else Problem("failed", outcome)
        fold.add_step([made], {made.call_id: ToolResult(made.call_id, "t", outcome == "fine", error=problem)})
        row = 0 if outcome == "fine" else row + 1 if number and outcomes[number - 1] == outcome else 1
        assert (fold.find(NUDGE_AFTER) is not None) == (row >= NUDGE_AFTER.error)


def test_the_order_of_arguments_does_not_matter() -> None:
    """The same object written in another order is the same call."""
    fold = RepetitionFold()
    for number in range(NUDGE_AFTER.call):
        text = '{"a": 1, "b": 2}' if number % 2 else '{"b": 2, "a": 1}'
        made = ToolCall(f"c{number}", "t", json.loads(text))
        fold.add_step([made], {made.call_id: ToolResult(made.call_id, "t", True)})
    assert fold.find(NUDGE_AFTER) is not None
