"""The documented home of the Claude provider."""

from __future__ import annotations

from jaato.runtime.providers import AnthropicProvider

__all__ = ["AnthropicProvider"]
