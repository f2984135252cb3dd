"""Conversations for tests: any history the log could hold, and what the vendors' types say of it."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from jaato.abc.provider import Chunk, Reply
from jaato.protocol.messages import (
    Media,
    Message,
    Opaque,
    Part,
    Problem,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from jaato.protocol.specs import ToolSpec
from jaato.providers.anthropic.models import takes_temperature
from jaato.providers.dialect import Decoder
from jaato.providers.local.prompt import build_prompt
from jaato.providers.sse import SseParser

BLOBS = {
    "png": b"\x89PNG\r\n",
    "pdf": b"%PDF-1.7",
    "txt": b"plain \xff text",
    "bin": b"\x00\x01",
    "wav": b"RIFF",
}
TYPES = {
    "png": "image/png",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "bin": "application/x-thing",
    "wav": "audio/wav",
    "gone": "image/jpeg",
}
THOUGHT = {"type": "thinking", "thinking": "mm", "signature": "c2ln"}

texts = st.text(max_size=12) | st.sampled_from(["", "  ", "\n", "\ud800", "<b>", '"', "𝄞"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
opaques = st.sampled_from(
    [
        None,
        Opaque("anthropic", Raw(msgspec.json.encode(THOUGHT))),
        Opaque("anthropic", Raw(b'{"data":"ZW5j","type":"redacted_thinking"}')),
        Opaque(
            "openai_responses", Raw(b'{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}')
        ),
        Opaque("gemini", Raw(b'"c2lnbmF0dXJl"')),
    ]
)
signatures = st.sampled_from(
    [None, Opaque("gemini", Raw(b'"c2ln"')), Opaque("openai_responses", Raw(b'{"phase":"commentary"}'))]
)
medias = st.sampled_from(sorted(TYPES)).map(lambda key: Media(TYPES[key], key, 3, f"file.{key}"))
call_ids = st.sampled_from(["c1", "c2", "c3", "c with space", "c01H" + "X" * 80])
names = st.sampled_from(["readFile", "get_tool_schemas", "mcp:server/do it", "2fast", "n" * 80, "naïve", ""])
calls = st.builds(
    ToolCall,
    call_id=call_ids,
    name=names,
    arguments=st.dictionaries(texts, values, max_size=2),
    provider_id=st.sampled_from([None, "toolu_1", "call_1", "functions.readFile:0", "", "é", "x" * 70]),
    malformed=st.sampled_from([None, "", '{"a":']),
    opaque=signatures,
)
results = st.builds(
    ToolResult,
    call_id=call_ids,
    name=names,
    ok=st.booleans(),
    content=st.lists(st.builds(Text, texts) | medias, max_size=2),
    structured=st.none() | st.just({"activated": ["readFile"], "not_found": ["x"]}) | values,
    error=st.none() | st.builds(Problem, st.just("tool_failed"), texts),
)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts, signatures),
    st.builds(Thinking, texts, opaques),
    calls,
    results,
    medias,
    st.builds(Refusal, texts),
)
messages = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "tool"]),
    parts=st.lists(parts, max_size=4),
    source=st.sampled_from(["user", "parent", "system", "child"]),
    provider=st.sampled_from([None, "openai", "anthropic"]),
)
histories = st.lists(messages, max_size=7)

TOOLS = [
    ToolSpec("get_tool_schemas", "Activate.", {"type": "object", "properties": {}}, discoverability="core"),
    ToolSpec(
        "readFile",
        "Read.",
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    ),
    ToolSpec("mcp:server/do it", "", {"$defs": {"x": {"type": "null"}}, "anyOf": [{"required": ["a"]}]}),
]


def read_blob(digest: str) -> bytes:
    """The bytes of a test blob."""
    return BLOBS[digest]


def play(decoder: Decoder, stream: bytes, step: int = 1 << 20) -> list[Chunk]:
    """Everything a decoder makes of a stream's bytes, handed over in steps; the reply is the last."""
    parser = SseParser()
    chunks: list[Chunk] = []
    for start in range(0, len(stream), step):
        for name, data in parser.feed(stream[start : start + step]):
            chunks += decoder.feed(name, data)
            if chunks and isinstance(chunks[-1], Reply):
                return chunks
    return [*chunks, *decoder.end()]


HAUL = ToolSpec("haul", "Haul.", {"type": "object", "properties": {"number": {"type": "integer"}}})
GIVEN = re.compile(r"^(?:Result of|Error from) (\S+?):", re.MULTILINE)


def check_local(history: Sequence[Message]) -> None:
    """The embedded model's chat has each call, as a line of JSON, right before a message with its result, and no others."""
    prompt = build_prompt(history, "s", [HAUL], frozenset({"haul"}))
    waiting: list[str] = []
    for message in prompt.messages[prompt.fixed :]:
        if message["role"] == "user":
            assert GIVEN.findall(message["content"]) == waiting
            waiting = []
            continue
        assert message["role"] == "assistant"
        assert not waiting
        turns = [json.loads(line) for line in message["content"].split("\n")]
        assert all(("tool" in turn) != ("answer" in turn) for turn in turns)
        waiting = [turn["tool"] for turn in turns if "tool" in turn]
        assert len(waiting) in (0, len(turns))
    assert not waiting


