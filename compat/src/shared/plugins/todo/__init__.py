"""The documented home of `TodoPlugin`."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import TodoPlugin

__all__ = ["TodoPlugin"]
