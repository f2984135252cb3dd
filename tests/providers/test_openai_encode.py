"""Request bodies of both OpenAI dialects, against the types the vendor publishes."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter
from tests.providers.conversations import (
    BLOBS,
    CONVERSATIONS,
    REASONING,
    SETTINGS,
    SURROGATE,
    TOOL,
    everything,
    read_blob,
    walked,
)

from jaato.abc.provider import ModelRequest
from jaato.errors import InvalidRequest
from jaato.protocol.messages import Message, Refusal, Text, Thinking, ToolCall, ToolResult
from jaato.protocol.specs import ModelSettings, ToolSpec
from jaato.providers.openai_chat import ChatStyle, OpenAIChat
from jaato.providers.openai_responses import OpenAIResponses

Dialect = OpenAIChat | OpenAIResponses
FULL = ModelSettings(
    temperature=0.5,
    max_output_tokens=100,
    effort="low",
    response_schema={"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
)


@cache
def adapter(dialect: str) -> TypeAdapter[Any]:
    """The published type of a dialect's streaming request."""
    if dialect == "openai_chat":
        return TypeAdapter(CompletionCreateParamsStreaming)
    return TypeAdapter(ResponseCreateParamsStreaming)


def body(dialect: Dialect, messages: list[Message], **options: Any) -> dict[str, Any]:
    """The request body for a conversation, after the published type has taken it and dropped nothing."""
    request = ModelRequest("gpt-5.4", messages, read_blob=read_blob, **options)
    sent = json.loads(dialect.encode(request))
    validated = walked(adapter(dialect.name).validate_python(sent))
    assert validated == sent
    return dict(sent)


DIALECTS = pytest.mark.parametrize("dialect", [OpenAIChat(), OpenAIResponses()], ids=["chat", "responses"])


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
        '{"path": ',
    ]
    assert first == {"role": "tool", "tool_call_id": "call_a", "content": "one"}
    assert second == {"role": "tool", "tool_call_id": "call_b", "content": "error: no JSON"}
    assert attached["role"] == "user"
    assert attached["content"][1]["type"] == "image_url"
    refusal, user, foreign, result = body(OpenAIChat(), messages[3:])["messages"]
    assert refusal == {"role": "assistant", "content": "I will not."}
    assert [part["text"] for part in user["content"][1:]] == [
        f"[{list(BLOBS)[2][:12]}]\nplain words",
        "[000000000000 (image/png): its content is no longer available]",
    ]
    assert foreign["tool_calls"][0]["id"] == result["tool_call_id"]
    assert foreign["tool_calls"][0]["id"].startswith("c0")
    assert json.loads(foreign["tool_calls"][0]["function"]["arguments"]) == {"path": "é\ufffd"}
    assert result["content"] == "(no output)"


def test_thinking_goes_back_only_where_it_is_wanted() -> None:
    """Chat: thoughts are dropped, unless the style names a field for them and they are the provider's own."""
    message = Message("assistant", [Thinking("hm"), Text("42")], provider="openai")
    request = ModelRequest(
        "m", [message, Message("assistant", [Thinking("no"), Text("1")], provider="other")]
    )
    assert b"hm" not in OpenAIChat().encode(request)
    sent = json.loads(OpenAIChat(style=ChatStyle(thinking="reasoning_content")).encode(request))["messages"]
    assert sent[0] == {"role": "assistant", "content": "42", "reasoning_content": "hm"}
    assert sent[1] == {"role": "assistant", "content": "1"}


