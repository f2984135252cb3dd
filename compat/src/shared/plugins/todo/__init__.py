"""The documented home of `TodoPlugin`."""

from __future__ import annotations

from jaato.plugins.todo import TodoPlugin

__all__ = ["TodoPlugin"]
