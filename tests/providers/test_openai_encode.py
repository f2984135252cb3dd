"""Request bodies of both OpenAI dialects, against the types the vendor publishes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.providers.bodies import DIALECTS, FULL, Dialect, body
from tests.providers.conversations import (
    BLOBS,
    CONVERSATIONS,
    REASONING,
    SETTINGS,
    SURROGATE,
    TOOL,
    everything,
)

from jaato.abc.provider import ModelRequest
from jaato.errors import InvalidRequest
from jaato.protocol.messages import Message, Refusal, Text, ToolCall
from jaato.protocol.specs import ModelSettings
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.openai.responses import OpenAIResponses
from jaato.providers.turns import CONTINUE


@DIALECTS
def test_everything_fits_the_published_types(dialect: Dialect) -> None:
    """A conversation with every kind of part, tools and settings is what the vendor's types allow."""
    sent = body(
        dialect, everything("openai"), system="Be brief.", tools=[TOOL], settings=FULL, conversation_id="s1"
    )
    assert sent["stream"] is True
    assert len(sent["tools"]) == 1


@DIALECTS
@given(messages=CONVERSATIONS, chosen=SETTINGS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_conversation_fits_the_published_types(
    dialect: Dialect, messages: list[Message], chosen: ModelSettings
) -> None:
    """Any conversation is what the vendor's types allow, and each result names a call sent before it."""
    sent = body(dialect, messages, settings=chosen)
    seen: list[str] = []
    for item in sent.get("messages") or sent.get("input") or []:
        seen += [call["id"] for call in item.get("tool_calls", ())]
        if item.get("type") == "function_call":
            seen.append(item["call_id"])
        if item.get("role") == "tool" or item.get("type") == "function_call_output":
            seen.remove(item.get("tool_call_id") or item.get("call_id"))
    assert seen == []


def test_chat_messages() -> None:
    """Chat: images as data URLs, media of results after them, arguments as they were, own ids."""
    messages = everything("openai")
    sent = body(OpenAIChat(), messages[:3], system="Be brief.")["messages"]
    system, user, assistant, first, second, attached = sent
    assert system == {"role": "system", "content": "Be brief."}
    assert user["content"][1]["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgpw")
    assert user["content"][2]["file"]["filename"] == "a.pdf"
    assert assistant["content"] == "Reading."
    assert [call["id"] for call in assistant["tool_calls"]] == ["call_a", "call_b"]
    assert [call["function"]["arguments"] for call in assistant["tool_calls"]] == [
        '{"path":"a"}',
        '{"malformed":"{\\"path\\": "}',
    ]
    assert first == {"role": "tool", "tool_call_id": "call_a", "content": "one"}
    assert second == {"role": "tool", "tool_call_id": "call_b", "content": "error: no JSON"}
    assert attached["role"] == "user"
    assert attached["content"][1]["type"] == "image_url"
    omitted, refusal, user, foreign, result, *_ = body(OpenAIChat(), messages[3:])["messages"]
    assert omitted["role"] == "user"
    assert refusal == {"role": "assistant", "content": "I will not."}
    assert user["content"].split("\n\n") == [
        "And now?",
        f"[{list(BLOBS)[2][:12]}]\nplain words",
        "[000000000000 (image/png): its content is no longer available]",
    ]
    assert foreign["tool_calls"][0]["id"] == result["tool_call_id"]
    assert foreign["tool_calls"][0]["id"].startswith("c0")
    assert json.loads(foreign["tool_calls"][0]["function"]["arguments"]) == {"path": "é\ufffd"}
    assert result["content"] == "(no output)"


def test_responses_items() -> None:
    """Responses: encrypted reasoning goes back unchanged before what it led to; media stay in results."""
    messages = everything("openai")
    items = body(OpenAIResponses(), messages[:3])["input"][1:]
    assert items[0] == REASONING
    assert items[1] == {"role": "assistant", "content": "Reading."}
    assert [item["call_id"] for item in items[2:4]] == ["call_a", "call_b"]
    assert json.loads(items[3]["arguments"]) == {"malformed": '{"path": '}
    assert [part["type"] for part in items[4]["output"]] == ["input_text", "input_image"]
    assert items[5] == {"type": "function_call_output", "call_id": "call_b", "output": "error: no JSON"}
    assert body(OpenAIResponses(), [Message("user", [Text("hi")]), messages[-1]])["input"] == [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": CONTINUE},
    ]
    assert body(OpenAIResponses("elsewhere"), messages[:2])["input"][1]["role"] == "assistant"


def test_responses_keeps_nothing_at_the_server() -> None:
    """Responses: nothing is stored, encrypted reasoning is asked for of models that reason."""
    sent = body(OpenAIResponses(), [Message("user", [Text("hi")])])
    assert sent["store"] is False
    assert sent["include"] == ["reasoning.encrypted_content"]
    plain = json.loads(OpenAIResponses().encode(ModelRequest("gpt-4.1", [], settings=FULL)))
    assert "include" not in plain
    assert "reasoning" not in plain


def test_settings_of_chat() -> None:
    """Chat: every setting goes under the name the server and the model know."""
    request = ModelRequest(
        "gpt-5.4", [], settings=ModelSettings(0.5, 100, "minimal", ["END"], {"type": "object"})
    )
    sent = json.loads(OpenAIChat().encode(request))
    assert sent["max_completion_tokens"] == 100
    assert sent["reasoning_effort"] == "low"
    assert (sent["temperature"], sent["stop"]) == (0.5, ["END"])
    assert sent["response_format"]["json_schema"] == {
        "name": "reply",
        "schema": {"type": "object"},
        "strict": False,
    }
    local = ModelRequest("qwen3:8b", [], settings=ModelSettings(max_output_tokens=7))
    assert json.loads(OpenAIChat().encode(local))["max_tokens"] == 7
    assert json.loads(
        OpenAIChat().encode(ModelRequest("gpt-5-mini", [], settings=ModelSettings(effort="minimal")))
    )["reasoning_effort"] == ("minimal")


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, False),
        ({"type": "object", "properties": {}}, False),
        (
            {
                "type": "object",
                "properties": {"type": {"type": "object"}},
                "required": ["type"],
                "additionalProperties": False,
            },
            False,
        ),
        ({"$defs": {"A": {"type": "object"}}, "type": "string"}, False),
    ],
)
@DIALECTS
def test_strict_only_where_the_schema_is_closed(
    dialect: Dialect, schema: dict[str, Any], strict: bool
) -> None:
    """Strict decoding is asked for only with a schema that the vendor accepts for it."""
    sent = json.loads(dialect.encode(ModelRequest("m", [], settings=ModelSettings(response_schema=schema))))
    form = sent["text"]["format"] if "text" in sent else sent["response_format"]["json_schema"]
    assert form["strict"] is strict


