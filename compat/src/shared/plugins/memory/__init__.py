"""The documented home of the plugin `memory`."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import MemoryPlugin

__all__ = ["MemoryPlugin"]
