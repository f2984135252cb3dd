"""What the Anthropic dialect sends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.providers.histories import TOOLS, check_anthropic, read_blob

from jaato.abc.provider import ModelRequest
from jaato.errors import (
    AuthenticationError,
    ContextOverflow,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    RateLimited,
    ServerFault,
)
from jaato.protocol.messages import (
    Media,
    Message,
    Opaque,
    Problem,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from jaato.protocol.specs import ModelSettings, ToolSpec
from jaato.providers.anthropic import AnthropicDialect, strict_schema
from jaato.providers.anthropic_models import describe, generation, read_models

THOUGHT = b'{"type":"thinking","thinking":"Two files.","signature":"EqQB"}'
REDACTED = b'{ "data": "EmwK", "type": "redacted_thinking" }'


def user(text: str) -> Message:
    return Message("user", [Text(text)])


def said(*messages: Message, model: str = "claude-opus-5-5", dialect: AnthropicDialect | None = None) -> Any:
    """The messages as the wire has them, checked."""
    request = ModelRequest(model, messages, "Be brief.", TOOLS, read_blob=read_blob)
    return check_anthropic((dialect or AnthropicDialect(cache=False)).encode(request))["messages"]


def sent(model: str, **settings: Any) -> Any:
    """The whole request for some settings, checked."""
    request = ModelRequest(model, [user("hi")], settings=ModelSettings(**settings))
    return check_anthropic(AnthropicDialect().encode(request))


def test_thoughts_go_back_as_they_came() -> None:
    """A signed or redacted thought is given back byte for byte before the calls it led to."""
    thoughts = [
        Thinking("Two files.", Opaque("anthropic", Raw(THOUGHT))),
        Thinking("", Opaque("anthropic", Raw(REDACTED))),
    ]
    call = ToolCall("c1", "readFile", {"path": "a"}, provider_id="toolu_1")
    messages = [
        user("go"),
        Message("assistant", [*thoughts, call]),
        Message("tool", [ToolResult("c1", "readFile", ok=True, content=[Text("A")])]),
    ]
    body = AnthropicDialect().encode(ModelRequest("claude-opus-5-5", messages, tools=TOOLS))
    assert THOUGHT + b"," + REDACTED + b',{"type":"tool_use"' in body


def test_foreign_thoughts_stay_behind() -> None:
    """What another API thought, or a thought without a signature, is not sent."""
    messages = (
        user("a"),
        Message("assistant", [Thinking("x", Opaque("gemini", Raw(b'"s"'))), Thinking("y"), Text("ok")]),
    )
    assert said(*messages)[1]["content"] == [{"type": "text", "text": "ok"}]


def test_results_come_first_in_call_order_and_failures_are_marked() -> None:
    """Results travel in one user message before anything else, in call order, failures as errors."""
    messages = (
        user("go"),
        Message(
            "assistant",
            [ToolCall("c1", "readFile", {}), ToolCall("c2", "readFile", {}, provider_id="bad id")],
        ),
        Message("user", [Text("hurry")], source="parent"),
        Message(
            "tool",
            [
                ToolResult("c2", "readFile", ok=False, error=Problem("tool_failed", "no such file")),
                ToolResult("c1", "readFile", ok=True, content=[Text("A"), Media("image/png", "png")]),
            ],
        ),
    )
    wire = said(*messages)
    assert [block["id"] for block in wire[1]["content"]] == ["c1", "c2"]
    one, two, text = wire[2]["content"]
    assert one["tool_use_id"] == "c1"
    assert [block["type"] for block in one["content"]] == ["text", "image"]
    assert two["is_error"]
    assert two["content"][0]["text"] == "tool_failed: no such file"
    assert text["text"] == "hurry"


def test_a_call_without_result_is_answered_as_interrupted() -> None:
    """After a crash the model is told that a call may or may not have taken effect."""
    wire = said(user("go"), Message("assistant", [ToolCall("c1", "run", {})]), user("and now?"))
    result, text = wire[2]["content"]
    assert result["is_error"]
    assert "may or may not" in result["content"][0]["text"]
    assert text["text"] == "and now?"


def test_adjacent_messages_of_one_side_are_one() -> None:
    """Roles alternate: adjacent messages merge, empty text is dropped, a refusal is what the model said."""
    wire = said(
        user("a"),
        user(" "),
        user("b"),
        Message("assistant", [Text("")]),
        Message("assistant", [Refusal("no")]),
        user("c"),
    )
    assert [[block["text"] for block in message["content"]] for message in wire] == [
        ["a", "b"],
        ["no"],
        ["c"],
    ]


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("claude-opus-5-5", "high", ({"type": "adaptive", "display": "summarized"}, {"effort": "high"})),
        ("claude-sonnet-4-6", "low", ({"type": "adaptive"}, {"effort": "low"})),
        ("claude-opus-5-5", "minimal", (None, {"effort": "low"})),
        ("claude-haiku-4-5-20251001", "medium", ({"type": "enabled", "budget_tokens": 8192}, None)),
        ("claude-haiku-4-5-20251001", "minimal", (None, None)),
        ("claude-3-5-haiku-20241022", "high", (None, None)),
        ("claude-opus-5-5", None, (None, None)),
    ],
)
def test_effort_is_asked_for_in_the_form_of_the_generation(model: str, effort: str, expected: Any) -> None:
    """Newer models think under an effort, older ones within a token budget, the oldest not at all."""
    body = sent(model, effort=effort)
    assert (body.get("thinking"), body.get("output_config")) == expected


def test_a_budget_leaves_room_for_the_answer() -> None:
    """The thinking budget stays below the output limit, and too small a limit leaves thinking out."""
    assert (
        sent("claude-sonnet-4-5", effort="high", max_output_tokens=4_000)["thinking"]["budget_tokens"]
        == 2_976
    )
    assert "thinking" not in sent("claude-sonnet-4-5", effort="high", max_output_tokens=1_500)


def test_no_budget_inside_a_foreign_tool_loop() -> None:
    """A loop that another model began has no signed thought, so older models are not asked to think in it."""
    loop = [
        user("go"),
        Message("assistant", [ToolCall("c1", "readFile", {})]),
        Message("tool", [ToolResult("c1", "readFile", ok=True, content=[Text("A")])]),
    ]
    dialect, high = AnthropicDialect(), ModelSettings(effort="high")
    request = ModelRequest("claude-sonnet-4-5", loop, settings=high)
    assert "thinking" not in check_anthropic(dialect.encode(request))
    after = [*loop, Message("assistant", [Text("done")]), user("next")]
    later = ModelRequest("claude-sonnet-4-5", after, settings=high, encoded=request.encoded)
    assert "thinking" in check_anthropic(dialect.encode(later))


def test_temperature_goes_only_where_it_is_taken() -> None:
    """Generations that refuse sampling parameters get none; others get it within its range."""

    def temperature(model: str) -> float | None:
        request = ModelRequest(model, [user("hi")], settings=ModelSettings(temperature=1.5))
        found: float | None = msgspec.json.decode(AnthropicDialect().encode(request)).get("temperature")
        return found

    assert temperature("claude-haiku-4-5") == 1.0
    assert temperature("claude-opus-4-7") is None
    assert temperature("claude-mythos-5") is None
    assert temperature("llama") == 1.0


def test_a_schema_constrains_the_output() -> None:
    """A response schema becomes the output format, closed; what the API does not know becomes words."""
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1},
            "x": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]},
        },
        "$defs": {"a": {"type": "array", "items": {"type": "string"}, "minItems": 3}},
    }
    form = sent("claude-opus-5-5", response_schema=schema)["output_config"]["format"]
    strict = strict_schema(schema)
    assert form == {"type": "json_schema", "schema": strict}
    assert strict["additionalProperties"] is False
    assert strict["properties"]["n"] == {"type": "integer", "description": '{"minimum":1}'}
    assert strict["properties"]["x"] == {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}
    assert strict["$defs"]["a"]["description"] == '{"minItems":3}'


def tool(number: int, core: bool = False) -> ToolSpec:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    return ToolSpec(
        f"tool_{number}", f"Does {number}.", schema, discoverability="core" if core else "discoverable"
    )


def activation(number: int) -> list[Message]:
    """The messages by which one more tool becomes active."""
    call = ToolCall(
        f"c{number}", "get_tool_schemas", {"names": [f"tool_{number}"]}, provider_id=f"toolu_{number}"
    )
    structured = {"schemas": [{}], "activated": [f"tool_{number}"], "not_found": [], "suggestions": {}}
    result = ToolResult(call.call_id, call.name, ok=True, content=[Text("{…}")], structured=structured)
    return [Message("assistant", [call]), Message("tool", [result])]


class Shape(msgspec.Struct):
    """The pieces of a request the prompt cache is built over."""

    tools: list[Raw]
    system: Raw
    messages: list[Raw]


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.spec("C6", "Providers and types (S3)")
def test_fifty_activations_leave_what_was_sent_as_it_was(deferred: bool) -> None:
    """Tools are appended in activation order; the bytes of everything sent before stay."""
    dialect = AnthropicDialect(deferred=deferred)
    tools = [tool(-2, core=True), tool(-1, core=True)]
    messages = [user("go")]
    encoded: dict[Any, Any] = {}
    before: Shape | None = None
    for number in range(50):
        body = dialect.encode(ModelRequest("claude-opus-5-5", messages, "sys", list(tools), encoded=encoded))
        check_anthropic(body)
        shape = msgspec.json.decode(body, type=Shape)
        mark = b',"cache_control":{"type":"ephemeral"}'
        assert [mark in bytes(raw) for raw in shape.tools[:2]] == [False, True]
        assert not any(mark in bytes(raw) for raw in shape.tools[2:])
        assert all((b'"defer_loading":true' in bytes(raw)) is deferred for raw in shape.tools[2:])
        if before is not None:
            assert shape.tools[: len(before.tools)] == before.tools
            assert shape.system == before.system
            past = [bytes(raw).replace(mark, b"") for raw in before.messages]
            assert [bytes(raw).replace(mark, b"") for raw in shape.messages[: len(past)]] == past
            assert mark in bytes(shape.messages[len(past) - 1])  # where the last request's prefix was cached
        before = shape
        tools.append(tool(number))
        messages += activation(number)


def test_an_activation_refers_to_its_tools() -> None:
    """With deferral the result of an activation is a reference, and what was not found follows as text."""
    found = {"activated": ["readFile"], "not_found": ["nope"], "suggestions": {}}
    messages = (
        user("go"),
        Message("assistant", [ToolCall("c1", "get_tool_schemas", {})]),
        Message(
            "tool", [ToolResult("c1", "get_tool_schemas", ok=True, content=[Text("long")], structured=found)]
        ),
    )
    result, text = said(*messages, dialect=AnthropicDialect(deferred=True, cache=False))[2]["content"]
    assert result["content"] == [{"type": "tool_reference", "tool_name": "readFile"}]
    assert "nope" in text["text"]


def fault(status: int, kind: str = "", message: str = "m", **headers: str) -> ProviderError:
    body = msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})
    return AnthropicDialect().error(status, {k.replace("_", "-"): v for k, v in headers.items()}, body)


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (401, "authentication_error", "invalid x-api-key", AuthenticationError),
        (403, "permission_error", "no", AuthenticationError),
        (400, "invalid_request_error", "Your credit balance is too low", ProviderError),
        (404, "not_found_error", "model: claude-9", ModelNotFound),
        (413, "request_too_large", "Request exceeds the maximum size", ContextOverflow),
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", ContextOverflow),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 1 + 2",
            ContextOverflow,
        ),
        (400, "invalid_request_error", "messages: bad", InvalidRequest),
        (429, "rate_limit_error", "slow", RateLimited),
        (500, "api_error", "oops", ServerFault),
        (504, "timeout_error", "late", ServerFault),
        (529, "overloaded_error", "Overloaded", ServerFault),
        (529, "", "", ServerFault),
    ],
)
def test_errors_are_typed(status: int, kind: str, message: str, expected: type[ProviderError]) -> None:
    """Each error of the API becomes the error a caller can act on, with the server's words."""
    error = fault(status, kind, message)
    assert type(error) is expected
    assert error.status == status
    assert message in str(error)


