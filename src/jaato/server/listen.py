"""An HTTP server on sockets that are open: connections bounded in number and in how long they may say nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn

from jaato.errors import ConfigError
from jaato.server.asgi import App
from jaato.server.gate import Gate
from jaato.server.http_connection import Config
from jaato.server.http_protocol import BoundedProtocol
from jaato.server.share import most_connections
from jaato.server.tls import Certificate, Secured

IDLE_S = 30
ENDING_S = 1
ACCEPTED_AT_ONCE = 16
"""Connections that are accepted before those accepted are looked at: each has a descriptor, whoever it is."""


def config_of(app: App) -> Config:
    """How an HTTP server is set; what is no HTTP is refused in the words of its gate."""
    config = Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=ENDING_S,
    )
    if isinstance(app, Gate):
        config.form = app.form
    return config


class Listener(uvicorn.Server):
    """A server that leaves the signals to the program, and bounds handshakes of TLS as it does requests."""

    def __init__(self, config: Config, tls: Certificate | None = None) -> None:
        super().__init__(config)
        self.ended = asyncio.Event()
        self._doors = config.doors
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        handshakes: dict[Secured, None] = {}

        def served() -> asyncio.Protocol:
            kind: Any = self.config.http_protocol_class
            made: asyncio.Protocol = kind(self.config, self.server_state, {}, loop)
            return made

        def made() -> asyncio.Protocol:
            if self._tls is None:
                return served()
            return Secured(self._tls.context, served, handshakes, most_connections(self._doors) // 2)

        self.servers = []
        for one in sockets or []:
            self.servers.append(await loop.create_server(made, sock=one, backlog=ACCEPTED_AT_ONCE))
            one.listen(self.config.backlog)  # as many may wait to be accepted
        self.started = True

    async def drain(self, within_s: float) -> None:
        """Accept nothing more, and wait until everything is answered, or so long."""
        self.should_exit = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self.ended.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none."""
        yield


@contextlib.asynccontextmanager
async def listening(
    config: Config, listener: socket.socket, tls: Certificate | None = None
) -> AsyncIterator[Listener]:
    """Serve at a socket while the body runs; what is being answered then may still be."""
    server = Listener(config, tls)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    task.add_done_callback(lambda _over: server.ended.set())
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 uvicorn tells nobody
            await asyncio.sleep(0.002)
        if task.done():
            await task
        yield server
    finally:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])


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
