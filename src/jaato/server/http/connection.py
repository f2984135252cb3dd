"""HTTP connections of uvicorn, bounded: how many, how long they may take, and how much is read at once."""

from __future__ import annotations

import asyncio
import socket
import struct
from abc import abstractmethod
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from jaato.server.auth.gate import Form, problem
from jaato.server.descriptor_limits import most_connections

PLACE = memoryview(bytearray(8_192))
"""Where everybody's bytes go: they are taken out before anything else is read."""
STRANGERS = PLACE[:1_024]


class LittleAtOnce(asyncio.BufferedProtocol):
    """A protocol whose `data_received` is given no more at once than has room there; `waits_since` is None once it is
    known what the client wants, and more is worth reading."""

    waits_since: float | None = None

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return PLACE if self.waits_since is None else STRANGERS

    def buffer_updated(self, nbytes: int) -> None:
        """Some have come."""
        self.data_received(bytes(PLACE[:nbytes]))

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Take them."""


HEAD_S = 15.0
"""How long a connection may take to say what it wants."""
ENDING_S = 1.0
"""How long an answer may still take whose client has ended its side of the connection."""
UNREAD_S = 30.0
UNREAD_BYTES = 65_536
"""A client takes so much of its answers in that time, or is left."""
AT_ONCE = struct.pack("ii", 1, 0)
"""Of SO_LINGER: what is not sent yet is dropped."""


class Config(uvicorn.Config):
    """How an HTTP server is set. `doors`: how many servers on the network share the connections there may be; `form`: how
    a refusal is worded; `connections` how many there may be, where that is not the server's share."""

    doors = 1
    connections: int | None = None
    form: Form = staticmethod(problem)


class PatientProtocol(HttpToolsProtocol, LittleAtOnce):
    """A connection that is closed when it says nothing for long; when there are too many, the one that has waited
    longest makes room, so that silent ones keep nobody out."""

    config: Config
    late: asyncio.TimerHandle | None = None
    waits_since: float | None = None
    """Since when the client has said nothing that could be served; None while it is served."""
    _counted = _upgraded = False
    _running: RequestResponseCycle | None = None
    _unread: asyncio.TimerHandle | None = None
    _parting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client has come."""
        most = self.config.connections or most_connections(self.config.doors)
        if len(self.connections) >= most and not self._make_room():
            transport.abort()
            return
        self._counted = True
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1, low=0)  # to know of everything that is not read
        self._watch()

    def eof_received(self) -> bool:  # type: ignore[override] # as asyncio has it
        """The client says nothing more; it may have gone, or wait for an answer that is nearly there."""
        if self._serves() and not self._upgraded:
            self._parting = self._parting or self.loop.call_later(ENDING_S, self.transport.abort)
        return self._parting is not None

    def on_response_complete(self) -> None:
        """An answer is written; who says nothing then waits, and makes room for others."""
        super().on_response_complete()
        if not self._serves():
            self.waits_since = self.loop.time()
            if self._parting is not None:
                self.transport.close()

    def pause_writing(self) -> None:
        """The client leaves something unread."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """It has read everything."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _wait_for_reader(self, before_bytes: int | None = None) -> None:
        """Look again after a while whether the client takes what it is sent; close the connection of one that does not, and
        have the system keep nothing for it either."""
        left_bytes = self.transport.get_write_buffer_size()
        if before_bytes is not None and left_bytes > before_bytes - UNREAD_BYTES:
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            self.transport.abort()
        else:
            self._unread = self.loop.call_later(UNREAD_S, self._wait_for_reader, left_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has gone."""
        for timer in (self.late, self._unread, self._parting):
            if timer is not None:
                timer.cancel()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True  # it need not be the last that was read
            self._running.message_event.set()
        if self._counted:
            super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

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
        if self._upgraded or self._serves():
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
        return cycle is not None and not cycle.response_complete and not cycle.disconnected
