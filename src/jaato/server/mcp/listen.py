"""The MCP door on an address of its own: connections bounded in number and in how long they may say nothing."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from jaato.errors import ConfigError
from jaato.server.mcp.application import PATH, Application
from jaato.server.mcp.door import Door
from jaato.server.mcp.guard import Guard, names_of
from jaato.server.mcp.secret import token_of

HEAD_S = 15.0
"""How long a connection may take to say what it wants."""
IDLE_S = 30
ENDING_S = 1
MAX_CONNECTIONS = 512
MAX_HEAD_BYTES = 32_768


async def listen(
    door: Door,
    address: str,
    hosts: Iterable[str],
    origins: Iterable[str],
    announce: Callable[[str], None],
) -> None:
    """Serve at `[HOST]:PORT` until cancelled. Raises `ConfigError` for an address that cannot be had."""
    host, port = host_and_port(address)
    token, path = token_of(door.state_dir)
    listener = bound(host, port)
    try:
        port = listener.getsockname()[1]
        application = Application(door)
        guard = Guard(application, token, names_of(host, port, hosts, origins))
        server = Listener(config_of(guard))
        shown = f"[{host}]" if ":" in host else host
        async with application.running():
            announce(f"serving MCP at http://{shown}:{port}{PATH}; the token is in {path}")
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                await asyncio.shield(serving)
            finally:
                server.should_exit = True
                await asyncio.wait([serving])
    finally:
        listener.close()


def config_of(app: Any) -> uvicorn.Config:
    """How the HTTP server is set."""
    return uvicorn.Config(
        app,
        http=Bounded,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=ENDING_S,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )


class Listener(uvicorn.Server):
    """A server that leaves the signals to the program."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none."""
        yield


class Bounded(H11Protocol):
    """A connection that is closed when it says nothing for long; when there are too many, the one that has waited
    longest makes room, so that silent ones keep nobody out."""

    late: asyncio.TimerHandle | None = None
    _counted = False
    _upgraded = False

    def connection_made(self, transport: Any) -> None:
        """A client has come."""
        if len(self.connections) >= most_connections() and not self._make_room():
            transport.abort()
            return
        self._counted = True
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """A client says something."""
        super().data_received(data)
        self._watch()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The connection becomes a WebSocket, which looks after itself."""
        self._upgraded = True
        if self.late is not None:
            self.late.cancel()
            self.late = None
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has gone."""
        if self.late is not None:
            self.late.cancel()
        if self._counted:
            super().connection_lost(exc)

    def _make_room(self) -> bool:
        """Close the connection that has waited longest; False when all are being served."""
        waiting = [
            (one.late.when(), number, one)
            for number, one in enumerate(self.connections)
            if isinstance(one, Bounded) and one.late is not None
        ]
        if not waiting:
            return False
        oldest = min(waiting)[2]
        oldest.hurry()
        self.connections.discard(oldest)
        return True

    def _watch(self) -> None:
        """Begin to wait for a whole request, or stop waiting because there is one."""
        served = self._upgraded or self._serves()
        if served and self.late is not None:
            self.late.cancel()
            self.late = None
        elif not served and self.late is None:
            self.late = self.loop.call_later(HEAD_S, self.hurry)

    def hurry(self) -> None:
        """Close the connection, unless it is being served."""
        if self.late is not None:
            self.late.cancel()
            self.late = None
        if not self._serves():
            self.transport.abort()

    def _serves(self) -> bool:
        """Whether a request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete


def most_connections() -> int:
    """As many connections as leave files enough for the work."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else max(16, min(MAX_CONNECTIONS, soft // 2))


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `ConfigError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=128)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited; else answers wait 40 ms
        return listener
    except (OSError, OverflowError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"Nothing can be served at {host} port {port}: {said}. Take another port."
        ) from None


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of `[HOST]:PORT`; loopback when no host is named. Raises `ConfigError`."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port[:6]) > 65_535:
        raise ConfigError(f"{address!r} is no address: give :7391, 127.0.0.1:7391 or [::1]:7391.")
    return host or "127.0.0.1", int(port)
