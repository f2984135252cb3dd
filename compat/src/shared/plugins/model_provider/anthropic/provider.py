"""The documented home of `AnthropicProvider`."""

from __future__ import annotations

from jaato.runtime.embedding.providers import AnthropicProvider

__all__ = ["AnthropicProvider"]
