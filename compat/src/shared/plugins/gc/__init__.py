"""The documented home of GC strategies: their protocol, and how they are found and loaded."""

from __future__ import annotations

from jaato.abc.compactor import GCConfig, GCPlugin, GCResult
from jaato.runtime.plugins.discovery import discover_gc_plugins, load_gc_plugin

__all__ = ["GCConfig", "GCPlugin", "GCResult", "discover_gc_plugins", "load_gc_plugin"]