def test_an_error_page_is_no_surprise() -> None:
    """A body that is not the API's JSON still gives the error of its status and the wait of its headers."""
    error = AnthropicDialect().error(429, {"retry-after": "7"}, b"<html>too many</html>")
    assert isinstance(error, RateLimited)
    assert error.retry_after_s == 7
    assert "too many" in str(error)


def test_models_are_known_by_name() -> None:
    """Dated, regional and spelt-out names of a model are that model; unknown ones have no prices."""
    assert generation("claude-opus-4-20250514") == (4, 0)
    assert generation("us.anthropic.claude-sonnet-4-5-20250929-v1:0") == (4, 5)
    assert generation("claude-3-7-sonnet-latest") == (3, 7)
    assert generation("gpt-5") is None
    assert describe("claude-haiku-4-5-20251001").price_output == 5.0
    assert describe("claude-opus-5-5").price_input == 4.0
    assert describe("claude-opus-5@20260724").price_input == 5.0
    assert describe("claude-opus-4-9").price_input is None
    assert describe("claude-opus-5-6").price_input is None


def test_the_list_of_models_is_read() -> None:
    """Limits and abilities come from the API where it says them, and pages follow each other."""
    listed = {
        "data": [
            {
                "id": "claude-new",
                "max_input_tokens": 10,
                "max_tokens": 5,
                "capabilities": {
                    "image_input": {"supported": True},
                    "thinking": {"supported": True, "types": {}},
                },
            },
            {"id": "claude-haiku-4-5"},
        ],
        "has_more": True,
        "last_id": "claude-haiku-4-5",
    }
    (new, old), path = read_models(msgspec.json.encode(listed))
    assert (new.context_limit, new.output_limit, new.vision, new.thinking) == (10, 5, True, True)
    assert old.context_limit == 200_000
    assert path == "/v1/models?limit=1000&after_id=claude-haiku-4-5"


def test_what_was_declared_plainly_stays_so() -> None:
    """A tool that was declared whole is never turned into a deferred one by a later activation."""
    dialect = AnthropicDialect(deferred=True)
    encoded: dict[Any, Any] = {}
    go = user("go")
    tools = [tool(-1, core=True), tool(7)]
    first = dialect.encode(ModelRequest("claude-opus-5-5", [go], tools=tools, encoded=encoded))
    messages = [go, *activation(7)]
    later = dialect.encode(ModelRequest("claude-opus-5-5", messages, tools=tools, encoded=encoded))
    assert check_anthropic(later)["tools"] == check_anthropic(first)["tools"]
    assert b"tool_reference" not in later
