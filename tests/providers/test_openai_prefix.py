"""Both OpenAI dialects: what was sent before stays to the byte, and is encoded once."""

from __future__ import annotations

import json
import weakref
from typing import Any

import pytest
from tests.providers.bodies import DIALECTS, Dialect
from tests.providers.conversations import BLOBS, TOOL, everything

from jaato.abc.provider import ModelRequest
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.providers.dialect import EncodedConversation
from jaato.providers.openai.chat import OpenAIChat


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
    kept = weakref.ref(next(kept for kept in encoded.values() if isinstance(kept, EncodedConversation)))
    for number in range(3):
        dialect.encode(ModelRequest("m", [Message("user", [Text(f"alone {number}")])], encoded=encoded))
    assert len(encoded) == 2
    assert kept() is None
