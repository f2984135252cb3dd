"""Spans as a fold of a session's events: what they say, and that the log and the session at work give the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.kit import USAGE, call, calls, say
from tests.subagent.cast import Cast
from tests.tracing.collecting import Span, once, plain, stored, traced, tree, written

from jaato.protocol.events import MessageUser, ToolCallStart, TurnCompleted
from jaato.protocol.messages import Message, Text, Usage
from jaato.providers.scripted import Step
from jaato.runtime.tracing.fold import SpanFold

INTERNAL, CLIENT = 1, 3
"""Kinds of spans, as OTLP numbers them."""


def by_id(span: Span) -> str:
    """The id of a span, to sort by."""
    return span.span_id


def by_name(spans: list[Span]) -> dict[str, Span]:
    """Spans by their names, the last of each."""
    return {span.name: span for span in spans}


def test_a_turn_its_model_calls_and_its_tool_calls_are_spans(tmp_path: Path) -> None:
    """A turn is `invoke_agent`, below it each model call is `chat` and each tool call `execute_tool`, and the wait for a
    permission is a span of its own; names and attributes are those of OpenTelemetry's GenAI conventions."""
    script: list[Any] = [
        calls(("readFile", {"path": "none"}), ("run", {"command": "touch x", "need": ["write"]})),
        say("Done."),
    ]
    session_id, spans = once(tmp_path, script, on_permission=lambda _asked: "y")
    branches = tree(spans)
    assert branches.keys() == {"", "invoke_agent main"}
    assert branches[""] == ["invoke_agent main"]
    below = branches["invoke_agent main"]
    assert (below[0], below[-1]) == ("chat script", "chat script")
    assert sorted(below[1:-1]) == ["execute_tool readFile", "execute_tool run", "permission run"]
    found = by_name(spans)
    turn, chat, ran = found["invoke_agent main"], found["chat script"], found["execute_tool run"]
    assert len({span.trace_id for span in spans}) == 1
    assert turn.parent_id == ""
    assert turn.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert turn.attributes["gen_ai.provider.name"] == "scripted"
    assert turn.attributes["gen_ai.conversation.id"] == session_id
    assert turn.attributes["gen_ai.agent.name"] == "main"
    assert turn.attributes["gen_ai.usage.input_tokens"] == 2 * USAGE.input_tokens
    assert turn.attributes["jaato.turn.reason"] == "stop"
    assert (turn.kind, chat.kind, turn.problem) == (INTERNAL, INTERNAL, "")
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    assert chat.attributes["gen_ai.request.model"] == "script"
    assert chat.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert chat.attributes["gen_ai.usage.output_tokens"] == USAGE.output_tokens
    assert ran.attributes["gen_ai.tool.name"] == "run"
    assert str(ran.attributes["gen_ai.tool.call.id"]).startswith("c")
    asked = found["permission run"]
    assert asked.attributes["jaato.permission.decision"] == "allowed"
    assert asked.attributes["gen_ai.tool.call.id"] == ran.attributes["gen_ai.tool.call.id"]
    assert (asked.end_ns or 0) <= ran.start_ns
    failed = found["execute_tool readFile"]
    assert (failed.problem, failed.attributes["error.type"]) == ("file_not_found", "file_not_found")
    text = (tmp_path / "work/spans.jsonl").read_text()
    assert "touch x" not in text
    assert "Done." not in text


def test_a_refused_call_is_a_span_too(tmp_path: Path) -> None:
    """A call that was denied, or that no tool knows, is an `execute_tool` span that failed, beside the question."""
    script: list[Any] = [
        calls(("run", {"command": "touch x", "need": ["write"]}), ("nothing", {})),
        say("Well."),
    ]
    _, spans = once(tmp_path, script, on_permission=lambda _asked: "n")
    found = by_name(spans)
    assert found["execute_tool run"].problem == "permission_denied"
    assert found["execute_tool nothing"].problem == "tool_unknown"
    assert found["permission run"].attributes["jaato.permission.decision"] == "denied"
    assert found["execute_tool run"].start_ns >= (found["permission run"].end_ns or 0)


