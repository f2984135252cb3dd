"""What the Anthropic dialect sends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.providers.anthropic_requests import said, sent, user
from tests.providers.histories import TOOLS, check_anthropic

from jaato.abc.provider import ModelRequest
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
from jaato.protocol.specs import ModelSettings
from jaato.providers.anthropic.dialect import AnthropicDialect, strict_schema

THOUGHT = b'{"type":"thinking","thinking":"Two files.","signature":"EqQB"}'
REDACTED = b'{ "data": "EmwK", "type": "redacted_thinking" }'


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
