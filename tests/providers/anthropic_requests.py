"""Requests in the Anthropic dialect for tests, checked by the types the vendor publishes."""

from __future__ import annotations

from typing import Any

from tests.providers.histories import TOOLS, check_anthropic, read_blob

from jaato.abc.provider import ModelRequest
from jaato.protocol.messages import Message, Text
from jaato.protocol.specs import ModelSettings
from jaato.providers.anthropic.dialect import AnthropicDialect


def user(text: str) -> Message:
    """What somebody says."""
    return Message("user", [Text(text)])


def said(*messages: Message, model: str = "claude-opus-5-5", dialect: AnthropicDialect | None = None) -> Any:
    """The messages as the wire has them, checked."""
    request = ModelRequest(model, messages, "Be brief.", TOOLS, read_blob=read_blob)
    return check_anthropic((dialect or AnthropicDialect(cache=False)).encode(request))["messages"]


def sent(model: str, **settings: Any) -> Any:
    """The whole request for some settings, checked."""
    request = ModelRequest(model, [user("hi")], settings=ModelSettings(**settings))
    return check_anthropic(AnthropicDialect().encode(request))
