"""What tokens cost, and how many of them are in the context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaato.agent.state import State, chars_of
from jaato.protocol.messages import Message, Usage
from jaato.protocol.specs import ModelInfo

CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class ContextUsage:
    """How full the model's context is."""

    total_tokens: int
    context_limit: int | None
    percent_used: float | None


def price_of(usage: Usage | None, info: ModelInfo) -> float | None:
    """The price of this many tokens in US dollars; None when unknown."""
    if usage is None or info.price_input is None or info.price_output is None:
        return None
    cached = info.price_cached_input if info.price_cached_input is not None else info.price_input
    plain = usage.input_tokens - usage.cached_input_tokens
    micro = (
        plain * info.price_input
        + usage.cached_input_tokens * cached
        + usage.output_tokens * info.price_output
    )
    return micro / 1_000_000


def context_fields(state: State, context: ContextUsage) -> dict[str, Any]:
    """How full the context is, in the documented keys."""
    limit = context.context_limit
    return {
        "model": state.model,
        "context_limit": limit,
        "total_tokens": context.total_tokens,
        "percent_used": context.percent_used if context.percent_used is not None else 0.0,
        "tokens_remaining": None if limit is None else max(0, limit - context.total_tokens),
        "turns": state.turns,
    }


def context_usage(state: State, limit: int | None) -> ContextUsage:
    """How full a context of `limit` tokens is: as the provider counted last, and what was written since estimated."""
    total = state.counted_tokens + (state.written_chars - state.counted_chars) // CHARS_PER_TOKEN
    return ContextUsage(total, limit, 100 * total / limit if limit else None)


def context_tokens_with(state: State, message: Message, usage: Usage | None) -> int:
    """How many tokens the context has with a reply that is not in it yet: the provider's count, else an estimate."""
    if usage is not None:
        return usage.input_tokens + usage.output_tokens
    written = state.written_chars + chars_of(message)
    return state.counted_tokens + (written - state.counted_chars) // CHARS_PER_TOKEN