def test_the_log_gives_the_same_spans_as_the_session_at_work(tmp_path: Path) -> None:
    """With subagents, several at once, in the background and continued, each in the call that gave it its task: one trace
    for each turn of the root, and afterwards the same from the stored log."""
    cast = Cast(
        {
            "main": [
                call("get_tool_schemas", names=["delegate", "continue_subagent", "get_subagent_result"]),
                calls(
                    ("delegate", {"task": "first of two", "name": "one"}),
                    ("delegate", {"task": "second of two"}),
                ),
                calls(("delegate", {"task": "slowly", "name": "late", "background": True})),
                call("continue_subagent", agent_id="one", message="again"),
                call("get_subagent_result", agent_id="late", wait_s=20),
                say("Done."),
            ],
            "one": [call("readFile", path="none"), say("1"), say("1 again")],
            "anyone": [say("2")],
            "late": [say("3")],
        }
    )
    session_id, spans = once(tmp_path, cast)
    assert sorted(spans, key=by_id) == sorted(stored(tmp_path, session_id), key=by_id)
    ids = {span.span_id: span for span in spans}
    assert len(ids) == len(spans)
    assert len({span.trace_id for span in spans}) == 1
    assert all(span.parent_id in ids for span in spans if span.parent_id)
    turns = [span for span in spans if span.operation == "invoke_agent"]
    given = {span.span_id: span.attributes for span in stored(tmp_path, session_id, content=True)}
    above = {
        (span.name.rstrip("0123456789"), ids[span.parent_id].name): given[span.parent_id]
        for span in turns
        if span.parent_id
    }
    assert {key: msgspec.json.decode(str(at["gen_ai.tool.call.arguments"])) for key, at in above.items()} == {
        ("invoke_agent agent-", "execute_tool delegate"): {"task": "second of two"},
        ("invoke_agent late", "execute_tool delegate"): {
            "task": "slowly",
            "name": "late",
            "background": True,
        },
        ("invoke_agent one", "execute_tool continue_subagent"): {"agent_id": "one", "message": "again"},
        ("invoke_agent one", "execute_tool delegate"): {"task": "first of two", "name": "one"},
    }


@pytest.mark.parametrize("error", ["provider_authentication", "rate_limited"])
def test_a_model_call_that_fails_is_a_span(tmp_path: Path, error: str) -> None:
    """A model that cannot be asked, also after a partial reply, is a failed `chat` in a failed turn, by the error's code;
    what was tried again is one span."""
    for number, text in enumerate(["", "I begin"]):
        path = tmp_path / str(number)
        path.mkdir()
        _, spans = once(path, [Step(text=text, error=error)] * 3)
        found = by_name(spans)
        assert found["chat script"].problem == error
        assert found["invoke_agent main"].problem == error
        assert [span.operation for span in spans] == ["chat", "invoke_agent"]


def test_what_the_user_stops_is_no_error(tmp_path: Path) -> None:
    """A stop in a model call leaves a `chat` that was cancelled, one in a tool call only the call; the turn is no error."""

    async def main() -> None:
        async with traced(tmp_path, [call("run", command="sleep 60"), say("no")], yes=True) as live:
            async for event in live.stream("go"):
                if isinstance(event, ToolCallStart):
                    live.stop()

    anyio.run(main)
    found = by_name(written(tmp_path))
    assert found["execute_tool run"].problem == "cancelled"
    assert found["invoke_agent main"].problem == ""
    assert found["invoke_agent main"].attributes["jaato.turn.reason"] == "cancelled"
    assert [span.operation for span in written(tmp_path)].count("chat") == 1
    head: dict[str, Any] = {"session_id": "s", "agent_id": "a"}
    fold = SpanFold()
    fold.apply(MessageUser(**head, seq=1, message=Message("user", [Text("x")]), turn_id="t", timestamp=AT[0]))
    ended = fold.apply(
        TurnCompleted(
            **head,
            seq=2,
            turn_id="t",
            reason="cancelled",
            usage=Usage(),
            model_calls=0,
            tool_calls=0,
            duration_s=1.0,
            timestamp=AT[1],
        )
    )
    spans = plain(ended)
    assert [(span.operation, span.problem) for span in spans] == [("chat", ""), ("invoke_agent", "")]
    assert spans[0].attributes["gen_ai.response.finish_reasons"] == ["cancelled"]


