"""The one pipeline in a session: its order, its questions, the events it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, provider_of, recorded, reopened, results, say, session

from jaato.abc.asker import Answer
from jaato.errors import InvalidArguments
from jaato.protocol.codec import encode
from jaato.protocol.events import Event, PermissionRequested, PermissionResolved, ToolCallEnd, ToolCallStart
from jaato.tools.permissions.gate import Policy
from jaato.tools.tool import tool

ASKING = Policy.of({"defaultPolicy": "ask"})


def trail(live: Any) -> list[str]:
    """The names of the events of the calls, in the order of the log."""
    kinds = (PermissionRequested, PermissionResolved, ToolCallStart, ToolCallEnd)
    return [type(event).__name__ for event in recorded(live) if isinstance(event, kinds)]


def answering(live: Any, *answers: Answer) -> Callable[[], None]:
    """Answer the session's permission questions in this order."""
    waiting = list(answers)
    leave = live.questions.add_responder()

    def listen(event: Event) -> None:
        if isinstance(event, PermissionRequested):
            given = waiting.pop(0)
            asyncio.get_running_loop().call_soon(live.questions.respond, event.question_id, given)

    silence = live.journal.bus.listen(listen)

    def stop() -> None:
        silence()
        leave()

    return stop


@tool(core=True, access="execute")
async def write(path: str, size: int = 0) -> str:
    """Write something."""
    RAN.append((path, size))
    return f"wrote {path}"


RAN: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.1")
@pytest.mark.spec("S0", "Tool Execution Pipeline", "S0.pipeline.1")
def test_a_call_goes_through_its_steps_in_order(tmp_path: Path) -> None:
    """Asked, answered, start durable, run, result durable: in this order in the log."""

    async def main() -> None:
        async with session(tmp_path, [call("write", path="a"), say("done")], [write], policy=ASKING) as live:
            stop = answering(live, Answer(answer="y"))
            await live.post("go")
            stop()
            assert trail(live) == [
                "PermissionRequested",
                "PermissionResolved",
                "ToolCallStart",
                "ToolCallEnd",
            ]
            start = next(event for event in recorded(live) if isinstance(event, ToolCallStart))
            assert start.permission is not None
            assert start.permission.decision == "allowed"

    anyio.run(main)
    assert RAN == [("a", 0)]


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.1")
@pytest.mark.parametrize(
    ("step", "made", "code"),
    [
        ("known", call("nothing"), "tool_unknown"),
        ("active", call("later", wrong=1), "tool_inactive"),
        ("valid", call("write", size="big"), "arguments_invalid"),
        ("permitted", call("write", path="a"), "permission_denied"),
    ],
)
def test_each_step_refuses_before_the_next_is_taken(tmp_path: Path, step: str, made: Any, code: str) -> None:
    """An unknown, inactive or invalid call asks nobody; none that is refused has a start or runs."""

    @tool(access="execute")
    async def later(path: str) -> str:
        """A discoverable tool."""
        RAN.append((path, 1))
        return "ran"

    async def main() -> None:
        async with session(tmp_path, [made, say("done")], [write, later], policy=ASKING) as live:
            stop = answering(live, Answer(answer="n"))
            await live.post("go")
            stop()
            (result,) = results(live)
            assert result.error is not None
            assert result.error.code == code
            asked = ["PermissionRequested", "PermissionResolved"] if step == "permitted" else []
            assert trail(live) == [*asked, "ToolCallEnd"]

    anyio.run(main)
    assert RAN == []


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.2")
def test_edited_arguments_return_to_validation_and_are_what_runs(tmp_path: Path) -> None:
    """Edited arguments that do not fit are refused, and the question stays; the start names those that do."""

    async def main() -> None:
        async with session(tmp_path, [call("write", path="a"), say("done")], [write], policy=ASKING) as live:
            refused: list[InvalidArguments] = []

            def give(question_id: str) -> None:
                try:
                    live.questions.respond(question_id, Answer(answer="e", arguments={"path": 7}))
                except InvalidArguments as error:
                    refused.append(error)
                fits = Answer(answer="e", arguments={"path": "edited", "size": 3})
                live.questions.respond(question_id, fits)

            def listen(event: Event) -> None:
                if isinstance(event, PermissionRequested):
                    asyncio.get_running_loop().call_soon(give, event.question_id)

            leave, silence = live.questions.add_responder(), live.journal.bus.listen(listen)
            await live.post("go")
            silence()
            leave()
            assert [path for error in refused for path, _ in error.issues] == ["/path"]
            (ran,) = results(live)
            assert ran.ok
            (start,) = [event for event in recorded(live) if isinstance(event, ToolCallStart)]
            assert start.arguments == {"path": "edited", "size": 3}

    anyio.run(main)
    assert RAN == [("edited", 3)]


