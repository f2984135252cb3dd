"""Registered tools at work: on the shelf, in the catalogue that calls go by, and allowed there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from jaato.errors import JaatoError, PermissionDenied, PluginError
from jaato.log import logger
from jaato.runtime.plugins.adapter import Toolset
from jaato.server.registry.caller_sessions import Callers
from jaato.server.registry.registered.folder import Read, Stamp
from jaato.server.registry.registered.handlers import DOMAIN, Handlers
from jaato.server.registry.registered.types import Fixed
from jaato.server.registry.shelf import Page, Shelf
from jaato.tools.tool import Tool

LOG = logger("server.registry")
MANY = 50
"""So many tools that come at once are put on a new shelf."""


class Shown(NamedTuple):
    """A kept file, and the tool it is here; None where it can be none."""

    read: Read
    tool: Tool | None


class Served:
    """The tools of a registry: those of its domains and plugins, which stay, and those that were put there, by their file."""

    def __init__(self, shelf: Shelf, callers: Callers, handlers: Handlers, folder: Path) -> None:
        self.shelf = shelf
        self.shown: dict[str, Shown] = {}
        self.stamps: dict[str, Stamp] = {}
        """Of every file, by what it is told from another in its place."""
        self._handlers = handlers
        self._folder = folder
        self._registry = callers.registry
        self._policy = callers.policy
        self._listed: dict[str, Tool] = {}
        """The tools that calls go by in the catalogue."""
        self._own = [one for newest in shelf.tools.values() for one in shelf.all_of(newest)]
        self._fixed = frozenset(tool.name for tool in self._own)
        self._told: dict[str, str] = {}
        self._registry.add_toolset(Toolset(DOMAIN, handlers))

    def show(self, changed: dict[str, Read], gone: Iterable[str] = ()) -> None:
        """Serve what is in these files, and no longer what was in those."""
        left = [self.shown.pop(file, None) for file in gone]
        for file in gone:
            self.stamps.pop(file, None)
        old = [one.tool for one in (*left, *map(self.shown.get, changed)) if one is not None and one.tool]
        made = {file: Shown(read, self._made(file, read)) for file, read in changed.items()}
        self.shown |= made
        self.stamps |= {file: read.stamp for file, read in changed.items()}
        new = [one.tool for one in made.values() if one.tool is not None]
        kept = {(tool.name, tool.version) for tool in new}
        before, after = {tool.name for tool in old}, {tool.name for tool in new}
        shelf = self.shelf
        if len(changed) > MANY:
            shelf = Shelf([*self._own, *in_order(self.shown.values())])
        else:
            for tool in old:
                shelf = shelf if (tool.name, tool.version) in kept else shelf.without(tool.name, tool.version)
            for tool in in_order(made.values()):
                shelf = shelf.with_tool(tool)
        if before != after:
            self._policy.admit({one.tool.name for one in self.shown.values() if one.tool is not None})
        self._list(shelf, before | after)
        self.shelf = shelf

    def _made(self, file: str, read: Read) -> Tool | None:
        """The tool of a file; None where there can be none, which is reported."""
        why = read.why
        if read.entry is not None:
            try:
                if read.entry.name in self._fixed:
                    raise Fixed("A domain or a plugin has a tool of this name.")
                self._handlers.refuse(read.entry.handler)
                return self._handlers.tool(read.entry)
            except JaatoError as error:
                why = str(error)
        self.tell(file, f"The registered tool in {self._folder / file} is left out: {why.rstrip('.')}.")
        return None

    def _list(self, shelf: Shelf, names: Iterable[str]) -> None:
        """Have calls by these names be those of their newest versions; calls under way end as they began."""
        old = {name: self._listed.pop(name) for name in names if name in self._listed}
        new = {name: tool for name in names if (tool := shelf.find(name)) is not None}
        try:
            self._registry.renew(DOMAIN, list(old.values()), list(new.values()))
        except PluginError:
            for name in {**old, **new}:
                self._list_one(name, old.get(name), new.get(name))
        else:
            self._listed |= new

    def _list_one(self, name: str, old: Tool | None, new: Tool | None) -> None:
        try:
            self._registry.renew(DOMAIN, [old] if old else [], [new] if new else [])
        except PluginError as error:
            self._registry.renew(DOMAIN, [old] if old else [], [])
            self.tell(name, f"The registered tool {name} is not in the catalogue: {error}")
        else:
            self._listed |= {name: new} if new else {}

    def tell(self, about: str, words: str) -> None:
        """Log something, once."""
        if self._told.get(about) != words:
            self._told[about] = words
            LOG.warning("%s", words)

    def page(self, tool: Tool) -> Page:
        """The definition of a tool that is served."""
        page = self.shelf.definition(tool.name, tool.version)
        assert page is not None
        return page

    def refuse_read_only(self) -> None:
        """Raise `PermissionDenied` where nothing is changed at all."""
        if self._policy.read_only:
            raise PermissionDenied("This registry only reads (--read-only): no tool is put or deleted.")

    def refuse_fixed(self, name: str) -> None:
        """Raise `Fixed` for the name of somebody else's tool."""
        found = self._registry.catalog.find(name)
        if name in self._fixed or (found is not None and found.tool.plugin != DOMAIN):
            raise Fixed(
                f"{name[:80]!r} is a tool of a domain or a plugin of this registry, which is not changed over HTTP."
            )


def in_order(shown: Iterable[Shown]) -> list[Tool]:
    """The tools in the order in which they were first put, those changed since once more at the end: where a version does not
    say which is the newest, it is the one put last."""
    found = [(one.read.entry, one.tool) for one in shown if one.read.entry and one.tool]
    first = sorted(found, key=lambda one: one[0].created_ns)
    changed = [one for one in found if one[0].changed_ns != one[0].created_ns]
    return [tool for _, tool in (*first, *sorted(changed, key=lambda one: one[0].changed_ns))]
