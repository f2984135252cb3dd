"""The documented home of the Gemini provider."""

from __future__ import annotations

from jaato.runtime.embedding.providers import GoogleGenAIProvider

__all__ = ["GoogleGenAIProvider"]
