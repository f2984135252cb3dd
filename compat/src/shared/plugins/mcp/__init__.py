"""The documented import path `shared.plugins.mcp`."""

from __future__ import annotations

from jaato.plugins.mcp.plugin import MCPToolPlugin

__all__ = ["MCPToolPlugin"]
