"""The documented home of conversions to and from the Anthropic API."""

from __future__ import annotations

from jaato.providers.anthropic.dialect import AnthropicDialect

__all__ = ["AnthropicDialect"]
