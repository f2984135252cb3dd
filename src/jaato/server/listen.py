"""An HTTP server on sockets that are open: connections bounded in number and in how long they may say nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from jaato.errors import ConfigError
from jaato.server.asgi import App, Refused, Scope
from jaato.server.gate import Form, Gate, problem
from jaato.server.reading import LittleAtOnce
from jaato.server.share import share_of_files
from jaato.server.tls import Certificate, Secured

HEAD_S = 15.0
"""How long a connection may take to say what it wants."""
IDLE_S = 30
ENDING_S = 1
MAX_CONNECTIONS = 512
ACCEPTED_AT_ONCE = 16
"""Connections that are accepted before those accepted are looked at: each has a descriptor, whoever it is."""
MAX_HEAD_BYTES = 32_768
MAX_SHOWN = 512
"""As much of a broken request is looked at to see what it was for."""


class Config(uvicorn.Config):
    """How an HTTP server is set. `doors`: how many servers on the network share the connections there may be; `form`: how
    a refusal is worded."""

    doors = 1
    form: Form = staticmethod(problem)


def config_of(app: App) -> Config:
    """How an HTTP server is set; what is no HTTP is refused in the words of its gate."""
    config = Config(
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
    if isinstance(app, Gate):
        config.form = app.form
    return config


class Listener(uvicorn.Server):
    """A server that leaves the signals to the program, and bounds handshakes of TLS as it does requests."""

    def __init__(self, config: Config, tls: Certificate | None = None) -> None:
        super().__init__(config)
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

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none."""
        yield


class Bounded(H11Protocol, LittleAtOnce):
    """A connection that is closed when it says nothing for long; when there are too many, the one that has waited
    longest makes room, so that silent ones keep nobody out."""

    config: Config
    late: asyncio.TimerHandle | None = None
    waits_since: float | None = None
    """Since when the client has said nothing that could be served; None while it is served."""
    _counted = False
    _upgraded = False
    _broken = False
    _first = b""

    def connection_made(self, transport: Any) -> None:
        """A client has come."""
        if len(self.connections) >= most_connections(self.config.doors) and not self._make_room():
            transport.abort()
            return
        self._counted = True
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """A client says something."""
        if self._broken:
            return
        if self.conn.their_state is h11.IDLE:
            self._first = (self._first + data)[:MAX_SHOWN]
        super().data_received(data)
        self._watch()
        if self._serves():
            self.flow.pause_reading()  # until the body is asked for, which that of a stranger is not

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The connection becomes a WebSocket, which looks after itself."""
        self._upgraded = True
        self._forget()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has gone."""
        if self.late is not None:
            self.late.cancel()
        if self._counted:
            super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP: said as the door it seems to be for words it, and nothing else is read."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        self._broken = True
        refused = Refused(400, "This is no HTTP/1.1 request.")
        scope: Any = self.scope if self._serves() else scope_of(self._first)
        body = json.dumps(self.config.form(scope, refused)).encode()
        named = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        headers = [(name.encode(), value.encode()) for name, value in (named | refused.headers).items()]
        answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        if self.transport.can_write_eof():
            self.transport.write_eof()  # cut off in the middle of a word, the client would not read it
        else:
            self.transport.close()

    def _make_room(self) -> bool:
        """Close the connection that has waited longest; False when all are being served."""
        waiting = [
            (since, number, one)
            for number, one in enumerate(self.connections)
            if (since := getattr(one, "waits_since", None)) is not None
        ]
        if not waiting:
            return False
        oldest: Any = min(waiting)[2]
        oldest.transport.abort()
        self.connections.discard(oldest)
        return True

    def _watch(self) -> None:
        """Begin to wait for a whole request, or stop waiting because there is one."""
        served = self._upgraded or self._serves()
        if served:
            self._first = b""
            self._forget()
        elif self.late is None:
            self.waits_since = self.loop.time()
            self.late = self.loop.call_later(HEAD_S, self.hurry)

    def _forget(self) -> None:
        if self.late is not None:
            self.late.cancel()
        self.late = self.waits_since = None

    def hurry(self) -> None:
        """Close the connection, unless it is being served."""
        self._forget()
        if not self._serves():
            self.transport.abort()

    def _serves(self) -> bool:
        """Whether a request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete


def scope_of(line: bytes) -> Scope:
    """As much of a request as its first line says, if it is one."""
    method, _, rest = line.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    shown = path.decode("latin-1")
    return {
        "type": "http",
        "method": method.decode("latin-1"),
        "path": shown,
        "raw_path": path,
        "headers": [],
    }


def most_connections(doors: int = 1) -> int:
    """As many connections as one of several doors may have and leave descriptors enough for the others and for the work."""
    return share_of_files(MAX_CONNECTIONS, doors)


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
