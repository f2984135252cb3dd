"""Listeners: TCP and Unix sockets, who may connect to them, and the servers on them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import stat
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from jaato.errors import ConfigError
from jaato.protocol.frames import MAX_HELLO_BYTES
from jaato.server.auth.gate import OBJECTION, Gate
from jaato.server.descriptor_limits import most_connections
from jaato.server.http.asgi import App
from jaato.server.http.connection import Config
from jaato.server.http.protocol import BoundedProtocol
from jaato.server.http.tls import Certificate, Secured
from jaato.server.http.websocket import FramedSocket
from jaato.server.lock_file import private_directory
from jaato.tools.processes.call_processes import REMEDY, find_call_above

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


BACKLOG = 1_024
STRANGERS_BACKLOG = 256
"""Connections that wait to be accepted: who comes after a crowd waits until it has been looked at."""
MAX_PATH_BYTES = 107
"""The longest path of a Unix socket (sockaddr_un)."""
FIRST_PASSED = 3
"""The first descriptor systemd passes on (sd_listen_fds(3))."""
PINGS_S = 20.0
SO_PEERPIDFD = 77
"""Of Linux (socket(7)); `socket` does not name it."""


class SameUser(BoundedProtocol):
    """A connection of the Unix socket: of the same user, as the kernel says, or none. What speaks against letting its
    process in as the owner goes with each request, for the gate to say."""

    def connection_made(self, transport: Any) -> None:
        """A client has come."""
        connection = transport.get_extra_info("socket")
        if not same_user(connection):
            transport.abort()
            return
        self.app_state[OBJECTION] = objection_to(connection)
        super().connection_made(transport)


def same_user(connection: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user, or to root."""
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except (AttributeError, OSError):
        return True  # where the kernel does not say, the mode of socket and directory has to do
    return struct.unpack("3i", packed)[1] in (os.geteuid(), 0)


def objection_to(connection: socket.socket) -> str | None:
    """Why the process at the other end is not let in as the owner: it runs below a call of a tool, or nobody can tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None  # there is nothing to tell by, nor a sandbox: every command was asked about
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid = struct.unpack("3i", packed)[0]
    process = process_of(connection)
    try:
        found = find_call_above(pid)
        if process >= 0 and select.select([process], [], [], 0)[0]:
            raise ProcessLookupError("its number may be another process's by now")
    except ProcessLookupError:
        return (
            f"The process that connects ({pid}) cannot be seen in /proc, so nobody can tell whether it runs below a call "
            "of a tool. Use a token: `jaato serve --web-socket` and `jaato tokens`."
        )
    finally:
        if process >= 0:
            os.close(process)
    return None if found is None else f"This client runs below a call of a tool: {found}. {REMEDY}"


def process_of(connection: socket.socket) -> int:
    """A descriptor of the process at the other end, which keeps its number from meaning another one; -1 where the kernel
    gives none (before Linux 6.5)."""
    try:
        return connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        return -1


def unix_listener(path: Path) -> socket.socket:
    """A socket at this path, 0600 from its first moment. Raises `ConfigError` when something else is there."""
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise ConfigError(
            f"The path of a socket has at most {MAX_PATH_BYTES} bytes; {path} is longer. Name a shorter one."
        )
    private_directory(path.parent)
    remove_dead(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        raise ConfigError(f"No socket can be made at {path}: {error.strerror}.") from None
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    return listener


def remove_dead(path: Path) -> None:
    """Remove the socket of a server that is no more. Raises `ConfigError` for one that answers, and for another thing."""
    try:
        info = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(info.st_mode):
        raise ConfigError(f"{path} is there and is no socket; name another place: --ipc-socket PATH.")
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.settimeout(1.0)
        probe.connect(os.fspath(path))
    except (ConnectionRefusedError, FileNotFoundError):
        if info.st_uid != os.geteuid():
            raise ConfigError(
                f"{path} is another user's socket; name another place: --ipc-socket PATH."
            ) from None
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} is a socket that cannot be used: {error.strerror or error}.") from None
    else:
        raise ConfigError(f"A server answers at {path} already; `jaato serve --stop` ends it.")
    finally:
        probe.close()


def passed_listeners(environ: dict[str, str]) -> list[socket.socket]:
    """The sockets systemd has opened for this process; none when it has not. Raises `ConfigError` for other things."""
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = environ.get("LISTEN_FDS", "")
    made: list[socket.socket] = []
    for fd in range(FIRST_PASSED, FIRST_PASSED + (int(count) if count.isdecimal() and len(count) < 4 else 0)):
        try:
            os.set_inheritable(fd, False)
            one = socket.socket(fileno=fd)
            listens = one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        except OSError as error:
            raise ConfigError(f"Descriptor {fd}, passed as a socket, is none: {error.strerror}.") from None
        families = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
        if not listens or one.family not in families or one.type != socket.SOCK_STREAM:
            raise ConfigError(f"Descriptor {fd}, passed as a socket, is no stream socket that listens.")
        made.append(one)
    return made


def tell_supervisor(environ: dict[str, str], state: str) -> None:
    """Tell systemd how the service is (sd_notify(3)), where it wants to know."""
    path = environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.connect(f"\0{path[1:]}" if path[0] == "@" else path)
        line.sendall(state.encode())


@asynccontextmanager
async def serving(
    gate: Gate, listener: socket.socket, tls: Certificate | None = None, doors: int = 1
) -> AsyncIterator[None]:
    """Serve what is behind a gate at a socket while the body runs; `doors` such share the connections there may be."""
    config = config_of(gate)
    config.doors = doors
    config.backlog = BACKLOG if listener.family == socket.AF_UNIX else STRANGERS_BACKLOG
    config.http = SameUser if listener.family == socket.AF_UNIX else BoundedProtocol
    config.ws = FramedSocket
    config.ws_max_size = MAX_HELLO_BYTES
    config.ws_per_message_deflate = False
    config.ws_ping_interval = config.ws_ping_timeout = PINGS_S
    async with listening(config, listener, tls):
        yield
