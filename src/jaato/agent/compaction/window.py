"""The context window of a model: its limit and where that comes from, and how full it is."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct

from jaato.agent.compaction.chars import chars_of
from jaato.agent.state import State
from jaato.lazy_pattern import matches_glob
from jaato.protocol.messages import Message, Usage
from jaato.protocol.specs import LimitSource

CHARS_PER_TOKEN = 4
ASSUMED_TOKENS = 32_768
"""The limit of a model of which nothing is known."""
LEAST_TOKENS = 256
"""No context is smaller: a smaller number in a message of a provider means something else."""
MOST_TOKENS_PER_CHAR = 2.0


PINS_PART, LEAST_PIN_TOKENS = 0.15, 150
"""The part of a context, without the system prompt and the tools, that pins may take; and what they may in any."""


class ContextLimit(NamedTuple):
    """How many tokens fit into a context, and how that is known."""

    tokens: int
    source: LimitSource


class ContextLimits(Struct, frozen=True):
    """The limits that the user has set: for models by name or pattern, and for every other."""

    by_model: tuple[tuple[str, int], ...] = ()
    default: int | None = None

    def find(self, model: str) -> int | None:
        """The limit of a model, a vendor before its name ignored; the first pattern that fits counts."""
        names = (model, model.rpartition("/")[2])
        for pattern, tokens in self.by_model:
            if any(matches_glob(name, pattern) for name in names):
                return tokens
        return self.default


NO_LIMITS = ContextLimits()


def resolve_limit(
    state: State, limits: ContextLimits, catalogue: int | None, server: int | None
) -> ContextLimit:
    """The limit of the state's model. What a refusal has taught only lowers the others."""
    limit = ContextLimit(ASSUMED_TOKENS, "assumed")
    known: tuple[tuple[int | None, LimitSource], ...] = (
        (limits.find(state.model), "setting"),
        (catalogue, "catalogue"),
        (server, "server"),
    )
    for tokens, source in known:
        if tokens:
            limit = ContextLimit(tokens, source)
            break
    learned = state.learned_limit
    if learned is not None and (learned < limit.tokens or limit.source == "assumed"):
        return ContextLimit(learned, "learned")
    return limit


class ContextUsage(Struct, frozen=True):
    """How full the context is: tokens in all, of these the `fixed_tokens` of system prompt and tools, and the limit."""

    total_tokens: int
    fixed_tokens: int
    limit: ContextLimit

    @property
    def context_limit(self) -> int:
        """The limit in tokens."""
        return self.limit.tokens

    @property
    def percent_used(self) -> float:
        """How full it is, in percent."""
        return 100 * self.total_tokens / self.limit.tokens


def tokens_per_char(state: State, fixed_chars: int) -> float:
    """What a character costs, by the provider's last count; never less than the usual quarter of a token."""
    counted = state.counted_chars + fixed_chars
    measured = state.counted_tokens / counted if counted else 0.0
    return min(MOST_TOKENS_PER_CHAR, max(1 / CHARS_PER_TOKEN, measured))


def measure_usage(
    state: State, limit: ContextLimit, fixed_chars: int, more: Message | None = None
) -> ContextUsage:
    """How full the context is, `more` included: as the provider counted last, and what was written since estimated."""
    rate = tokens_per_char(state, fixed_chars)
    written = state.written_chars + (chars_of(more) if more is not None else 0)
    if not state.counted_tokens:
        return ContextUsage(int((written + fixed_chars) * rate), int(fixed_chars * rate), limit)
    total = state.counted_tokens + int((written - state.counted_chars) * rate)
    counted = max(1, state.counted_chars + fixed_chars)
    return ContextUsage(total, state.counted_tokens * fixed_chars // counted, limit)


def count_pin_chars(limit: int, fixed_tokens: int, rate: float) -> int:
    """How many characters pins may take in a context, at so many tokens a character."""
    return int(max(LEAST_PIN_TOKENS, PINS_PART * (limit - fixed_tokens)) / rate)


def estimate_usage(reply: Message, input_tokens: int) -> Usage:
    """The usage of a reply whose provider does not report it."""
    return Usage(input_tokens, chars_of(reply) // CHARS_PER_TOKEN)


def tokens_with_reply(
    state: State, limit: ContextLimit, fixed_chars: int, reply: Message, usage: Usage | None
) -> int:
    """How many tokens the context has with a reply that is not in it yet: the provider's count, else an estimate."""
    if usage is not None:
        return usage.input_tokens + usage.output_tokens
    return measure_usage(state, limit, fixed_chars, reply).total_tokens


def usage_fields(state: State, usage: ContextUsage) -> dict[str, Any]:
    """How full the context is, in the documented keys."""
    limit = usage.limit.tokens
    return {
        "model": state.model,
        "context_limit": limit,
        "context_limit_source": usage.limit.source,
        "total_tokens": usage.total_tokens,
        "fixed_tokens": usage.fixed_tokens,
        "percent_used": usage.percent_used,
        "tokens_remaining": max(0, limit - usage.total_tokens),
        "turns": state.turns,
    }
