"""The attributes of spans, in the names and forms of OpenTelemetry's GenAI conventions."""

from __future__ import annotations

from typing import Any

import msgspec

from jaato.protocol.events import Event, Permission
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult, Usage

MAX_CHARS = 4_000
"""How much of one text a span holds, where it holds any."""
MAX_PARTS = 20
Attributes = dict[str, Any]


def tool_attributes(event: Event, tool: str, call_id: str | None) -> Attributes:
    """Which tool and call a span is about."""
    return {
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.conversation.id": event.session_id,
    }


def permission_attributes(permission: Permission | None) -> Attributes:
    """How a call came to be allowed or denied."""
    if permission is None:
        return {}
    return {"jaato.permission.decision": permission.decision, "jaato.permission.method": permission.method}


def usage_attributes(usage: Usage | None, cost_usd: float | None) -> Attributes:
    """Tokens and their price."""
    found: Attributes = {"jaato.cost_usd": cost_usd}
    if usage is not None:
        found |= {
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens or None,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
        }
    return found


def message_json(message: Message, finish_reason: str = "") -> str:
    """One message as the conventions' JSON for `gen_ai.input.messages` and `gen_ai.output.messages`."""
    shown: Attributes = {
        "role": message.role,
        "parts": [part_fields(one) for one in message.parts[:MAX_PARTS]],
    }
    if finish_reason:
        shown["finish_reason"] = finish_reason
    return msgspec.json.encode([shown]).decode()


def part_fields(one: Any) -> Attributes:
    """A part of a message; of an image only its kind."""
    match one:
        case Text():
            return {"type": "text", "content": truncate(one.text)}
        case ToolCall():
            shown = arguments_json(one.arguments)
            return {"type": "tool_call", "id": one.call_id, "name": one.name, "arguments": shown}
    return {"type": str(type(one).__name__).lower()}


def arguments_json(arguments: dict[str, Any]) -> str:
    """The arguments of a call, or the beginning of long ones."""
    return truncate(msgspec.json.encode(arguments).decode())


def result_text(result: ToolResult) -> str:
    """What a call returned, or why it failed."""
    if result.error is not None:
        return truncate(result.error.message)
    return truncate("".join(result.texts))


def truncate(text: str) -> str:
    """A text, or the beginning of a long one."""
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"
