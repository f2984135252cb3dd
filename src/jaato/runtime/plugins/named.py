"""Plugins of which one is chosen by its name: compaction strategies for a full context, and those that save sessions."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, Generic, TypeVar

import msgspec

from jaato.abc.compactor import GCConfig, GCPlugin, GCResult
from jaato.abc.plugin import ENTRY_POINT_GROUPS
from jaato.errors import PluginError
from jaato.runtime.plugins.discovery import Loader, entry_points_of, identity, kind_of
from jaato.runtime.plugins.isolation import run_bounded
from jaato.runtime.plugins.lazy import Builtin

P = TypeVar("P")
LOADING_S = 30.0
NONE: Mapping[str, ModuleType] = MappingProxyType({})


class NamedPlugins(msgspec.Struct, Generic[P], frozen=True):
    """One kind of them: what it is called, what it must have, and `module:class` of those that come with jaato."""

    kind: str
    noun: str
    protocol: str
    methods: Sequence[str]
    builtin: Mapping[str, str]

    def discover(self, modules: Mapping[str, ModuleType] = NONE) -> dict[str, Loader]:
        """A loader for each by name: built-in ones, those of the kind's entry points, and those of these modules.
        Nothing is imported yet."""
        found: dict[str, Loader] = {name: Builtin(name, path) for name, path in self.builtin.items()}
        for point in entry_points_of(ENTRY_POINT_GROUPS[self.kind]):
            found.setdefault(point.name, point.load)
        for name, module in modules.items():
            if kind_of(module) == self.kind:
                found.setdefault(name, functools.partial(identity, module))
        return found

    def load(
        self, name: str, config: dict[str, Any] | None = None, modules: Mapping[str, ModuleType] = NONE
    ) -> P:
        """The one of this name, initialised. Raises `PluginError` for one that is not there or cannot be used.

        Whoever loads it shuts it down.
        """
        known = self.discover(modules)
        load = known.get(name)
        if load is None:
            raise PluginError(f"No {self.noun} {name!r}; there are {', '.join(sorted(known))}.")

        def make() -> P:
            plugin: Any = self.made(load(), name)
            plugin.initialize(config)
            made: P = plugin
            return made

        return make() if name in self.builtin else run_bounded(LOADING_S, make, f"The {self.noun} {name!r}")

    def made(self, found: Any, name: str) -> P:
        """One from what an entry point or a module gives: an instance, a class or a factory. Raises `PluginError`."""
        if isinstance(found, ModuleType):
            factory = getattr(found, "create_plugin", None)
            if factory is None:
                raise PluginError(f"{found.__name__} has no create_plugin().")
            found = factory
        is_made = not isinstance(found, type) and isinstance(getattr(found, "name", None), str)
        return self.checked(found if is_made or not callable(found) else found(), name)

    def checked(self, plugin: Any, name: str) -> P:
        """The plugin, if it has what one needs. Raises `PluginError`."""
        missing = [method for method in self.methods if not callable(getattr(plugin, method, None))]
        if missing or not isinstance(getattr(plugin, "name", None), str):
            lacks = ", ".join(missing or ["name"])
            raise PluginError(f"{name} is no {self.noun}: it has no {lacks} (see {self.protocol}).")
        found: P = plugin
        return found


BUILTIN_STRATEGIES = {
    f"gc_{name.lower()}": f"jaato.agent.compaction.strategies:{name}GCPlugin"
    for name in ("Truncate", "Summarize", "Hybrid")
}
GC_PLUGINS: NamedPlugins[GCPlugin] = NamedPlugins(
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
    return GC_PLUGINS.discover(modules)


def load_gc_plugin(
    name: str, config: dict[str, Any] | None = None, modules: Mapping[str, ModuleType] = NONE
) -> GCPlugin:
    """The strategy of this name, initialised. Raises `PluginError` for one that is not there or cannot be used.

    Whoever loads it shuts it down.
    """
    return GC_PLUGINS.load(name, config, modules)