def test_responses_items() -> None:
    """Responses: encrypted reasoning goes back unchanged before what it led to; media stay in results."""
    messages = everything("openai")
    items = body(OpenAIResponses(), messages[1:3])["input"]
    assert items[0] == REASONING
    assert items[1] == {"role": "assistant", "content": "Reading."}
    assert [item["call_id"] for item in items[2:4]] == ["call_a", "call_b"]
    assert items[3]["arguments"] == '{"path": '
    assert [part["type"] for part in items[4]["output"]] == ["input_text", "input_image"]
    assert items[5] == {"type": "function_call_output", "call_id": "call_b", "output": "error: no JSON"}
    assert body(OpenAIResponses(), [Message("user", [Text("hi")]), messages[-1]])["input"] == [
        {"role": "user", "content": "hi"}
    ]
    assert body(OpenAIResponses("elsewhere"), messages[1:2])["input"][0]["role"] == "assistant"


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


def inner(sent: bytes, field: bytes) -> bytes:
    """The inside of an array of the body, up to the next field or the end."""
    text = sent.partition(b'"' + field + b'":[')[2]
    return text[: json_end(text)]


def json_end(text: bytes) -> int:
    """Where the array whose inside begins here ends."""
    decoder = json.JSONDecoder()
    return len(text.decode()[: decoder.raw_decode("[" + text.decode())[1] - 2].encode())


@DIALECTS
@pytest.mark.spec("S0", "Deferred Tool Loading")
def test_fifty_activations_change_nothing_sent_before(dialect: Dialect) -> None:
    """Over fifty activations in a growing conversation, the bytes of tools and messages sent before stay."""
    messages: list[Message] = []
    tools: list[ToolSpec] = []
    encoded: dict[Any, Any] = {}
    field = b"messages" if isinstance(dialect, OpenAIChat) else b"input"
    before = (b"", b"")
    for number in range(50):
        tools.append(ToolSpec(f"tool_{number}", "Does it.", TOOL.parameters))
        call = ToolCall(f"c{number}", f"tool_{number}", {"n": number}, provider_id=f"call_{number}")
        messages += [
            Message("user", [Text(f"do {number}")]),
            Message("assistant", [call], provider="openai"),
            Message("tool", [ToolResult(call.call_id, call.name, True, [Text("done")])]),
        ]
        sent = dialect.encode(ModelRequest("m", list(messages), "Be brief.", list(tools), encoded=encoded))
        now = (inner(sent, b"tools"), inner(sent, field))
        assert all(new.startswith(old) for new, old in zip(now, before, strict=True))
        assert sent == dialect.encode(ModelRequest("m", list(messages), "Be brief.", list(tools)))
        before = now


@DIALECTS
def test_what_was_encoded_is_not_encoded_again(dialect: Dialect) -> None:
    """A message is encoded once, whatever becomes of its blob, and forgotten with the conversation."""
    blobs = dict(BLOBS)
    messages = everything("openai")
    encoded: dict[Any, Any] = {}
    request = ModelRequest("m", messages, read_blob=blobs.__getitem__, encoded=encoded)
    first = dialect.encode(request)
    blobs.clear()
    assert dialect.encode(request) == first
    for number in range(2_000):
        dialect.encode(ModelRequest("m", [Message("user", [Text(f"alone {number}")])], encoded=encoded))
    assert max(len(kept) for kept in encoded.values()) < 600


def test_malformed_arguments_for_servers_that_choke() -> None:
    """Where a server takes only JSON objects as arguments, malformed ones are wrapped in one."""
    call = ToolCall("c1", "x", {}, malformed="{oops")
    dialect = OpenAIChat(style=ChatStyle(valid_arguments=True))
    sent = json.loads(dialect.encode(ModelRequest("m", [Message("assistant", [call])])))
    assert json.loads(sent["messages"][0]["tool_calls"][0]["function"]["arguments"]) == {"malformed": "{oops"}


def test_refusals_stay_in_the_conversation() -> None:
    """What the model declined to do is said again in its own words."""
    message = Message("assistant", [Refusal("No.")])
    assert b'"content":"No."' in OpenAIChat().encode(ModelRequest("m", [message]))
    assert b'"content":"No."' in OpenAIResponses().encode(ModelRequest("m", [message]))
