"""The tools of a flow: those of the registries it may use, as tools of a catalogue of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

import msgspec

from jaato.errors import ConfigError, ToolError, UnknownTool
from jaato.plugins.arp.config import RegistryConfig, registry_from_url, target_of
from jaato.plugins.arp.directory import Directory
from jaato.plugins.arp.plugin import ArpPlugin, open_directory
from jaato.plugins.arp.tools import Far
from jaato.protocol.specs import ToolSpec
from jaato.runtime.flow.planner import MAX_DESCRIPTION_CHARS, MAX_OFFERED, StepPrompt
from jaato.runtime.flow.trace import Offer, Offered, Place
from jaato.runtime.plugins.lifecycle import PluginHost
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.invisible_text import one_line
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.tool import Tool

MAX_PREFIX_CHARS = 20


class RegistryTools:
    """The tools of some registries, found now and described when a step needs one. `registry` has them for a session."""

    def __init__(
        self, registry: PluginRegistry, directory: Directory, chosen: Sequence[RegistryConfig]
    ) -> None:
        self.registry = registry
        self._directory = directory
        self._secrets: Redactor = registry.services["secrets"]
        self.chosen = tuple(chosen)
        directory.sources = {config.name: config for config in chosen}
        registry.register_plugin(ArpPlugin(PluginHost(registry, {}), directory), expose=True)

    @cached_property
    def places(self) -> list[Place]:
        """The registries, as they may be shown."""
        return [
            Place(config.name, target_of(config), configured=config.scope != "argument")
            for config in self.chosen
        ]

    async def open(self) -> None:
        """Have the keys of the registries be known as secrets, before anything is written down; asks none of them."""
        for config in self.chosen:
            with suppress(ToolError):  # it says so when it is asked
                await self._directory.shelf(config).source.open()

    async def offered(self, instruction: str) -> Offered:
        """The tools of the registries that answer; those that serve the instruction first, where there are many."""
        for source in self.registry.catalog.sources.values():
            await source()
        problems = [why for config in self.chosen if (why := self._directory.shelf(config).source.failure)]
        tools = {tool.name: tool for tool in self.registry.catalog if self._far(tool) is not None}
        names = list(tools)
        if len(names) > MAX_OFFERED:
            ranked = [spec.name for spec, _ in self.registry.catalog.search(instruction, MAX_OFFERED + 10)]
            names = list(dict.fromkeys([*(name for name in ranked if name in tools), *names]))[:MAX_OFFERED]
        return Offered(
            tools=[self._offer(tools[name]) for name in names], known=len(tools), problems=problems
        )

    def _far(self, tool: Tool) -> Far | None:
        """Where a tool is, if its registry answers."""
        match tool.remote:
            case Far() as far if not far.away:
                return far
        return None

    def _offer(self, tool: Tool) -> Offer:
        assert isinstance(tool.remote, Far)
        description = tool.spec.description[: MAX_DESCRIPTION_CHARS * 2]
        shown = self._secrets.mask(one_line(description, MAX_DESCRIPTION_CHARS))
        return Offer(tool.name, shown, tool.remote.source.name)

    async def described(self, prompt: StepPrompt, name: str) -> ToolSpec:
        """A tool, whole; its registry is asked where that was not done within the minute. Raises `ToolError`s."""
        found = self.registry.catalog.find(name)
        remote = found.tool.remote if found is not None else None
        if found is None or remote is None:
            raise UnknownTool(f"There is no tool {name!r} any more.")
        tool = found.tool
        await remote.complete(tool)
        tool.background_after_s = None  # the next step waits for what it gives
        masked = self._secrets.mask_data
        return msgspec.structs.replace(
            tool.spec, description=masked(tool.spec.description), parameters=masked(tool.spec.parameters)
        )


def choose_registries(registry: PluginRegistry, wanted: Sequence[str], token: str) -> RegistryTools:
    """The tools of these registries, by name or URL; of all that are configured and trusted where none is named.

    Raises `ConfigError` for one that is not there or switched off and where there is none at all, `PermissionDenied` for one
    that is not trusted.
    """
    directory = open_directory(PluginHost(registry, {}))
    chosen: dict[str, RegistryConfig] = {}
    for one in dict.fromkeys(wanted):
        config = registry_from_url(one, token) if "://" in one else directory.chosen(one)
        if any(target_of(config) == target_of(other) for other in chosen.values()):
            continue
        config = make_unique(config, chosen)
        chosen[config.name] = config
    if token and sum(config.scope == "argument" for config in chosen.values()) != 1:
        raise ConfigError(
            "A token is for one registry that is named by its URL; others have theirs configured."
        )
    if not wanted:
        chosen = {config.name: config for config in directory.usable()}
    if not chosen:
        standing = "; ".join(f"{one.name} {directory.state(one)}" for one in directory.sources.values())
        known = f"none of those configured can be used ({standing})" if standing else "none is configured"
        raise ConfigError(
            f"There is no registry to use, for {known}: name one (--registry URL), or add one with `jaato registry add`."
        )
    return RegistryTools(registry, directory, list(chosen.values()))


def make_unique(config: RegistryConfig, others: dict[str, RegistryConfig]) -> RegistryConfig:
    """The registry under a name and a prefix that none of the others has: two of one host may be used at once."""
    taken = {one.name for one in others.values()} | {one.prefix.casefold() for one in others.values()}
    number, name, prefix = 1, config.name, config.prefix
    while name in taken or prefix.casefold() in taken:
        number += 1
        name, prefix = f"{config.name}-{number}", f"{config.prefix[:MAX_PREFIX_CHARS]}-{number}"
    return msgspec.structs.replace(config, name=name, prefix=prefix) if number > 1 else config
