"""Where a registry is served: opened from its settings, on an address of its own, with its maintenance."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import socket
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from jaato.errors import ConfigError
from jaato.log import logger
from jaato.runtime.domains import load_domains
from jaato.runtime.session_options import SessionOptions, settings_for, workspace_of
from jaato.server.auth.gate import Gate
from jaato.server.http import listeners as listen
from jaato.server.registry.application import Application, refused
from jaato.server.registry.caller_sessions import Callers, kept_by
from jaato.server.registry.catalog import Shelf, is_for_others
from jaato.server.registry.invoke import Bounds
from jaato.server.registry.keys import Guard
from jaato.server.registry.limits import places_of
from jaato.server.registry.registered.handlers import Handlers
from jaato.server.registry.registered.registration import Registered
from jaato.server.registry.registered.store import Folder
from jaato.server.registry.routes import RegistryDoor
from jaato.server.tool_sessions import Offer
from jaato.settings import Settings

LOG = logger("server.registry")


@asynccontextmanager
async def looked_after(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do these while the body runs; in the end they are cancelled, and nobody waits for them. One that breaks off ends
    nothing else: the doors beside serve on, and the log says so at once."""
    tasks = [asyncio.create_task(work) for work in works]
    for task in tasks:
        task.add_done_callback(note_end)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


def note_end(task: asyncio.Task[None]) -> None:
    """Log why a work has broken off."""
    if not task.cancelled() and (error := task.exception()) is not None:
        LOG.critical(
            "Time limits and old calls are not looked after any more; restart the registry", exc_info=error
        )


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


KEPT_BYTES = 131_072
"""How much of what was not yet sent the system keeps for a connection."""
MAX_CONNECTIONS = 4_096
ENDING_S = 5.0
"""How long what is being answered may still take when the server ends."""
PARTING_S = 3
"""How long calls may take to end that were told to, and to be answered so."""


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `ConfigError`."""
    if not 0 <= port <= 65_535:
        raise ConfigError(f"{port} is no port: they go from 0 (any that is free) to 65535.")
    listener = listen.bound(host, port)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # so that what a client takes is seen soon, not by the megabyte
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, KEPT_BYTES)
    return listener


def most_connections() -> int:
    """As many connections as descriptors leave room for, once the process has all it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * MAX_CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else max(16, min(MAX_CONNECTIONS, soft * 3 // 4))


@asynccontextmanager
async def serving(door: RegistryDoor, guard: Guard, listener: socket.socket) -> AsyncIterator[None]:
    """Serve at a socket while the body runs; what is being answered then may still be, and then is cancelled."""
    config = listen.config_of(Gate(Application(door), guard, partial(refused, door=door)))
    config.connections = most_connections()
    config.timeout_graceful_shutdown = int(ENDING_S) + PARTING_S
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(listen.listening(config, listener))
        await stack.enter_async_context(looked_after(door.upkeep()))
        try:
            yield
        finally:
            await server.drain(ENDING_S)
            door.callers.stop()  # each is answered that it was cancelled


def address_of(listener: socket.socket) -> str:
    """Where a socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
