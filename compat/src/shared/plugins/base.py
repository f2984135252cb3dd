"""The documented home of what a tool plugin is."""

from __future__ import annotations

from jaato.abc.plugin import PromptEnrichmentResult, ToolPlugin, ToolSchema, UserCommand

__all__ = ["PromptEnrichmentResult", "ToolPlugin", "ToolSchema", "UserCommand"]
