"""The documented home of `ToolExecutor`."""

from __future__ import annotations

from jaato.runtime.embedding.executor import ToolExecutor, get_current_tool_output_callback

__all__ = ["ToolExecutor", "get_current_tool_output_callback"]
