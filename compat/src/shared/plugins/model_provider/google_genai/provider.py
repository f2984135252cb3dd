"""The documented home of `GoogleGenAIProvider`."""

from __future__ import annotations

from jaato.runtime.embedding.providers import GoogleGenAIProvider

__all__ = ["GoogleGenAIProvider"]
