"""A WebSocket of uvicorn's that finished frames can be written to at once, with no task and no queue between.

An application finds it in its scope, as the extension `jaato.wire`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request
from websockets.protocol import State

EXTENSION = "jaato.wire"


class FramedSocket(WebSocketsSansIOProtocol):
    """The server's end of one connection. `drained` is called when it takes more again."""

    full = False
    drained: Callable[[], None] | None = None

    def handle_connect(self, event: Request) -> None:
        """The handshake: the application is handed the wire."""
        super().handle_connect(event)
        if hasattr(self, "scope"):
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[EXTENSION] = self

    def allow(self, message_bytes: int) -> None:
        """Take messages up to this size from now on; a longer one ends the connection."""
        self.conn.max_message_size = message_bytes

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

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self.drained = None
        super().connection_lost(exc)

    @property
    def ready(self) -> bool:
        """Whether the client takes more now."""
        return not self.full and self.handshake_complete and self.conn.state is State.OPEN

    def write(self, frame: bytes) -> None:
        """Send a finished frame; after the end of the connection nothing."""
        if self.conn.state is State.OPEN and not self.transport.is_closing():
            self.transport.write(frame)
