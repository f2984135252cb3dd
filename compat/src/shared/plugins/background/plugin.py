"""The documented home of `BackgroundPlugin`."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import BackgroundPlugin

__all__ = ["BackgroundPlugin"]
