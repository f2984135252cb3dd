"""The documented home of `BackgroundPlugin`."""

from __future__ import annotations

from jaato.plugins.background import BackgroundPlugin

__all__ = ["BackgroundPlugin"]
