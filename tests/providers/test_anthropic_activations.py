"""What the Anthropic dialect sends as tools become active: nothing sent before changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.providers.anthropic_requests import said, user
from tests.providers.histories import check_anthropic

from jaato.abc.provider import ModelRequest
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.providers.anthropic.dialect import AnthropicDialect


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
