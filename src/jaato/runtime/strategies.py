"""Strategies for a full context: those that come with jaato, and those of installed distributions."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from jaato.abc.compactor import GCConfig, GCPlugin, GCResult
from jaato.abc.plugin import ENTRY_POINT_GROUPS
from jaato.errors import PluginError
from jaato.runtime.bounded import within
from jaato.runtime.discovery import identity, kind_of

Loader = Callable[[], Any]
BUILTIN_STRATEGIES = {
    f"gc_{name}": f"jaato.agent.compaction.{name}" for name in ("truncate", "summarize", "hybrid")
}
METHODS = ("initialize", "shutdown", "should_collect", "collect")
LOADING_S = 30.0
NONE: Mapping[str, ModuleType] = MappingProxyType({})

__all__ = ["GCConfig", "GCPlugin", "GCResult", "discover_gc_plugins", "load_gc_plugin"]


def discover_gc_plugins(modules: Mapping[str, ModuleType] = NONE) -> dict[str, Loader]:
    """A loader for each strategy by name: built-in ones, those of the entry point group `jaato.gc_plugins`, and
    those of these modules. Nothing is imported yet."""
    from importlib.metadata import entry_points

    found: dict[str, Loader] = {
        name: functools.partial(importlib.import_module, path) for name, path in BUILTIN_STRATEGIES.items()
    }
    for point in entry_points(group=ENTRY_POINT_GROUPS["gc"]):
        found.setdefault(point.name, point.load)
    for name, module in modules.items():
        if kind_of(module) == "gc":
            found.setdefault(name, functools.partial(identity, module))
    return found


def load_gc_plugin(
    name: str, config: dict[str, Any] | None = None, modules: Mapping[str, ModuleType] = NONE
) -> GCPlugin:
    """The strategy of this name, initialised. Raises `PluginError` for one that is not there or cannot be used.

    Whoever loads it shuts it down.
    """
    known = discover_gc_plugins(modules)
    load = known.get(name)
    if load is None:
        raise PluginError(f"No GC strategy {name!r}; there are {', '.join(sorted(known))}.")

    def make() -> GCPlugin:
        plugin = made(load(), name)
        plugin.initialize(config)
        return plugin

    if name in BUILTIN_STRATEGIES:
        return make()
    return within(LOADING_S, make, f"The GC strategy {name!r}")


def made(found: Any, name: str) -> GCPlugin:
    """A strategy from what an entry point or a module gives: an instance, a class or a factory."""
    if isinstance(found, ModuleType):
        factory = getattr(found, "create_plugin", None)
        if factory is None:
            raise PluginError(f"{found.__name__} has no create_plugin().")
        found = factory
    is_made = not isinstance(found, type) and isinstance(getattr(found, "name", None), str)
    plugin = found if is_made or not callable(found) else found()
    missing = [method for method in METHODS if not callable(getattr(plugin, method, None))]
    if missing or not isinstance(getattr(plugin, "name", None), str):
        lacks = ", ".join(missing or ["name"])
        raise PluginError(f"{name} is no GC strategy: it has no {lacks} (see GCPlugin).")
    strategy: GCPlugin = plugin
    return strategy
