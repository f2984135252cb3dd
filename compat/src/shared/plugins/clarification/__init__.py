"""The documented home of `ClarificationPlugin` and its channel."""

from __future__ import annotations

from jaato.abc.asker import Clarification, ClarificationChannel
from jaato.runtime.plugins.standalone import ClarificationPlugin

__all__ = ["Clarification", "ClarificationChannel", "ClarificationPlugin"]
