"""The documented import path `shared.mcp_context_manager`."""

from __future__ import annotations

from jaato.plugins.mcp.manager import MCPClientManager

__all__ = ["MCPClientManager"]
