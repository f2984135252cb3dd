"""The earlier place of `jaato.runtime.plugins.registry`, for programs that import from it."""

from jaato.runtime.plugins.registry import PluginHost, PluginRegistry

__all__ = ["PluginHost", "PluginRegistry"]
