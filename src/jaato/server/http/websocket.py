"""A WebSocket of uvicorn's that finished frames can be written to at once, with no task and no queue between.

An application finds it in its scope, as the extension `jaato.wire`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request
from websockets.protocol import State

from jaato.server.http.connection import LittleAtOnce

EXTENSION = "jaato.wire"
MOST_PENDING_BYTES = 4 << 20
"""What a client may leave unread before it is heard no further."""
MOST_UNKNOWN_BYTES = 65_536
"""What a client may say before it is let in: the head of its request, and a greeting that is too long, to be told so."""
MOST_PARTS = 10_000
"""Parts a message may come in."""
CLOSING_S = 10.0
"""How long a client may take to read the rest once its connection is over."""

BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class FramedSocket(WebSocketsSansIOProtocol, LittleAtOnce):
    """The server's end of one connection. `drained` is called when it takes more again."""

    full = False
    drained: Callable[[], None] | None = None
    _ending: asyncio.TimerHandle | None = None
    _unknown_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        super().connection_made(transport)
        self.waits_since = self.loop.time()  # until it has said who it is

    def data_received(self, data: bytes) -> None:
        """A client says something. An opening that is none, by rules HTTP does not have, ends its connection."""
        if self.waits_since is not None and not self.close_sent:
            self._unknown_bytes += len(data)
            if self._unknown_bytes > MOST_UNKNOWN_BYTES:
                self.transport.abort()
                return
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.transport.is_closing():
            self.transport.write(BAD_REQUEST)
            self.transport.close()
            self._end()

    def handle_connect(self, event: Request) -> None:
        """The handshake: the application is handed the wire."""
        super().handle_connect(event)
        if hasattr(self, "scope"):
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[EXTENSION] = self

    def handle_cont(self, event: Frame) -> None:
        """The next part of a message; parts that bring nothing would count for nothing else."""
        if len(self.frames) >= MOST_PARTS:
            self.conn.fail(1009, "too many parts")
            self.handle_parser_exception()
            self._end()
            return
        super().handle_cont(event)

    def handle_ping(self) -> None:
        """Answer; a client that does not read is owed no more answers."""
        if self.full:
            self.conn.data_to_send()
        else:
            super().handle_ping()

    async def send(self, message: Any) -> None:
        """What the application says; a refusal is an answer, and nothing is missing after it."""
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True

    def let_in(self, message_bytes: int) -> None:
        """The client is known: take messages up to this size from now on; a longer one ends the connection."""
        self.conn.max_message_size = message_bytes
        self.waits_since = None

    def pause_writing(self) -> None:
        """The client does not read what it was sent."""
        self.full = True
        super().pause_writing()

    def resume_writing(self) -> None:
        """It does again."""
        self.full = False
        super().resume_writing()
        if self.drained is not None:
            self.drained()

    async def room(self) -> None:
        """Wait while the client leaves too much unread."""
        if self.transport.get_write_buffer_size() > MOST_PENDING_BYTES:
            await self.writable.wait()

    def keepalive_timeout(self) -> None:
        """The client does not answer."""
        super().keepalive_timeout()
        self._end()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """The application is done with it."""
        super().on_task_complete(task)
        self._end()

    def _end(self) -> None:
        if self._ending is None and not self.disconnected:
            self._ending = self.loop.call_later(CLOSING_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self.drained = None
        self.waits_since = None
        if self._ending is not None:
            self._ending.cancel()
        self.connections.add(self)  # it may have made room for another
        super().connection_lost(exc)

    @property
    def ready(self) -> bool:
        """Whether the client takes more now."""
        return not self.full and self.handshake_complete and self.conn.state is State.OPEN

    def write(self, frame: bytes) -> None:
        """Send a finished frame; after the end of the connection nothing."""
        if self.conn.state is State.OPEN and not self.transport.is_closing():
            self.transport.write(frame)