AT = ["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z", "2026-01-01T00:00:02.000Z"]


def test_contents_are_there_only_when_a_setting_asks_for_them(tmp_path: Path) -> None:
    """With `trace_content` a span has what was said, given and found, masked and cut; without, none of it."""
    secret = "sk-ant-api03-" + "Zk9" * 20
    script = [call("run", command=f"echo {'x' * 9000} $KEY"), say("The answer.")]
    environ = {"JAATO_TRACE_FILE": "spans.jsonl", "JAATO_TRACE_CONTENT": "true", "MY_API_KEY": secret}
    session_id, spans = once(tmp_path, script, f"What is {secret}?", yes=True, environ=environ)
    found = by_name(spans)
    asked = str(found["invoke_agent main"].attributes["gen_ai.input.messages"])
    assert msgspec.json.decode(asked)[0]["role"] == "user"
    assert "What is" in asked
    assert "The answer." in str(found["chat script"].attributes["gen_ai.output.messages"])
    arguments = str(found["execute_tool run"].attributes["gen_ai.tool.call.arguments"])
    assert arguments.startswith('{"command":"echo xxx')
    assert len(arguments) < 5000
    assert secret not in (tmp_path / "work/spans.jsonl").read_text()
    bare = msgspec.json.encode(stored(tmp_path, session_id)).decode()
    assert not any(word in bare for word in ("The answer.", "What is", "xxx"))
    whole = stored(tmp_path, session_id, content=True)
    assert sorted(whole, key=by_id) == sorted(spans, key=by_id)


def test_a_hosted_model_is_a_client_span_under_the_conventions_name() -> None:
    """The provider is named as the conventions name it, and a request that leaves the process is of kind CLIENT."""
    from jaato.protocol.events import AgentCreated, MessageModel

    fold = SpanFold()
    head: dict[str, Any] = {"session_id": "s", "agent_id": "a"}
    fold.apply(
        AgentCreated(
            **head, seq=1, name="main", provider="google_genai", model="m", system_prompt="", core_tools=[]
        )
    )
    spoken = Message("assistant", [Text("x")], id="m1", provider="google_genai", model="m")
    (chat,) = plain(
        fold.apply(MessageModel(**head, seq=2, message=spoken, turn_id="t", finish_reason="stop"))
    )
    assert (chat.name, chat.kind) == ("chat m", CLIENT)
    assert chat.attributes["gen_ai.provider.name"] == "gcp.gemini"
    assert list(fold.turns) == ["t"]


def test_names_are_those_of_the_conventions(tmp_path: Path) -> None:
    """Every attribute `gen_ai.…` is one that OpenTelemetry's package of conventions knows."""
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

    known = {name for name in vars(gen_ai_attributes).values() if isinstance(name, str)}
    environ = {"JAATO_TRACE_FILE": "spans.jsonl", "JAATO_TRACE_CONTENT": "true"}
    _, spans = once(tmp_path, [call("readFile", path="none"), say("Done.")], environ=environ)
    used = {name for span in spans for name in span.attributes if name.startswith("gen_ai.")}
    assert {"gen_ai.operation.name", "gen_ai.output.messages", "gen_ai.tool.call.arguments"} <= used <= known