def nameless(reply: Any) -> Any:
    """A reply as plain data without our call ids, which differ every time."""
    data = msgspec.json.decode(msgspec.json.encode(reply))
    for part in data["message"]["parts"]:
        part.pop("call_id", None)
    return data


@functools.cache
def anthropic_adapter() -> Any:
    """The vendor's type of a streaming request, as a validator."""
    from anthropic.types.message_create_params import MessageCreateParamsStreaming
    from pydantic import TypeAdapter

    return TypeAdapter(MessageCreateParamsStreaming)


def check_anthropic(body: bytes) -> Any:
    """The request body as JSON, when the vendor's types take it and its documented rules hold."""
    request = msgspec.json.decode(body)
    if takes_temperature(request["model"]):
        request.pop("temperature", None)  # the types follow an API version that knows it no more
    exhaust(anthropic_adapter().validate_python(request, extra="forbid"))
    roles = [message["role"] for message in request["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    ids: set[str] = set()
    asked: list[str] = []
    for message in request["messages"]:
        assert message["content"]
        answered = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        assert answered == asked
        kinds = [block["type"] for block in message["content"]]
        if message["role"] == "user":
            assert kinds[: len(asked)] == ["tool_result"] * len(asked)
        else:
            assert "thinking" not in kinds[-1]
        asked = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        assert not ids & set(asked)
        assert len(set(asked)) == len(asked)
        ids |= set(asked)
        for block in message["content"]:
            assert block["type"] != "text" or block["text"].strip()
        referred = [
            reference["tool_name"]
            for block in message["content"]
            if block["type"] == "tool_result"
            for reference in block["content"]
            if reference["type"] == "tool_reference"
        ]
        assert set(referred) <= {
            tool["name"] for tool in request.get("tools", ()) if tool.get("defer_loading")
        }
    assert not any("cache_control" in tool for tool in request.get("tools", ()) if tool.get("defer_loading"))
    assert body.count(b'"cache_control"') <= 4
    return request


def check_gemini(body: bytes) -> Any:
    """The request body as JSON, when the vendor's types take it and its documented rules hold."""
    from google.genai import types

    request = msgspec.json.decode(body)
    assert set(request) <= {"systemInstruction", "tools", "generationConfig", "contents"}
    for content in request["contents"]:
        types.Content.model_validate_json(msgspec.json.encode(content))
        assert content["parts"]
    config = {key: request[key] for key in ("systemInstruction", "tools") if key in request}
    types.GenerateContentConfig.model_validate_json(
        msgspec.json.encode(config | request.get("generationConfig", {}))
    )
    roles = [content["role"] for content in request["contents"]]
    assert roles == ["user", "model"] * (len(roles) // 2) + ["user"]
    asked: list[tuple[str, str | None]] = []
    for content in request["contents"]:
        assert asked == list(named(content, "functionResponse"))
        asked = list(named(content, "functionCall"))
    return request


def named(content: Any, kind: str) -> Iterator[tuple[str, str | None]]:
    """The names and ids of one kind of part, in order."""
    for part in content["parts"]:
        if kind in part:
            yield part[kind]["name"], part[kind].get("id")


def exhaust(value: Any) -> None:
    """Walk into the lazily validated iterables of a validated value, which raises what is wrong there."""
    if isinstance(value, dict):
        for item in value.values():
            exhaust(item)
    elif not isinstance(value, str | bytes | int | float | None):
        for item in value:
            exhaust(item)


@functools.cache
def openai_adapter(name: str) -> Any:
    """The vendor's type of a streaming request of one of its interfaces, as a validator."""
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
    from pydantic import TypeAdapter

    if name == "openai_chat":
        return TypeAdapter(CompletionCreateParamsStreaming)
    return TypeAdapter(ResponseCreateParamsStreaming)


def check_openai(name: str, body: bytes) -> Any:
    """The request body as JSON, when the vendor's types take it and its rules about calls and results hold."""
    request = msgspec.json.decode(body)
    exhaust(openai_adapter(name).validate_python(request, extra="forbid"))
    items = request["messages"] if name == "openai_chat" else request["input"]
    waiting: list[str] = []
    seen: set[str] = set()
    for item in items:
        answered = item.get("tool_call_id") if name == "openai_chat" else item.get("call_id")
        if item.get("role") == "tool" or item.get("type") == "function_call_output":
            assert answered == waiting.pop(0)
            continue
        asked = [call["id"] for call in item.get("tool_calls", ())]
        if item.get("type") == "function_call":
            asked = [item["call_id"]]
            assert isinstance(msgspec.json.decode(item["arguments"]), dict)
        elif item.get("role") == "user":
            assert not waiting
        assert item.get("role") != "assistant" or name != "openai_chat" or not waiting
        for call in item.get("tool_calls", ()):
            assert isinstance(msgspec.json.decode(call["function"]["arguments"]), dict)
        assert not seen & set(asked)
        assert len(set(asked)) == len(asked)
        seen |= set(asked)
        waiting += asked
        assert item.get("content") != ""
    assert not waiting
    last = items[-1]
    assert last.get("role") in ("user", "tool") or last["type"] == "function_call_output"
    return request
