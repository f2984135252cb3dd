"""How both OpenAI interfaces break their token counts down."""

from __future__ import annotations

from msgspec import Struct


class InputDetails(Struct):
    """Of the tokens sent."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(Struct):
    """Of the tokens written."""

    reasoning_tokens: int | None = None
