"""The documented home of `ReferencesPlugin`."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import ReferencesPlugin

__all__ = ["ReferencesPlugin"]
