"""The attributes of spans of turns, model calls and tool calls, by OpenTelemetry's GenAI conventions."""

from __future__ import annotations

from typing import Any

import msgspec

from jaato.protocol.events import GcCompleted, MessageModel, Permission, TurnCompleted
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult, Usage

PROVIDERS = {"google_genai": "gcp.gemini", "vertex": "gcp.vertex_ai"}
"""Our names of providers, where the conventions have another one."""
IN_PROCESS = ("local", "scripted")
"""Providers that answer within this process."""
MAX_CHARS = 4_000
"""How much of one text a span holds, where it holds any."""
MAX_PARTS = 20
FINISH_REASONS = {"tool_calls": "tool_call", "refusal": "content_filter"}


def provider_name(name: str) -> str:
    """A provider as the conventions call it."""
    return PROVIDERS.get(name, name) or "unknown"


def usage_attributes(usage: Usage | None, cost_usd: float | None) -> dict[str, Any]:
    """Tokens and their price."""
    found: dict[str, Any] = {"jaato.cost_usd": cost_usd}
    if usage is not None:
        found |= {
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens or None,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
        }
    return found


def reply_attributes(event: MessageModel, *, content: bool) -> dict[str, Any]:
    """A model's reply."""
    found = {
        "gen_ai.response.finish_reasons": [event.finish_reason],
        "gen_ai.request.model": event.message.model,
        **usage_attributes(event.usage, event.cost_usd),
    }
    if content:
        reason = FINISH_REASONS.get(event.finish_reason, event.finish_reason)
        found["gen_ai.output.messages"] = message_json(event.message, reason)
    return found


def turn_attributes(event: TurnCompleted, finish_reason: str) -> dict[str, Any]:
    """How a turn ended and what it took."""
    return {
        "jaato.turn.reason": event.reason,
        "jaato.turn.model_calls": event.model_calls,
        "jaato.turn.tool_calls": event.tool_calls,
        "gen_ai.response.finish_reasons": [finish_reason] if finish_reason else None,
        **usage_attributes(event.usage, event.cost_usd),
    }


def permission_attributes(permission: Permission | None) -> dict[str, Any]:
    """How a call came to be allowed or denied."""
    if permission is None:
        return {}
    return {"jaato.permission.decision": permission.decision, "jaato.permission.method": permission.method}


def compaction_attributes(event: GcCompleted) -> dict[str, Any]:
    """What a compaction left of the context."""
    return {
        "jaato.compaction.strategy": event.strategy,
        "jaato.compaction.tokens_before": event.tokens_before,
        "jaato.compaction.tokens_after": event.tokens_after,
        **(usage_attributes(event.usage, event.cost_usd) if event.usage is not None else {}),
    }


def message_json(message: Message, finish_reason: str = "") -> str:
    """One message as the conventions' JSON for `gen_ai.input.messages` and `gen_ai.output.messages`."""
    shown: dict[str, Any] = {
        "role": message.role,
        "parts": [part_fields(one) for one in message.parts[:MAX_PARTS]],
    }
    if finish_reason:
        shown["finish_reason"] = finish_reason
    return msgspec.json.encode([shown]).decode()


def part_fields(one: Any) -> dict[str, Any]:
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
    return truncate("".join([one.text for one in result.content if isinstance(one, Text)]))


def truncate(text: str) -> str:
    """A text, or the beginning of a long one."""
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"
