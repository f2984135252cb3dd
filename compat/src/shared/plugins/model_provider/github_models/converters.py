"""The documented home of conversions to and from the GitHub Models API."""

from __future__ import annotations

from jaato.providers.openai.chat import OpenAIChat

__all__ = ["OpenAIChat"]
