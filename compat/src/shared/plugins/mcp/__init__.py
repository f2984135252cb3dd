"""The documented import path `shared.plugins.mcp`."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import MCPToolPlugin

__all__ = ["MCPToolPlugin"]
