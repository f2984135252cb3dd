"""Counts of tokens as servers tell them, believed only as far as they can be counts."""

from __future__ import annotations

from typing import Any

from jaato.protocol.messages import Usage

MOST = 2**53
"""No answer has more tokens; a larger number is none, and could not be stored."""


def count(value: Any, *path: str) -> int:
    """The count below these keys; 0 for what is missing, negative, no number or beyond `MOST`."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return int(value) if 0 <= value <= MOST else 0


def openai_usage(told: Any, given: str, made: str) -> Usage | None:
    """The tokens of an OpenAI interface, which names them `given` and `made`, and their details after them."""
    if not isinstance(told, dict):
        return None
    return Usage(
        input_tokens=count(told, given),
        output_tokens=count(told, made),
        cached_input_tokens=count(told, f"{given}_details", "cached_tokens")
        or count(told, "prompt_cache_hit_tokens"),
        cache_write_tokens=count(told, f"{given}_details", "cache_write_tokens"),
        reasoning_tokens=count(told, f"{made}_details", "reasoning_tokens"),
    )