@pytest.mark.spec("S0", "Parallel Tool Execution", "S0.parallel.4")
@pytest.mark.spec("C4", "Permissions", "C4.permissions.2")
def test_parallel_calls_ask_one_at_a_time(tmp_path: Path) -> None:
    """Six calls at once, six questions, never two open; an answer for the turn settles the ones that wait."""

    async def main() -> None:
        script = [calls(*[("write", {"path": str(n)}) for n in range(6)]), say("done")]
        async with session(tmp_path, script, [write], policy=ASKING) as live:
            open_now: list[int] = []
            live.journal.bus.listen(lambda _event: open_now.append(len(live.state.questions)))
            stop = answering(live, *[Answer(answer="y")] * 6)
            await live.post("go")
            stop()
            assert max(open_now) == 1
            assert trail(live).count("PermissionRequested") == 6
        script = [*script, calls(*[("write", {"path": str(n)}) for n in range(6)]), say("done")]
        async with reopened(tmp_path, live.state.session_id, script, [write], policy=ASKING) as again:
            before = trail(again).count("PermissionRequested")
            stop = answering(again, Answer(answer="t"))
            await again.post("go")
            stop()
            assert trail(again).count("PermissionRequested") == before + 1

    anyio.run(main)
    assert len(RAN) == 12


@pytest.mark.spec("S3", "User Commands vs Model Tools", "S3.commands.1")
def test_what_the_model_calls_is_always_in_the_history(tmp_path: Path) -> None:
    """Calls and results, failed ones too, stand in the conversation in order."""

    async def main() -> None:
        script = [calls(("write", {"path": "a"}), ("nothing", {})), say("done")]
        async with session(tmp_path, script, [write]) as live:
            await live.post("go")
            asked, answered = live.state.messages[1], live.state.messages[2]
            assert [made.name for made in asked.function_calls] == ["write", "nothing"]
            assert [part.call_id for part in answered.parts] == [  # type: ignore[union-attr]  # tool results
                made.call_id for made in asked.function_calls
            ]
            assert provider_of(live).requests[1].messages[:3] == live.state.messages[:3]

    anyio.run(main)


@pytest.mark.spec("S3", "Event Protocol", "S3.events.1")
def test_the_events_of_a_session_have_the_documented_types(tmp_path: Path) -> None:
    """A turn with a question, a call and an answer shows the types of the table, each as JSON with its fields."""
    import json

    documented = {
        *("agent.created", "agent.output", "agent.status_changed", "tool.call_start", "tool.call_end"),
        *("permission.requested", "context.updated", "turn.completed", "message.user", "message.model"),
    }

    async def main() -> None:
        seen: list[Event] = []
        async with session(tmp_path, [call("write", path="a"), say("done")], [write], policy=ASKING) as live:
            live.journal.bus.listen(seen.append)
            stop = answering(live, Answer(answer="y"))
            await live.post("go")
            stop()
            rows = [json.loads(encode(event)) for event in [*recorded(live), *seen]]
            assert documented <= {row["type"] for row in rows}
            for row in rows:
                assert {"type", "timestamp", "session_id", "agent_id", "seq"} <= set(row)

    anyio.run(main)


@pytest.mark.spec("S4", "3. Separation of Data and Presentation", "S4.data.1")
def test_clarifications_travel_as_pairs(tmp_path: Path) -> None:
    """The resolved event has (question, answer) pairs, whatever a client makes of them."""
    from jaato.protocol.events import ClarificationQuestion, ClarificationResolved

    async def main() -> None:
        script = [
            call("get_tool_schemas", names=["request_clarification"]),
            call(
                "request_clarification",
                context="Paint",
                questions=[{"question": "Which?"}, {"question": "Why?"}],
            ),
            say("done"),
        ]
        async with session(tmp_path, script, plugins=["introspection", "clarification"]) as live:
            live.questions.add_responder()

            def listen(event: Event) -> None:
                if isinstance(event, ClarificationQuestion):
                    loop = asyncio.get_running_loop()
                    loop.call_soon(live.questions.respond, event.question_id, ["Red", None])

            live.journal.bus.listen(listen)
            await live.post("go")
            (resolved,) = [event for event in recorded(live) if isinstance(event, ClarificationResolved)]
            assert resolved.qa_pairs == [("Which?", "Red"), ("Why?", None)]

    anyio.run(main)
