"""The registry on an address of its own."""

from __future__ import annotations

import ipaddress
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

from jaato.errors import ConfigError
from jaato.server import listen
from jaato.server.gate import Gate
from jaato.server.registry.application import Application, refused
from jaato.server.registry.door import RegistryDoor
from jaato.server.registry.keys import Guard
from jaato.server.registry.upkeep import looked_after

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
