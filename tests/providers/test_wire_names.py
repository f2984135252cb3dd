"""Tool names on the wire: what no API takes never reaches one, and comes back as it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato.abc.provider import ModelRequest
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.providers.anthropic.dialect import AnthropicDialect
from jaato.providers.dialect import Dialect
from jaato.providers.google_genai.dialect import GeminiDialect
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.openai.responses import OpenAIResponses
from jaato.providers.wire_encoding import original_names, wire_name

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
any_name = st.text(max_size=100) | st.from_regex(r"[a-z0-9_.:/-]{0,90}", fullmatch=True)


def anthropic_names(body: Any) -> list[str]:
    calls = [block["name"] for message in body["messages"] for block in message["content"] if "name" in block]
    return [tool["name"] for tool in body["tools"]] + calls


def gemini_names(body: Any) -> list[str]:
    parts = [part for content in body["contents"] for part in content["parts"]]
    calls = [
        part[kind]["name"] for part in parts for kind in ("functionCall", "functionResponse") if kind in part
    ]
    return [tool["name"] for tool in body["tools"][0]["functionDeclarations"]] + calls


def chat_names(body: Any) -> list[str]:
    calls = [
        call["function"]["name"] for message in body["messages"] for call in message.get("tool_calls", ())
    ]
    return [tool["function"]["name"] for tool in body["tools"]] + calls


def responses_names(body: Any) -> list[str]:
    return [item["name"] for item in [*body["tools"], *body["input"]] if "name" in item]


@pytest.mark.spec("C1", "Tool names")
@pytest.mark.parametrize(
    ("dialect", "names"),
    [
        (AnthropicDialect(), anthropic_names),
        (GeminiDialect(), gemini_names),
        (OpenAIChat(), chat_names),
        (OpenAIResponses(), responses_names),
    ],
    ids=["anthropic", "gemini", "chat", "responses"],
)
@settings(max_examples=60, deadline=None)
@given(name=any_name)
def test_no_other_name_reaches_the_wire(
    dialect: Dialect, names: Callable[[Any], list[str]], name: str
) -> None:
    """Declared, called or answered, a name on the wire is 1 to 64 plain characters, always the same."""
    messages = [
        Message("user", [Text("go")]),
        Message("assistant", [ToolCall("c1", name, {})]),
        Message("tool", [ToolResult("c1", name, ok=True)]),
    ]
    tool = ToolSpec(name, "Does.", {"type": "object", "properties": {}})
    body = msgspec.json.decode(dialect.encode(ModelRequest("m", messages, tools=[tool])))
    found = names(body)
    assert len(set(found)) == 1
    assert all(NAME.fullmatch(seen) for seen in found)
    assert len(found) > 1
    if isinstance(dialect, AnthropicDialect | GeminiDialect):
        assert original_names([tool]).get(found[0], found[0]) == name


@given(st.lists(any_name, unique=True, max_size=20))
def test_different_tools_keep_different_names(names: list[str]) -> None:
    """Two tools never share a wire name, and a plain name is its own."""
    assert len({wire_name(name) for name in names}) == len(names)
    assert wire_name("readFile") == "readFile"
    assert wire_name("a" * 64) == "a" * 64
    assert wire_name("mcp:do it").startswith("mcp_do_it_")