def test_stop_with_responses_is_refused_with_a_remedy() -> None:
    """Responses: stop sequences, which it does not have, are an error and not silently dropped."""
    with pytest.raises(InvalidRequest, match="use the chat interface"):
        OpenAIResponses().encode(ModelRequest("m", [], settings=ModelSettings(stop=["END"])))


@DIALECTS
def test_values_no_json_can_carry(dialect: Dialect) -> None:
    """Lone surrogates are replaced, and nesting beyond all measure is cut: no stored value ends a conversation."""
    messages = [Message("user", [Text(f"a{SURROGATE}b")])]
    assert "a\ufffdb" in dialect.encode(ModelRequest("m", messages)).decode()
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    call = Message("assistant", [ToolCall("c1", "x", deep)])
    assert "…" in dialect.encode(ModelRequest("m", [call])).decode()
    while deep:  # taken apart by hand: its own destructor would be as deep
        deep = deep.pop("a")


@DIALECTS
def test_malformed_arguments_are_wrapped(dialect: Dialect) -> None:
    """Arguments that were no JSON object go back inside one: many servers parse them, and would refuse ever after."""
    call = ToolCall("c1", "x", {}, malformed="{oops")
    sent = json.loads(dialect.encode(ModelRequest("m", [Message("assistant", [call])])))
    said = sent["messages"][1]["tool_calls"][0]["function"] if "messages" in sent else sent["input"][1]
    assert json.loads(said["arguments"]) == {"malformed": "{oops"}


def test_refusals_stay_in_the_conversation() -> None:
    """What the model declined to do is said again in its own words."""
    message = Message("assistant", [Refusal("No.")])
    assert b'"content":"No."' in OpenAIChat().encode(ModelRequest("m", [message]))
    assert b'"content":"No."' in OpenAIResponses().encode(ModelRequest("m", [message]))
