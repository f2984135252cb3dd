"""From a loader to a plugin that is initialised and wired: other people's within a time, and watched."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, TypeVar

from jaato.abc.plugin import Plugin
from jaato.errors import PluginError
from jaato.runtime.plugins.adapter import Toolset, adapt, optional
from jaato.runtime.plugins.discovery import instance
from jaato.runtime.plugins.host import HostServices, PluginHost
from jaato.runtime.plugins.isolation import redirected_stdio, run_bounded
from jaato.runtime.plugins.lazy import Builtin, LazyPlugin
from jaato.runtime.plugins.lifecycle import release
from jaato.runtime.plugins.side_effects import surroundings
from jaato.runtime.plugins.validation import at_hand, plugin_name

T = TypeVar("T")
LOADING_S = 20.0
"""How long a plugin may take to be imported, and again to be initialised."""


class PluginLoader:
    """Makes the plugins of one registry. `noticed` says what those of others changed around them."""

    def __init__(self, registry: HostServices, loading_s: float = LOADING_S) -> None:
        self.noticed: dict[str, list[str]] = {}
        self._registry = registry
        self._loading_s = loading_s

    def call(
        self,
        name: str,
        work: Callable[[], T],
        *,
        foreign: bool,
        undo: Callable[[T], Any] = lambda _made: None,
    ) -> T:
        """What `work` gives. A stranger's work is bounded and watched, and what it prints goes to stderr. Raises
        `PluginError`."""
        if not foreign:
            return work()
        before = surroundings()
        try:
            with redirected_stdio():
                return run_bounded(self._loading_s, work, "", undo)
        finally:
            changes = before.changed(surroundings())
            if changes:
                known = self.noticed.setdefault(name, [])
                known += [change for change in changes if change not in known]

    def load(
        self, name: str, load: Callable[[], Any], config: dict[str, Any], *, foreign: bool
    ) -> tuple[Any, str]:
        """The plugin, made but not initialised, and the name it gives itself, asked for this once."""
        host = PluginHost(self._registry, MappingProxyType(config))

        def work() -> tuple[Any, str]:
            plugin = instance(load(), host)
            return plugin, plugin_name(plugin)

        return self.call(
            name,
            work,
            foreign=foreign,
            undo=lambda made: release(made[0], made[1]) if isinstance(made[0], Plugin) else None,
        )

    def prepare(
        self,
        plugin: Any,
        name: str,
        config: dict[str, Any],
        wire: Callable[[Toolset], None],
        *,
        foreign: bool,
    ) -> Toolset:
        """Initialise a plugin, read what it declares and wire it; one that fails is let go of. Raises what it raises,
        a stranger's as `PluginError`."""

        def work() -> Toolset:
            initialize = optional(plugin, "initialize")
            if initialize:
                at_hand(initialize(config or {}), "initialize()")
            meet = optional(plugin, "set_plugin_registry")
            if meet:
                meet(self._registry)
            toolset = plugin.toolset() if isinstance(plugin, LazyPlugin) else adapt(plugin, name)
            toolset.foreign = foreign
            wire(toolset)
            return toolset

        return self.call(name, work, foreign=foreign, undo=lambda toolset: release(toolset.plugin, name))


def is_foreign(load: Callable[[], Any]) -> bool:
    """Whether a loader brings somebody else's code."""
    return not isinstance(load, Builtin | ByHand)


class ByHand:
    """A plugin the program gave itself: its own code, called as the program would call it."""

    def __init__(self, plugin: Any) -> None:
        self.plugin = plugin

    def __call__(self) -> Any:
        return self.plugin


def refuse_same_commands(toolset: Toolset, others: list[Toolset]) -> None:
    """Raise `PluginError` naming both owners of a user command."""
    for other in others:
        for name in toolset.commands:
            if name in other.commands:
                raise PluginError(f"Two plugins have the command /{name}: {other.name} and {toolset.name}.")


def described(plugin: Any) -> str:
    """A plugin by its class."""
    if isinstance(plugin, LazyPlugin):
        return plugin.path.replace(":", ".")
    return f"{type(plugin).__module__}.{type(plugin).__qualname__}"
