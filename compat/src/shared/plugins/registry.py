"""The documented home of `PluginRegistry`."""

from __future__ import annotations

from jaato.runtime.plugins.registry import PluginRegistry

__all__ = ["PluginRegistry"]
