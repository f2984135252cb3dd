"""The documented home of the Claude provider."""

from __future__ import annotations

from jaato.runtime.embedding.providers import AnthropicProvider

__all__ = ["AnthropicProvider"]
