"""Connections of the doors: how many there may be, and how long one may say nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from jaato.server.gate import Form, problem
from jaato.server.reading import LittleAtOnce
from jaato.server.share import most_connections

HEAD_S = 15.0
"""How long a connection may take to say what it wants."""


class Config(uvicorn.Config):
    """How an HTTP server is set. `doors`: how many servers on the network share the connections there may be; `form`: how
    a refusal is worded."""

    doors = 1
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

    def connection_made(self, transport: Any) -> None:
        """A client has come."""
        if len(self.connections) >= most_connections(self.config.doors) and not self._make_room():
            transport.abort()
            return
        self._counted = True
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has gone."""
        if self.late is not None:
            self.late.cancel()
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
