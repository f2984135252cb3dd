"""Conversations for tests: one with everything in it, and a strategy that makes any."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from jaato.protocol.ids import new_id
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
from jaato.protocol.specs import ModelSettings, ToolSpec

PICTURE = bytes.fromhex("89504e470d0a1a0a") + b"picture"
DOCUMENT = b"%PDF-1.7 document"
BLOBS = {hashlib.sha256(data).hexdigest(): data for data in (PICTURE, DOCUMENT, b"plain words")}
PICTURE_ID, DOCUMENT_ID, WORDS_ID = BLOBS
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAB"}
SURROGATE = chr(0xD800)

TOOL = ToolSpec(
    "readFile",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


def read_blob(digest: str) -> bytes:
    """The bytes of a blob of these conversations."""
    return BLOBS[digest]


def everything(provider: str) -> list[Message]:
    """A conversation in which every kind of part appears, as a session of this provider would have it."""
    first, second, third = new_id("c"), new_id("c"), new_id("c")
    opaque = Opaque("openai_responses", Raw(msgspec.json.encode(REASONING)))
    picture = Media("image/png", PICTURE_ID, len(PICTURE), "shot.png")
    strange = {"path": "é" + SURROGATE}
    return [
        Message("user", [Text("Look."), picture, Media("application/pdf", DOCUMENT_ID, name="a.pdf")]),
        Message(
            "assistant",
            [
                Thinking("I should read both.", opaque),
                Text("Reading."),
                ToolCall(first, "readFile", {"path": "a"}, provider_id="call_a"),
                ToolCall(second, "readFile", {}, provider_id="call_b", malformed='{"path": '),
            ],
            provider=provider,
        ),
        Message(
            "tool",
            [
                ToolResult(first, "readFile", True, [Text("one"), picture]),
                ToolResult(second, "readFile", False, [], error=Problem("arguments_invalid", "no JSON")),
            ],
        ),
        Message("assistant", [Refusal("I will not.")], provider=provider),
        Message("user", [Text("And now?"), Media("text/plain", WORDS_ID), Media("image/png", "0" * 64)]),
        Message("assistant", [ToolCall(third, "readFile", strange, provider_id="toolu_x")], provider="other"),
        Message("tool", [ToolResult(third, "readFile", True)]),
        Message("assistant", [Thinking("only thinking", opaque)], provider=provider),
    ]


TEXTS = st.text(max_size=20)
NAMES = st.from_regex(r"\A[a-zA-Z_]{1,12}\Z")
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
MEDIA = st.builds(
    Media,
    mime_type=st.sampled_from(["image/png", "application/pdf", "text/plain", "application/zip", "audio/wav"]),
    blob=st.sampled_from([*BLOBS, "f" * 64]),
    name=st.none() | TEXTS,
)
CONTENT = st.lists(st.builds(Text, text=TEXTS) | MEDIA, max_size=2)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """A user message, an assistant message and the results of its calls, if it made any."""
    provider = draw(st.sampled_from(["openai", "other"]))
    user: list[Part] = list(draw(CONTENT))
    said: list[Part] = list(
        draw(st.lists(st.builds(Text, text=TEXTS) | st.builds(Thinking, text=TEXTS), max_size=2))
    )
    calls = [
        ToolCall(
            new_id("c"),
            draw(NAMES),
            draw(st.dictionaries(TEXTS, VALUES, max_size=2)),
            draw(st.none() | st.just(f"call_{number}")),
            draw(st.none() | TEXTS),
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    made = [Message("user", user), Message("assistant", [*said, *calls], provider=provider)]
    if calls:
        results: list[Part] = [
            ToolResult(call.call_id, call.name, draw(st.booleans()), list(draw(CONTENT))) for call in calls
        ]
        made.append(Message("tool", results))
    return made


CONVERSATIONS = st.lists(turns(), min_size=1, max_size=4).map(
    lambda many: [message for turn in many for message in turn]
)
SETTINGS = st.builds(
    ModelSettings,
    temperature=st.none() | st.floats(0, 2),
    max_output_tokens=st.none() | st.integers(1, 10_000),
    effort=st.none() | st.sampled_from(["minimal", "low", "medium", "high"]),
    response_schema=st.none() | st.just({"type": "object", "properties": {}, "additionalProperties": False}),
)


def walked(value: Any) -> Any:
    """A validated value with every lazy iterator read to its end, which is what validates its items."""
    if isinstance(value, (str, bytes, int, float, bool, type(None))):
        return value
    if isinstance(value, Mapping):
        return {key: walked(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, Iterator)):
        return [walked(item) for item in value]
    return value
