"""A registry put together: its domains, the plugins that are offered besides, and the rules its callers work under."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from jaato.errors import ConfigError
from jaato.runtime.domains import load_domains
from jaato.runtime.session_options import SessionOptions, settings_for, workspace_of
from jaato.server.mcp.offer import Offer
from jaato.server.registry.caller_sessions import Callers, kept_by
from jaato.server.registry.calling import Bounds
from jaato.server.registry.door import RegistryDoor
from jaato.server.registry.elsewhere import is_for_others
from jaato.server.registry.limits import places_of
from jaato.server.registry.registered.changing import Registered
from jaato.server.registry.registered.folder import Folder
from jaato.server.registry.registered.handlers import Handlers
from jaato.server.registry.shelf import Shelf
from jaato.settings import Settings


def open_registry(
    blueprint: SessionOptions,
    domains: Iterable[str] | None = None,
    entry_points: Iterable[str] = (),
    tools: tuple[str, ...] = (),
) -> RegistryDoor:
    """The door to the tools of these domains (None: those of the settings) and of the blueprint's plugins, and to the tools
    that were put there. `entry_points` may be put beside those that the settings allow. Where there are `tools`, there are
    no others.

    Whoever names a domain, or puts a tool, lets its tools be called: they need no other permission, but what a rule denies
    stays denied. What asks is denied, for there is nobody to ask. Raises `JaatoError`s.
    """
    workspace = workspace_of(blueprint)
    settings = settings_for(blueprint, workspace)
    names = settings["tool_registry_domains"] if domains is None else list(domains)
    loaded = load_domains(names)
    allowed = tuple(tool.name for tool in loaded if tool.spec.access != "read")
    most = settings["tool_registry_body_bytes"]
    if most < 1:
        raise ConfigError(f"tool_registry_body_bytes = {most}: a request has at least one byte.")
    bounds = bounds_of(settings)
    served = Shelf(loaded)  # all versions; a session knows the newest of each by name
    described = replace(
        blueprint,
        plugins=blueprint.plugins or (),
        tools=(*blueprint.tools, *served.tools.values()),
        allow=(*blueprint.allow, *allowed),
    )
    kept = kept_by(settings)
    offer = Offer(
        whole=True, scope=partial(is_for_others, named=frozenset(blueprint.allow), only=frozenset(tools))
    )
    callers = Callers.opened(described, offer)
    callers.kept = kept
    for tool in loaded:
        tool.auto_approved = False  # they are allowed by a rule, which others may outrank
    offered = filter(offer.scope, callers.catalog)
    everything = Shelf(one for first in offered for one in served.all_of(first))
    allowed_code = (*settings["tool_registry_entry_points"], *entry_points)
    handlers = Handlers(
        settings, workspace, callers.state_dir, allowed_code, callers.registry.services["secrets"]
    )
    registered = Registered(everything, callers, Folder(callers.state_dir), handlers)
    return RegistryDoor(registered, callers, most, bounds)


def bounds_of(settings: Settings) -> Bounds:
    """How long and how many calls may run. Raises `ConfigError`."""
    within_s = settings["tool_registry_timeout_s"]
    if not within_s > 0:
        raise ConfigError(f"tool_registry_timeout_s = {within_s}: a call has some time.")
    return Bounds(within_s, places_of(settings["tool_registry_at_once"]))
