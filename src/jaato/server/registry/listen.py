"""The registry on an address of its own."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from jaato.errors import ConfigError
from jaato.server.registry.door import RegistryDoor
from jaato.server.registry.guards import Guard
from jaato.server.registry.line import Line
from jaato.server.registry.lines import Lines
from jaato.server.registry.upkeep import looked_after

BACKLOG = 1_024
ACCEPTED_AT_ONCE = 16
"""Connections that are accepted before those accepted are looked at: each has a descriptor, whoever it is."""
KEPT_BYTES = 131_072
"""How much of what was not yet sent the system keeps for a connection."""
MAX_LINES = 4_096
LOOK_S = 1.0
ENDING_S = 5.0
"""How long what is being answered may still take when the server ends."""
PARTING_S = 3.0
"""How long calls may take to end that were told to, and to be answered so."""
TOLD_S = 1.0
"""How long it takes to tell the others that theirs was cancelled."""


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
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"Nothing can be served at {host} port {port}: {said}. Take another address or port."
        ) from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited; else answers wait 40 ms
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # so that what a client takes is seen soon, not by the megabyte
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, KEPT_BYTES)
    return listener


def room_for_lines() -> int:
    """As many connections as descriptors leave room for, once the process has all it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_LINES if hard == resource.RLIM_INFINITY else min(2 * MAX_LINES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MAX_LINES if soft == resource.RLIM_INFINITY else max(16, min(MAX_LINES, soft * 3 // 4))


@asynccontextmanager
async def serving(door: RegistryDoor, guard: Guard, listener: socket.socket) -> AsyncIterator[None]:
    """Serve at a socket while the body runs; what is being answered then may still be."""
    lines = Lines(door, guard, room_for_lines())
    server = await asyncio.get_running_loop().create_server(
        partial(Line, lines), sock=listener, backlog=ACCEPTED_AT_ONCE
    )
    listener.listen(BACKLOG)  # so many may wait to be accepted
    try:
        async with looked_after(watch(lines.open), door.upkeep()):
            yield
    finally:
        server.close()
        for line in list(lines.open):
            line.stop()
        await ended(lines.open, ENDING_S)
        door.callers.stop()  # each is answered that it was cancelled
        await ended(lines.open, PARTING_S)
        for line in list(lines.open):
            line.cancel()
        await ended(lines.open, TOLD_S)
        for line in list(lines.open):
            line.abort()
        lines.eager.close()


async def ended(lines: dict[Line, None], within_s: float) -> None:
    """Wait until there is none, or so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while lines:  # noqa: ASYNC110 a line tells nobody of its end
                await asyncio.sleep(0.01)


async def watch(lines: dict[Line, None]) -> None:
    """Close, again and again, the connections whose time is over."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(LOOK_S)
        now = loop.time()
        for line in [line for line in lines if line.deadline < now]:
            line.late()


def address_of(listener: socket.socket) -> str:
    """Where a socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
