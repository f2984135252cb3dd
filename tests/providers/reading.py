"""Events of both OpenAI dialects for tests, and what reading them brings."""

from __future__ import annotations

import json
from typing import Any

from jaato.abc.provider import Chunk, ModelRequest, Reply
from jaato.providers.dialect import Decoder
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.openai.responses import OpenAIResponses

REQUEST = ModelRequest("m", [])


def chat(*values: Any) -> list[Chunk]:
    """What chat events, and their end, bring."""
    return run(OpenAIChat().decoder(REQUEST), *values)


def run(decoder: Decoder, *values: Any) -> list[Chunk]:
    """What events, and their end, bring."""
    data = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    chunks = [chunk for one in data for chunk in decoder.feed("", one)]
    return [*chunks, *decoder.end()]


def last(chunks: list[Chunk]) -> Reply:
    """The reply at the end."""
    assert isinstance(chunks[-1], Reply)
    return chunks[-1]


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chat chunk."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def piece(arguments: Any = None, name: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chat chunk with a piece of a call."""
    return delta(tool_calls=[{"function": {"name": name, "arguments": arguments}, **fields}])


STOP = delta("stop")


def responses(*values: Any) -> Reply:
    """The reply that events of the responses interface bring."""
    return last(run(OpenAIResponses().decoder(REQUEST), *values))
