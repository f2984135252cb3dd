"""The documented home of the plugin interface and its registry."""

from __future__ import annotations

from jaato.abc.plugin import ToolPlugin, UserCommand
from jaato.runtime.plugins.registry import PluginRegistry

__all__ = ["PluginRegistry", "ToolPlugin", "UserCommand"]
