"""Chat completions: how what a model thought goes back to the host it came from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from jaato.abc.provider import ModelRequest, Reply
from jaato.protocol.messages import Message, Opaque, Text, Thinking, ToolResult
from jaato.providers.openai.chat import ChatStyle, OpenAIChat
from jaato.providers.profiles import make_provider

REASONED = Opaque("openai_chat", Raw(b'"reasoning"'))


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
    dialect = make_provider("openai", environ={}, base_url=url, api_key="k", interface="chat").dialect
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
