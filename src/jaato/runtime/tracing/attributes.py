"""What a span says of a turn, a model call, a tool call, in the names of OpenTelemetry's GenAI conventions."""

from __future__ import annotations

from typing import Any

from jaato.protocol.events import GcCompleted, MessageModel, Permission, TurnCompleted
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult, Usage
from jaato.runtime.tracing.spans import CLIENT, INTERNAL

PROVIDERS = {"google_genai": "gcp.gemini", "vertex": "gcp.vertex_ai"}
"""Our names of providers, where the conventions have another one."""
WITHIN = ("local", "scripted")
"""Providers that answer within this process."""
MAX_CHARS = 4_000
"""How much of one text a span holds, where it holds any."""
PARTS = 20
FINISH = {"tool_calls": "tool_call", "refusal": "content_filter"}


def provider(name: str) -> str:
    """A provider as the conventions call it."""
    return PROVIDERS.get(name, name) or "unknown"


def kind_of_call(name: str) -> int:
    """The kind of a model call's span."""
    return INTERNAL if name in WITHIN else CLIENT


def used(usage: Usage | None, cost_usd: float | None) -> dict[str, Any]:
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


def of_reply(event: MessageModel, *, content: bool) -> dict[str, Any]:
    """A model's reply."""
    found = {
        "gen_ai.response.finish_reasons": [event.finish_reason],
        "gen_ai.request.model": event.message.model,
        **used(event.usage, event.cost_usd),
    }
    if content:
        finish = FINISH.get(event.finish_reason, event.finish_reason)
        found["gen_ai.output.messages"] = messages(event.message, finish)
    return found


def of_turn(event: TurnCompleted) -> dict[str, Any]:
    """How a turn ended and what it took."""
    return {
        "jaato.turn.reason": event.reason,
        "jaato.turn.model_calls": event.model_calls,
        "jaato.turn.tool_calls": event.tool_calls,
        **used(event.usage, event.cost_usd),
    }


def of_permission(permission: Permission | None) -> dict[str, Any]:
    """How a call came to be allowed or denied."""
    if permission is None:
        return {}
    return {"jaato.permission.decision": permission.decision, "jaato.permission.method": permission.method}


def of_room_making(event: GcCompleted) -> dict[str, Any]:
    """What was left out of the context."""
    return {
        "jaato.compaction.strategy": event.strategy,
        "jaato.compaction.tokens_before": event.tokens_before,
        "jaato.compaction.tokens_after": event.tokens_after,
        **(used(event.usage, event.cost_usd) if event.usage is not None else {}),
    }


# --- contents, where a setting asks for them -------------------------------------------------------------------------


def messages(message: Message, finish_reason: str = "") -> str:
    """One message as the conventions' JSON for `gen_ai.input.messages` and `gen_ai.output.messages`."""
    shown: dict[str, Any] = {"role": message.role, "parts": [part(one) for one in message.parts[:PARTS]]}
    if finish_reason:
        shown["finish_reason"] = finish_reason
    return json([shown])


def part(one: Any) -> dict[str, Any]:
    """A part of a message; of an image only that there is one."""
    match one:
        case Text():
            return {"type": "text", "content": cut(one.text)}
        case ToolCall():
            return {
                "type": "tool_call",
                "id": one.call_id,
                "name": one.name,
                "arguments": cut(json(one.arguments)),
            }
    return {"type": str(type(one).__name__).lower()}


def result(event: ToolResult) -> str:
    """What a call gave, or why it failed."""
    if event.error is not None:
        return cut(event.error.message)
    return cut("".join([one.text for one in event.content if isinstance(one, Text)]))


def cut(text: str) -> str:
    """A text, or the beginning of a long one."""
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"


def json(value: Any) -> str:
    """A value as JSON."""
    import msgspec

    return msgspec.json.encode(value).decode()
