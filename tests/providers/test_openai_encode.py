"""Request bodies of both OpenAI dialects, against the types the vendor publishes."""

from __future__ import annotations

import json
import weakref
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec import Raw
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

from jaato.abc.provider import ModelRequest, Reply
from jaato.errors import InvalidRequest
from jaato.protocol.messages import Message, Opaque, Refusal, Text, Thinking, ToolCall, ToolResult
from jaato.protocol.specs import ModelSettings, ToolSpec
from jaato.providers.openai_chat import ChatStyle, OpenAIChat
from jaato.providers.openai_responses import OpenAIResponses
from jaato.providers.profiles import make
from jaato.providers.transcript import Transcript
from jaato.providers.turns import CONTINUE

Dialect = OpenAIChat | OpenAIResponses
REASONED = Opaque("openai_chat", Raw(b'"reasoning"'))
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


def test_thoughts_go_back_in_the_field_they_came_in() -> None:
    """Chat: a model's own thoughts go back under the name they came by, as many servers demand in a tool loop."""

    def thoughts(style: ChatStyle, model: str = "m") -> list[Any]:
        history = [
            Message("assistant", [Thinking("hm", REASONED), Text("42")], provider="openai", model="m"),
            Message("user", [Text("and?")]),
            Message("assistant", [Thinking("no", REASONED), Text("1")], provider="other", model="m"),
        ]
        sent = json.loads(OpenAIChat(style=style).encode(ModelRequest(model, history)))["messages"]
        return [said.get("reasoning") for said in sent if said["role"] == "assistant"]

    assert thoughts(ChatStyle()) == ["hm", None]
    assert thoughts(ChatStyle(), "another") == [None, None]
    assert thoughts(ChatStyle(thinking="never")) == [None, None]
    assert thoughts(ChatStyle(thinking="reasoning")) == ["hm", ""]


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("https://api.deepseek.com", "reasoning_content"),
        ("https://api.openai.com/v1", "never"),
        ("http://127.0.0.1:8000/v1", "same"),
    ],
)
def test_how_thoughts_go_back_depends_on_the_host(url: str, field: str) -> None:
    """Chat: OpenAI itself takes no thoughts, DeepSeek refuses a message without the field, others get what they gave."""
    dialect = make("openai", environ={}, base_url=url, api_key="k", interface="chat").dialect
    assert isinstance(dialect, OpenAIChat)
    assert dialect.style.thinking == field


def test_what_a_gateway_gave_beside_thought_and_call_goes_back() -> None:
    """Chat: details of reasoning, joined as they streamed, and what came beside a call are sent back as they were."""
    signature = {"google": {"thought_signature": "c2ln"}}
    opened = {"type": "reasoning.text", "index": 0, "text": "I ", "signature": None}
    closed = {"type": "reasoning.text", "index": 0, "text": "see.", "signature": "c2ln"}
    hidden = {"type": "reasoning.encrypted", "index": 0, "data": "eA=="}
    function = {"name": "run", "arguments": "{}"}
    deltas: list[dict[str, Any]] = [
        {"reasoning": "I ", "reasoning_details": [opened]},
        {"reasoning": "see.", "reasoning_details": [closed, "?"]},
        {"reasoning_details": [hidden]},
        {"tool_calls": [{"index": 0, "id": "t1", "function": function, "extra_content": signature}]},
    ]
    decoder = OpenAIChat().decoder(ModelRequest("m", []))
    for delta in deltas:
        decoder.feed("", json.dumps({"choices": [{"delta": delta}]}).encode())
    decoder.feed("", b'{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}')
    (reply,) = decoder.end()
    assert isinstance(reply, Reply)
    result = ToolResult(reply.message.function_calls[0].call_id, "run", True, [Text("done")])
    sent = json.loads(OpenAIChat().encode(ModelRequest("m", [reply.message, Message("tool", [result])])))
    said = sent["messages"][1]
    assert said["reasoning_details"] == [opened | closed | {"text": "I see."}, hidden]
    assert said["tool_calls"] == [
        {"id": "t1", "type": "function", "function": function, "extra_content": signature}
    ]


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
    """A turn is encoded once, whatever becomes of its blob, and forgotten with the conversation."""
    blobs = dict(BLOBS)
    messages = everything("openai")
    encoded: dict[Any, Any] = {}
    request = ModelRequest("m", messages, read_blob=blobs.__getitem__, encoded=encoded)
    first = dialect.encode(request)
    blobs.clear()
    assert dialect.encode(request) == first
    assert b"iVBORw0KGgpw" in first
    kept = weakref.ref(next(kept for kept in encoded.values() if isinstance(kept, Transcript)))
    for number in range(3):
        dialect.encode(ModelRequest("m", [Message("user", [Text(f"alone {number}")])], encoded=encoded))
    assert len(encoded) == 2
    assert kept() is None


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
