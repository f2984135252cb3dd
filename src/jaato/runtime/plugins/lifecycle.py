"""Lifecycle of plugins: load, initialize, set workspace and session, shut down."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from jaato.abc.plugin import Plugin
from jaato.errors import PluginError
from jaato.log import logger
from jaato.runtime.plugins.adapter import Toolset, ToolsetSource, adapt, call_optional, optional
from jaato.runtime.plugins.discovery import instance
from jaato.runtime.plugins.isolation import (
    BROKEN,
    read_process_state,
    redirect_stdio,
    run_bounded,
    short_message,
)
from jaato.runtime.plugins.lazy import Builtin, LazyPlugin, known_declarations
from jaato.runtime.plugins.validation import plugin_name, require_sync
from jaato.tools.catalog import Catalog
from jaato.tools.tool import Tool


class HostServices(Protocol):
    """The services that all plugins of one registry may request."""

    workspace: Path
    services: dict[str, Any]


class PluginHost:
    """The arguments of a native plugin's constructor."""

    def __init__(self, services: HostServices, config: Mapping[str, Any]) -> None:
        self._services = services
        self.config = config

    @property
    def workspace(self) -> Path:
        """The directory the agent works in."""
        return self._services.workspace

    def service(self, name: str) -> Any:
        """Something of the runtime by name; raises KeyError."""
        return self._services.services[name]


T = TypeVar("T")
LOG = logger("registry")
NOTIFY_TIMEOUT_S = 5.0
"""The timeout of a third-party plugin for a notification or its shutdown."""


class PluginSessions:
    """The sessions that use one registry, oldest first. Every plugin gets each of them, the newest last."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._live: list[Any] = []

    def add(self, session: Any, toolsets: Iterable[Toolset]) -> None:
        """Add a session as the newest, and pass it to the plugins."""
        self._live = [*(one for one in self._live if one is not session), session]
        for toolset in toolsets:
            self._set_session(toolset, session)

    def remove(self, session: Any, toolsets: Iterable[Toolset]) -> None:
        """Remove a session; if it was the newest, the one before it is passed to the plugins."""
        newest = bool(self._live) and self._live[-1] is session
        self._live = [one for one in self._live if one is not session]
        if newest and self._live:
            for toolset in toolsets:
                self._set_session(toolset, self._live[-1])

    def set_sessions(self, toolset: Toolset) -> None:
        """Pass every session to a plugin that is exposed later; raises what it raises."""
        if join := toolset.wiring.get("set_session"):
            for session in self._live:
                join(session)

    def _set_session(self, toolset: Toolset, session: Any) -> None:
        if join := toolset.wiring.get("set_session"):
            try:
                call_plugin(toolset, lambda: join(session))
            except BROKEN as error:
                self._report(
                    toolset.name, f"cannot join the session: {type(error).__name__}: {short_message(error)}"
                )


class ChangeListeners:
    """Listeners for changes of tools or commands, called on the thread that made them."""

    def __init__(self) -> None:
        self._all: tuple[Callable[[], None], ...] = ()

    def add(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Add a listener; returns a function that removes it."""
        self._all = (*self._all, watcher)
        return lambda: self.remove(watcher)

    def remove(self, watcher: Callable[[], None]) -> None:
        """Remove a listener."""
        self._all = tuple(one for one in self._all if one is not watcher)

    def notify(self) -> None:
        """Call the listeners."""
        for watcher in self._all:
            watcher()


def set_workspace(toolset: Toolset, workspace: Path) -> None:
    """Pass the workspace to a plugin; raises what it raises."""
    if settle := toolset.wiring.get("set_workspace_path"):
        settle(str(workspace))


def set_workspaces(toolsets: Iterable[Toolset], workspace: Path, report: Callable[[str, str], None]) -> None:
    """Pass a new workspace to plugins; one that fails or hangs is reported, and does not stop the others."""
    for toolset in toolsets:
        try:
            call_plugin(toolset, functools.partial(set_workspace, toolset, workspace))
        except BROKEN as error:
            report(toolset.name, f"cannot work in {workspace}: {short_message(error)}")


def replace_tools(toolset: Toolset | None, catalog: Catalog, old: list[Tool], new: list[Tool]) -> None:
    """Replace tools in the record and in the catalogue, if the plugin is still exposed."""
    if toolset is None:
        return
    for one in (catalog, *catalog.parts_with(toolset.name)):
        one.exchange(old, new)
    gone = set(map(id, old))
    toolset.tools = [*(tool for tool in toolset.tools if id(tool) not in gone), *new]


def call_plugin(toolset: Toolset, work: Callable[[], Any]) -> None:
    """Call a plugin, a third-party one with a timeout. Raises what it raises."""
    if toolset.foreign:
        run_bounded(NOTIFY_TIMEOUT_S, work, f"The plugin {toolset.name!r}")
    else:
        work()


def release(plugin: Any, name: str, *, foreign: bool = False) -> None:
    """Shut a plugin down; its failure or hang is logged."""
    try:
        if foreign:
            run_bounded(NOTIFY_TIMEOUT_S, lambda: call_optional(plugin, "shutdown"), "Its shutdown")
        else:
            call_optional(plugin, "shutdown")
    except BROKEN as error:  # the others still have to be shut down
        LOG.warning("Plugin '%s' failed to shut down: %s", name, short_message(error))


LOADING_S = 20.0
"""The timeout of importing a plugin, and again of initialising it."""


class PluginLoader:
    """Loads the plugins of one registry. `noticed` has the changes that third-party plugins made to the process."""

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
        """Run `work`. Third-party code runs with a timeout, its side effects are detected, and its output goes to stderr. Raises
        `PluginError`."""
        if not foreign:
            return work()
        before = read_process_state()
        try:
            with redirect_stdio():
                return run_bounded(self._loading_s, work, "", undo)
        finally:
            changes = before.describe_changes(read_process_state())
            if changes:
                known = self.noticed.setdefault(name, [])
                known += [change for change in changes if change not in known]

    def load(
        self, name: str, load: Callable[[], Any], config: dict[str, Any], *, foreign: bool
    ) -> tuple[Any, str]:
        """The plugin, created but not initialised, and its name, which is read once."""
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
        """Initialise a plugin, read its declaration and wire it; one that fails is shut down. Raises what it raises, for a
        third-party plugin `PluginError`."""

        def work() -> Toolset:
            initialize = optional(plugin, "initialize")
            if initialize:
                require_sync(initialize(config or {}), "initialize()")
            meet = optional(plugin, "set_plugin_registry")
            if meet:
                meet(self._registry)
            toolset = (
                plugin.toolset()
                if isinstance(plugin, ToolsetSource)
                else adapt(plugin, name, known_declarations(plugin, name))
            )
            toolset.foreign = foreign
            wire(toolset)
            return toolset

        return self.call(name, work, foreign=foreign, undo=lambda toolset: release(toolset.plugin, name))


def is_foreign(load: Callable[[], Any]) -> bool:
    """Whether a loader loads third-party code."""
    return not isinstance(load, Builtin | ByHand)


class ByHand:
    """A plugin that the embedding program passed itself: called without isolation."""

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


def class_name(plugin: Any) -> str:
    """A plugin by its class."""
    if isinstance(plugin, LazyPlugin):
        return plugin.path.replace(":", ".")
    return f"{type(plugin).__module__}.{type(plugin).__qualname__}"
