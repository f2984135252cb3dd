"""The documented import path `tool_registry`: tools for a registry, and the domains they are loaded from."""

from __future__ import annotations

from jaato.tools.tool import Tool, tool, tool_from

__all__ = ["Tool", "tool", "tool_from"]
