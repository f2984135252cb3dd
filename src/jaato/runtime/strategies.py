"""Strategies for a full context: those that come with jaato, and those of installed distributions."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from jaato.abc.compactor import GCConfig, GCPlugin, GCResult
from jaato.runtime.chosen import NONE, Kind, Loader

BUILTIN_STRATEGIES = {
    f"gc_{name}": f"jaato.agent.compaction.{name}" for name in ("truncate", "summarize", "hybrid")
}
STRATEGIES: Kind[GCPlugin] = Kind(
    "gc",
    "GC strategy",
    "GCPlugin",
    ("initialize", "shutdown", "should_collect", "collect"),
    BUILTIN_STRATEGIES,
)

__all__ = ["GCConfig", "GCPlugin", "GCResult", "discover_gc_plugins", "load_gc_plugin"]


def discover_gc_plugins(modules: Mapping[str, ModuleType] = NONE) -> dict[str, Loader]:
    """A loader for each strategy by name: built-in ones, those of the entry point group `jaato.gc_plugins`, and
    those of these modules. Nothing is imported yet."""
    return STRATEGIES.discover(modules)


def load_gc_plugin(
    name: str, config: dict[str, Any] | None = None, modules: Mapping[str, ModuleType] = NONE
) -> GCPlugin:
    """The strategy of this name, initialised. Raises `PluginError` for one that is not there or cannot be used.

    Whoever loads it shuts it down.
    """
    return STRATEGIES.load(name, config, modules)
