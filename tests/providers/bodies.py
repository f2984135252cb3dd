"""Request bodies of both OpenAI dialects, checked by the types the vendor publishes."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter
from tests.providers.conversations import read_blob, walked

from jaato.abc.provider import ModelRequest
from jaato.protocol.messages import Message
from jaato.protocol.specs import ModelSettings
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.openai.responses import OpenAIResponses

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
