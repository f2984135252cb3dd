"""The plugin `arp`: the tools of remote registries in the catalogue, found by name and description, described when asked for."""

from __future__ import annotations

import functools
import threading
from pathlib import Path
from typing import Annotated, Any, ClassVar

import anyio
import msgspec

from jaato.abc.plugin import Host, Plugin
from jaato.errors import PluginError
from jaato.plugins.arp.config import FILE, target_of
from jaato.plugins.arp.directory import Directory, RegistryHandle
from jaato.plugins.arp.tools import RegistryTool, full_name, make_tool
from jaato.protocol.arp import ToolView
from jaato.tools.catalog import wire_name
from jaato.tools.host_services import service_of, trust_of
from jaato.tools.remote.sources import host_context
from jaato.tools.tool import Tool, tool
from jaato.typed_decoding import decode_json

KNOWN = Path(__file__).parents[1] / "known.json"
MAX_SHOWN = 100


@functools.cache
def own_names() -> frozenset[str]:
    """The names of all tools that come with jaato, used here or not: what a rule allows of them is not meant for a
    third party's."""
    plugins = decode_json(KNOWN.read_bytes(), dict[str, Any])
    tools = [tool for plugin in plugins.values() for tool in plugin["tools"]]
    return frozenset(name for tool in tools for name in (tool["spec"]["name"], *tool.get("aliases", ())))


class ArpPlugin(Plugin):
    """Tool registries: their tools join the catalogue by name, and are described when their parameters are asked for."""

    name: ClassVar[str] = "arp"
    looks_at: ClassVar[tuple[str, ...]] = (".jaato/registries.json", "config:registries.json")

    def __init__(self, host: Host, directory: Directory | None = None) -> None:
        super().__init__(host)
        if directory is not None:
            self.directory = directory
        self._offered: dict[str, dict[ToolView, Tool]] = {}
        self._renewing = threading.Lock()

    @functools.cached_property
    def directory(self) -> Directory:
        """The registries, read when first asked for."""
        return open_directory(self.host)

    def offered(self) -> list[Tool]:
        """The tools of every registry of which a list is cached; sends no request."""
        for config in self.directory.usable():
            handle = self.directory.handle(config)
            handle.pins.hold()
            self._offered[config.name] = self._tools_of(handle)
        if self._offered:
            try:
                self.host.service("catalog").sources[self.name] = self.refresh
            except KeyError:
                pass
        return [tool for tools in self._offered.values() for tool in tools.values()]

    def _tools_of(self, handle: RegistryHandle) -> dict[ToolView, Tool]:
        """The tools of a list; those that were in the one before as they are."""
        config = handle.source.config
        before = self._offered.get(config.name, {})
        made: dict[ToolView, Tool] = {}
        names: set[str] = set()
        for view in handle.source.kept.views:
            full = full_name(config, view.name)
            if full in names:
                continue
            names.add(full)
            made[view] = before.get(view) or self._make(handle, view)
        return made

    def _make(self, handle: RegistryHandle, view: ToolView) -> Tool:
        config = handle.source.config
        foreign = view.name in own_names() or self.directory.is_others(config, wire_name(view.name))
        registry_tool = RegistryTool(handle.source, handle.definitions, view, handle.pins)
        return make_tool(
            registry_tool, handle.definitions.get_cached(view.name), prefixed=config.always or foreign
        )

    async def refresh(self) -> None:
        """Ask the registries whose list is old; one that fails keeps the others from nothing."""
        async with anyio.create_task_group() as tasks:
            for config in self.directory.usable():
                tasks.start_soon(self._refresh, self.directory.handle(config))
        self._publish_marks()

    def _publish_marks(self) -> None:
        """Say from whom the tools come, for those to whom they are served on."""
        handles = [self.directory.handle(config) for config in self.directory.usable()]
        try:
            marks = self.host.service("catalog").marks
        except KeyError:
            return
        marks[self.name] = frozenset(mark for handle in handles for mark in handle.source.through)

    async def _refresh(self, handle: RegistryHandle) -> None:
        if await handle.source.refresh():
            self._renew(handle)

    def _renew(self, handle: RegistryHandle) -> None:
        """Exchange those tools of a registry that are others now."""
        name = handle.source.name
        with self._renewing:
            before = self._offered.get(name, {})
            after = self._offered[name] = self._tools_of(handle)
            old = [tool for view, tool in before.items() if after.get(view) is not tool]
            new = [tool for view, tool in after.items() if before.get(view) is not tool]
            try:
                self.host.service("registry").renew(self.name, old, new)
            except (KeyError, PluginError) as error:
                handle.source.log_problem(f"its tools cannot be offered: {error}")

    @tool(category="registry", access="read")
    def registries(self) -> dict[str, Any]:
        """List the tool registries: how each stands (known, unreachable, needs trust), how many tools it offers, what was
        left out and why. Sends no request."""
        rows = [self._row(name) for name in self.directory.sources]
        found: dict[str, Any] = {"registries": rows[:MAX_SHOWN]}
        problems = [str(problem) for problem in self.directory.problems]
        return found | ({"problems": problems[:MAX_SHOWN]} if problems else {})

    def _row(self, name: str) -> dict[str, Any]:
        config = self.directory.sources[name]
        row: dict[str, Any] = {"name": name, "url": target_of(config), "state": self.directory.state(config)}
        if row["state"] in ("known", "unreachable", "configured"):
            source = self.directory.handle(config).source
            row["tools"] = len(source.kept.views)
            row |= {"why": source.failure} if source.failure else {}
            row |= {"left_out": source.kept.dropped} if source.kept.dropped else {}
        return row

    @tool(category="registry", access="network")
    async def refresh_registry(
        self, registry: Annotated[str, msgspec.Meta(max_length=200)]
    ) -> dict[str, Any]:
        """Ask a tool registry for its list now, also right after it failed. Returns how many tools it offers; list_tools
        finds them."""
        handle = self.directory.get_handle(registry)
        if await handle.source.fetch_list():
            self._renew(handle)
        self._publish_marks()
        return self._row(registry)

    def shutdown(self) -> None:
        """Send no further request."""
        if "directory" in self.__dict__:
            self.directory.close()
        try:
            sources = self.host.service("catalog").sources
        except KeyError:
            return
        sources.pop(self.name, None)


def open_directory(host: Host) -> Directory:
    """The registries of a plugin's session."""
    context = host_context(host)
    trust = trust_of(host, context.state_dir, [context.config_dir / FILE])
    catalog = service_of(host, "catalog")
    return Directory(msgspec.structs.replace(context, trust=trust), "" if catalog is None else catalog.mark)
