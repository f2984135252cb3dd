"""The documented home of `ClarificationPlugin`."""

from __future__ import annotations

from jaato.plugins.clarification import ClarificationPlugin

__all__ = ["ClarificationPlugin"]
