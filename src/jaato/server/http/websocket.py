"""WebSockets of uvicorn to which finished frames are written directly, with backpressure and limits on what they receive.

An application finds its socket in the scope, as the extension `jaato.wire`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request
from websockets.protocol import State

from jaato.server.http.connection import SmallReadProtocol

EXTENSION = "jaato.wire"
MAX_UNREAD_BYTES = 4 << 20
"""How much a client may leave unread before its commands are no longer read."""
MAX_UNAUTHENTICATED_BYTES = 65_536
"""How much a client may send before it is authenticated: the handshake, and a greeting that may be too long."""
MAX_FRAGMENTS = 10_000
CLOSE_S = 10.0
"""How long a client may take to read what is left once its connection is closed."""

BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class FramedSocket(WebSocketsSansIOProtocol, SmallReadProtocol):
    """The server's end of a WebSocket. `on_drain` is called when the client can take more again."""

    full = False
    on_drain: Callable[[], None] | None = None
    _close_timer: asyncio.TimerHandle | None = None
    _unauthenticated_bytes = 0
    _received_at = 0.0
    """When data has come last, by the clock of the loop."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection may be evicted until its client is authenticated."""
        super().connection_made(transport)
        self.idle_since = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Parse data. An invalid handshake closes the connection."""
        self._received_at = self.loop.time()
        if self.idle_since is not None and not self.close_sent:
            self._unauthenticated_bytes += len(data)
            if self._unauthenticated_bytes > MAX_UNAUTHENTICATED_BYTES:
                self.transport.abort()
                return
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.transport.is_closing():
            self.transport.write(BAD_REQUEST)
            self.transport.close()
            self._start_close_timer()

    def handle_connect(self, event: Request) -> None:
        """Start the application, with this socket in its scope."""
        super().handle_connect(event)
        if hasattr(self, "scope"):
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[EXTENSION] = self

    def handle_cont(self, event: Frame) -> None:
        """Collect a fragment of a message; their number is limited, for empty ones do not count for its size."""
        if len(self.frames) >= MAX_FRAGMENTS:
            self.conn.fail(1009, "too many fragments")
            self.handle_parser_exception()
            self._start_close_timer()
            return
        super().handle_cont(event)

    def handle_ping(self) -> None:
        """Answer a ping, unless the client does not read."""
        if self.full:
            self.conn.data_to_send()
        else:
            super().handle_ping()

    async def send(self, message: Any) -> None:
        """Send an ASGI message; after a refusal with a response, the handshake is complete."""
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True

    async def receive_text(self) -> str | None:
        """The next text message, None at the end; a binary message closes the connection. To be called until the end only."""
        message = await self.receive()
        if message["type"] != "websocket.receive":
            return None
        text: str | None = message.get("text")
        if text is None:
            await self.disconnect(1003, "text frames only")
        return text

    async def disconnect(self, code: int, reason: str) -> None:
        """Close the connection."""
        await self.send({"type": "websocket.close", "code": code, "reason": reason})

    def accept_client(self, max_message_bytes: int) -> None:
        """The client is authenticated: it is not evicted, and may send messages up to this size."""
        self.conn.max_message_size = max_message_bytes
        self.idle_since = None

    def pause_writing(self) -> None:
        """The client does not read."""
        self.full = True
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        self.full = False
        super().resume_writing()
        if self.on_drain is not None:
            self.on_drain()

    async def wait_writable(self) -> None:
        """Wait while the client leaves too much unread (backpressure)."""
        if self.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            await self.writable.wait()

    def keepalive_timeout(self) -> None:
        """The client does not answer pings. Its answer may follow a long message that comes slowly: then it has as long again."""
        if self._received_at > self.ping_sent_at and self.ping_timeout is not None:
            self.ping_sent_at = self.loop.time()
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
            return
        super().keepalive_timeout()
        self._start_close_timer()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """The application has ended."""
        super().on_task_complete(task)
        self._start_close_timer()

    def _start_close_timer(self) -> None:
        if self._close_timer is None and not self.disconnected:
            self._close_timer = self.loop.call_later(CLOSE_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self.on_drain = None
        self.idle_since = None
        if self._close_timer is not None:
            self._close_timer.cancel()
        self.connections.add(self)  # it may have been evicted from the set
        super().connection_lost(exc)

    @property
    def ready(self) -> bool:
        """Whether the client can take more now."""
        return not self.full and self.handshake_complete and self.conn.state is State.OPEN

    def write(self, frame: bytes) -> None:
        """Send a finished frame; it is discarded once the connection is closed."""
        if self.conn.state is State.OPEN and not self.transport.is_closing():
            self.transport.write(frame)
