"""Listeners: TCP and Unix sockets, and the HTTP servers on them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from jaato.errors import ConfigError
from jaato.protocol.frames import MAX_HELLO_BYTES
from jaato.server.auth.gate import OBJECTION, Gate
from jaato.server.auth.identity import find_objection, is_same_user
from jaato.server.descriptor_limits import max_connections
from jaato.server.http.asgi import App
from jaato.server.http.connection import HttpConfig
from jaato.server.http.parser import BoundedProtocol
from jaato.server.http.tls import Certificate, HandshakeProtocol
from jaato.server.http.websocket import FramedSocket
from jaato.server.lock_file import ensure_private_directory

KEEP_ALIVE_S = 30
SHUTDOWN_S = 1
ACCEPT_BATCH = 16
"""Connections accepted in a row before those accepted are looked at, for each of them occupies a descriptor."""
UNIX_BACKLOG = 1_024
TCP_BACKLOG = 256
"""Connections that wait to be accepted."""
MAX_PATH_BYTES = 107
"""The longest path of a Unix socket (sockaddr_un)."""
PING_S = 20.0


def create_config(app: App) -> HttpConfig:
    """The configuration of an HTTP server; what is no valid HTTP is refused in the error format of the gate."""
    config = HttpConfig(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    if isinstance(app, Gate):
        config.error_format = app.error_format
    return config


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the program, and limits the TLS handshakes in progress."""

    def __init__(self, config: HttpConfig, tls: Certificate | None = None) -> None:
        super().__init__(config)
        self.ended = asyncio.Event()
        self._sharing = config.sharing
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        handshakes: dict[HandshakeProtocol, None] = {}

        def create_http() -> asyncio.Protocol:
            kind: Any = self.config.http_protocol_class
            protocol: asyncio.Protocol = kind(self.config, self.server_state, {}, loop)
            return protocol

        def create_protocol() -> asyncio.Protocol:
            if self._tls is None:
                return create_http()
            limit = max_connections(self._sharing) // 2
            return HandshakeProtocol(self._tls.context, create_http, handshakes, limit)

        self.servers = []
        for one in sockets or []:
            server = await loop.create_server(create_protocol, sock=one, backlog=ACCEPT_BATCH)
            self.servers.append(server)
            one.listen(self.config.backlog)
        self.started = True

    async def drain(self, timeout_s: float) -> None:
        """Stop accepting, and wait until open requests are answered or the time is over."""
        self.should_exit = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.ended.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield


@asynccontextmanager
async def serve_config(
    config: HttpConfig, listener: socket.socket, tls: Certificate | None = None
) -> AsyncIterator[HttpServer]:
    """Serve at a socket while the body runs; then open requests may still be answered for `SHUTDOWN_S`."""
    server = HttpServer(config, tls)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    task.add_done_callback(lambda _over: server.ended.set())
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 uvicorn has no event for it
            await asyncio.sleep(0.002)
        if task.done():
            await task
        yield server
    finally:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])


@asynccontextmanager
async def serve_gate(
    gate: Gate, listener: socket.socket, tls: Certificate | None = None, sharing: int = 1
) -> AsyncIterator[None]:
    """Serve the application behind a gate at a socket while the body runs; `sharing` listeners share the connection limit."""
    is_unix = listener.family == socket.AF_UNIX
    config = create_config(gate)
    config.sharing = sharing
    config.backlog = UNIX_BACKLOG if is_unix else TCP_BACKLOG
    config.http = LocalProtocol if is_unix else BoundedProtocol
    config.ws = FramedSocket
    config.ws_max_size = MAX_HELLO_BYTES
    config.ws_per_message_deflate = False
    config.ws_ping_interval = config.ws_ping_timeout = PING_S
    async with serve_config(config, listener, tls):
        yield


def bind_tcp(host: str, port: int) -> socket.socket:
    """A listening TCP socket. Raises `ConfigError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=128)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited; else answers wait 40 ms
        return listener
    except (OSError, OverflowError) as error:
        number = (isinstance(error, OSError) and error.errno) or 0
        reason = os.strerror(number) if number > 0 else str(error)
        raise ConfigError(f"Cannot listen at {host} port {port}: {reason}. Use another port.") from None


def parse_host_port(address: str) -> tuple[str, int]:
    """The parts of `[HOST]:PORT`; without a host, loopback. Raises `ConfigError`."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port[:6]) > 65_535:
        raise ConfigError(f"{address!r} is not an address: use :7391, 127.0.0.1:7391 or [::1]:7391.")
    return host or "127.0.0.1", int(port)


class LocalProtocol(BoundedProtocol):
    """A connection of the Unix socket. Peers of other users are disconnected (SO_PEERCRED); an objection to the peer's
    process travels with each request, for the gate to refuse it."""

    def connection_made(self, transport: Any) -> None:
        """Check the peer."""
        connection = transport.get_extra_info("socket")
        if not is_same_user(connection):
            transport.abort()
            return
        self.app_state[OBJECTION] = find_objection(connection)
        super().connection_made(transport)


def bind_unix(path: Path) -> socket.socket:
    """A listening Unix socket, with mode 0600 from the start. Raises `ConfigError` if the path is in use."""
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise ConfigError(f"The path of a socket has at most {MAX_PATH_BYTES} bytes; {path} is longer.")
    ensure_private_directory(path.parent)
    remove_stale_socket(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        raise ConfigError(f"Cannot create a socket at {path}: {error.strerror}.") from None
    finally:
        os.umask(before)
    listener.listen(UNIX_BACKLOG)
    return listener


def remove_stale_socket(path: Path) -> None:
    """Remove the socket of a server that has ended. Raises `ConfigError` if one answers, or for another kind of file."""
    try:
        info = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(info.st_mode):
        raise ConfigError(f"{path} exists and is not a socket; use another path: --ipc-socket PATH.")
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.settimeout(1.0)
        probe.connect(os.fspath(path))
    except (ConnectionRefusedError, FileNotFoundError):
        if info.st_uid != os.geteuid():
            raise ConfigError(
                f"{path} is another user's socket; use another path: --ipc-socket PATH."
            ) from None
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"The socket {path} cannot be used: {error.strerror or error}.") from None
    else:
        raise ConfigError(f"A server is already running at {path}; `jaato serve --stop` stops it.")
    finally:
        probe.close()
