"""A registry put together: its domains, the plugins that are offered besides, and the rules its callers work under."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from jaato.errors import ConfigError
from jaato.runtime.assemble import settings_for, workspace_of
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.domains import load_domains
from jaato.server.mcp.offer import Offer
from jaato.server.registry.callers import Callers
from jaato.server.registry.door import RegistryDoor
from jaato.server.registry.shelf import Shelf


def open_registry(blueprint: Blueprint, domains: Iterable[str] | None = None) -> RegistryDoor:
    """The door to the tools of these domains (None: those of the settings) and of the blueprint's plugins.

    Whoever names a domain lets its tools be called: they need no other permission, but what a rule denies stays denied.
    What asks is denied, for there is nobody to ask. Raises `JaatoError`s.
    """
    settings = settings_for(blueprint, workspace_of(blueprint))
    names = settings["tool_registry_domains"] if domains is None else list(domains)
    tools = load_domains(names)
    allowed = tuple(tool.name for tool in tools if tool.spec.access != "read")
    most = settings["tool_registry_body_bytes"]
    if most < 1:
        raise ConfigError(f"tool_registry_body_bytes = {most}: a request has at least one byte.")
    served = Shelf(tools)  # all versions; a session knows the newest of each by name
    described = replace(
        blueprint,
        plugins=blueprint.plugins or (),
        tools=(*blueprint.tools, *served.tools.values()),
        allow=(*blueprint.allow, *allowed),
    )
    callers = Callers.opened(described, Offer(whole=True))
    for tool in tools:
        tool.auto_approved = False  # they are allowed by a rule, which others may outrank
    everything = Shelf(one for first in callers.catalog for one in served.all_of(first))
    return RegistryDoor(everything, callers, most)
