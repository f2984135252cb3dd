"""The documented home of conversions to and from the Gemini API."""

from __future__ import annotations

from jaato.providers.google_genai.dialect import GeminiDialect

__all__ = ["GeminiDialect"]
