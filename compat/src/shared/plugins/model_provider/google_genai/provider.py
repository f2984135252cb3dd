"""The documented home of `GoogleGenAIProvider`."""

from __future__ import annotations

from jaato.runtime.providers import GoogleGenAIProvider

__all__ = ["GoogleGenAIProvider"]
