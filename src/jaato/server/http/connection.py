"""HTTP connections of uvicorn with limits: on their number, on timeouts, on slow readers, and on bytes read at once."""

from __future__ import annotations

import asyncio
import socket
import struct
from abc import abstractmethod
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from jaato.server.auth.gate import ErrorFormat, server_error
from jaato.server.descriptor_limits import max_connections

BUFFER = memoryview(bytearray(8_192))
"""The read buffer of all connections: it is emptied before the next read."""
IDLE_BUFFER = BUFFER[:1_024]
REQUEST_S = 15.0
"""The deadline of a request's head."""
EOF_S = 1.0
"""How long a response may still take once the client has closed its sending side."""
SLOW_READ_S = 30.0
SLOW_READ_BYTES = 65_536
"""A client that reads less than this of its responses in that time is disconnected."""
UNSENT_BYTES = 65_536
"""How much the kernel takes of a response beyond what the client has room for: the rest waits here, where it is noticed."""
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: discard unsent data on close."""


def limit_unsent(connection: socket.socket | None) -> None:
    """Limit what the kernel takes of what the client has no room for, where it can."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if connection is not None and connection.family != socket.AF_UNIX and option is not None:
        connection.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)


class SmallReadProtocol(asyncio.BufferedProtocol):
    """A protocol whose `data_received` gets at most a buffer of data, and less while the connection is `idle_since` a time."""

    idle_since: float | None = None
    """Since when no request, or no authentication, is complete; None while one is served."""

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer of the next read."""
        return BUFFER if self.idle_since is None else IDLE_BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on what was read."""
        self.data_received(bytes(BUFFER[:nbytes]))

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Handle data."""


class HttpConfig(uvicorn.Config):
    """The configuration of an HTTP server: how many listeners are `sharing` the connection limit, the format of refusals,
    and a limit of `connections` that replaces the share."""

    sharing = 1
    connections: int | None = None
    error_format: ErrorFormat = staticmethod(server_error)


class LimitedProtocol(HttpToolsProtocol, SmallReadProtocol):
    """A connection with timeouts. When there are too many, the one idle for longest is evicted, so that idle connections
    cannot keep others out."""

    config: HttpConfig
    request_timer: asyncio.TimerHandle | None = None
    _counted = _upgraded = False
    _running: RequestResponseCycle | None = None
    _slow_read_timer: asyncio.TimerHandle | None = None
    _eof_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Count the connection."""
        limit = self.config.connections or max_connections(self.config.sharing)
        if len(self.connections) >= limit and not self._evict_idle():
            transport.abort()
            return
        self._counted = True
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1, low=0)  # to notice any unread data
        limit_unsent(transport.get_extra_info("socket"))
        self._watch()

    def eof_received(self) -> bool:  # type: ignore[override] # as asyncio has it
        """The client has closed its sending side; it may still wait for a response."""
        if self._is_serving() and not self._upgraded:
            self._eof_timer = self._eof_timer or self.loop.call_later(EOF_S, self.transport.abort)
        return self._eof_timer is not None

    def on_response_complete(self) -> None:
        """The connection is idle from now on, unless more requests were pipelined."""
        super().on_response_complete()
        if not self._is_serving():
            self.idle_since = self.loop.time()
            if self._eof_timer is not None:
                self.transport.close()

    def pause_writing(self) -> None:
        """The client has unread data: begin to watch for a slow reader."""
        super().pause_writing()
        self._check_reader()

    def resume_writing(self) -> None:
        """The client has read everything."""
        super().resume_writing()
        if self._slow_read_timer is not None:
            self._slow_read_timer.cancel()
            self._slow_read_timer = None

    def _check_reader(self, before_bytes: int | None = None) -> None:
        """Periodically check that the client reads; reset the connection of one that does not."""
        left_bytes = self.transport.get_write_buffer_size()
        if before_bytes is not None and left_bytes > before_bytes - SLOW_READ_BYTES:
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.transport.abort()
        else:
            self._slow_read_timer = self.loop.call_later(SLOW_READ_S, self._check_reader, left_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers, and tell the running request."""
        for timer in (self.request_timer, self._slow_read_timer, self._eof_timer):
            if timer is not None:
                timer.cancel()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True  # with pipelining it need not be uvicorn's current one
            self._running.message_event.set()
        if self._counted:
            super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _evict_idle(self) -> bool:
        """Abort the connection idle for longest; False if all are being served."""
        idle = [
            (since, number, one)
            for number, one in enumerate(self.connections)
            if (since := getattr(one, "idle_since", None)) is not None
        ]
        if not idle:
            return False
        oldest: Any = min(idle)[2]
        oldest.transport.abort()
        self.connections.discard(oldest)
        return True

    def _watch(self) -> None:
        """Start the deadline of a request, or stop it once the request is complete."""
        if self._upgraded or self._is_serving():
            self._stop_watching()
        elif self.request_timer is None:
            self.idle_since = self.loop.time()
            self.request_timer = self.loop.call_later(REQUEST_S, self.on_request_timeout)

    def _stop_watching(self) -> None:
        if self.request_timer is not None:
            self.request_timer.cancel()
        self.request_timer = self.idle_since = None

    def on_request_timeout(self) -> None:
        """Close the connection, unless a request is being served."""
        self._stop_watching()
        if not self._is_serving():
            self.transport.abort()

    def _is_serving(self) -> bool:
        """Whether a request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.disconnected
