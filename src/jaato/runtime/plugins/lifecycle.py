"""Plugins are told where and in which session they work, and let go of in the end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jaato.log import logger
from jaato.runtime.plugins.adapter import Toolset, call_optional
from jaato.runtime.plugins.isolation import BROKEN, brief, run_bounded
from jaato.tools.catalog import Catalog
from jaato.tools.tool import Tool

LOG = logger("registry")
TELLING_S = 5.0
"""How long somebody else's plugin may take to hear of something, or to shut down."""


class PluginSessions:
    """The sessions that use one registry, oldest first. A plugin hears of every one that lives, the newest last."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._live: list[Any] = []

    def add(self, session: Any, toolsets: Iterable[Toolset]) -> None:
        """One more session, now the newest; the plugins are told."""
        self._live = [*(one for one in self._live if one is not session), session]
        for toolset in toolsets:
            self._tell(toolset, session)

    def remove(self, session: Any, toolsets: Iterable[Toolset]) -> None:
        """A session has ended; where it was the newest, the plugins are told of the one before it."""
        newest = bool(self._live) and self._live[-1] is session
        self._live = [one for one in self._live if one is not session]
        if newest and self._live:
            for toolset in toolsets:
                self._tell(toolset, self._live[-1])

    def introduce(self, toolset: Toolset) -> None:
        """A plugin that comes late is told of every session; raises what it raises."""
        if join := toolset.wiring.get("set_session"):
            for session in self._live:
                join(session)

    def _tell(self, toolset: Toolset, session: Any) -> None:
        if join := toolset.wiring.get("set_session"):
            try:
                call_plugin(toolset, lambda: join(session))
            except BROKEN as error:
                self._report(toolset.name, f"cannot join the session: {type(error).__name__}: {brief(error)}")


class ChangeListeners:
    """Who wants to know that tools or commands have changed; told on the thread that changed them."""

    def __init__(self) -> None:
        self._all: tuple[Callable[[], None], ...] = ()

    def add(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call this one from now on; returns a function that ends it."""
        self._all = (*self._all, watcher)
        return lambda: self.remove(watcher)

    def remove(self, watcher: Callable[[], None]) -> None:
        """Call this one no more."""
        self._all = tuple(one for one in self._all if one is not watcher)

    def tell(self) -> None:
        """Something has changed."""
        for watcher in self._all:
            watcher()


def set_workspace(toolset: Toolset, workspace: Path) -> None:
    """Tell a plugin where it works; raises what it raises."""
    if settle := toolset.wiring.get("set_workspace_path"):
        settle(str(workspace))


def set_workspaces(toolsets: Iterable[Toolset], workspace: Path, report: Callable[[str, str], None]) -> None:
    """Tell plugins that they work elsewhere; one that fails or hangs at it is reported, and the others are told."""
    for toolset in toolsets:
        try:
            call_plugin(toolset, functools.partial(set_workspace, toolset, workspace))
        except BROKEN as error:
            report(toolset.name, f"cannot work in {workspace}: {brief(error)}")


def replace_tools(toolset: Toolset | None, catalog: Catalog, old: list[Tool], new: list[Tool]) -> None:
    """Other tools in the place of old ones, in the record and in the catalogue, if the plugin is still exposed."""
    if toolset is None:
        return
    for one in (catalog, *catalog.parts_with(toolset.name)):
        one.exchange(old, new)
    gone = set(map(id, old))
    toolset.tools = [*(tool for tool in toolset.tools if id(tool) not in gone), *new]


def call_plugin(toolset: Toolset, work: Callable[[], Any]) -> None:
    """Tell a plugin something; somebody else's has so long to hear it. Raises what it raises."""
    if toolset.foreign:
        run_bounded(TELLING_S, work, f"The plugin {toolset.name!r}")
    else:
        work()


def release(plugin: Any, name: str, *, foreign: bool = False) -> None:
    """Shut a plugin down; one that fails or hangs in doing so harms nobody else."""
    try:
        if foreign:
            run_bounded(TELLING_S, lambda: call_optional(plugin, "shutdown"), "Its shutdown")
        else:
            call_optional(plugin, "shutdown")
    except BROKEN as error:  # the others still have to be shut down
        LOG.warning("Plugin '%s' failed to shut down: %s", name, brief(error))
