"""A hub in this process, and a connection to it that needs no socket."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from jaato.errors import ServerGone
from jaato.protocol.frames import Role
from jaato.runtime.secrets import session_secrets
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.session_store import open_store
from jaato.server.auth.admission import Admission, Pass
from jaato.server.protocol.connection import Connection
from jaato.server.sessions.hub import Hub
from jaato.server.sessions.maintenance import maintained

MAX_UNREAD_BYTES = 4 << 20
"""What a client may leave unread before its events wait in the room, as behind a WebSocket."""
HEAD_BYTES = {126: 4, 127: 10}
"""The length of a frame's head, by its second byte (RFC 6455, section 5.2); 2 for all others."""


class MemorySocket:
    """The server's end of a connection in memory."""

    drained: Callable[[], None] | None = None

    def __init__(self) -> None:
        self.commands: deque[str] = deque()
        self.frames: deque[bytes] = deque()
        self.heard = asyncio.Event()
        """Set when the client has sent something, takes more again, or the connection is over."""
        self.written = asyncio.Event()
        """Set when something was sent to the client, or the connection is over."""
        self.ended = ""
        """Why the connection is over; empty while it is not."""
        self.unread_bytes = 0

    @property
    def ready(self) -> bool:
        """Whether the client takes more now."""
        return self.unread_bytes < MAX_UNREAD_BYTES

    def write(self, frame: bytes) -> None:
        """Send a finished frame: its payload, for the head means nothing here."""
        payload = frame[HEAD_BYTES.get(frame[1], 2) :]
        self.frames.append(payload)
        self.unread_bytes += len(payload)
        self.written.set()

    async def receive(self) -> str | None:
        """The next frame, None at the end."""
        while not self.commands:
            if self.ended:
                return None
            await self._change()
        return self.commands.popleft()

    async def room(self) -> None:
        """Wait while the client leaves too much unread."""
        while not self.ready and not self.ended:
            await self._change()

    async def _change(self) -> None:
        """Until the client has done something."""
        self.heard.clear()
        await self.heard.wait()

    def let_in(self, frame_bytes: int) -> None:
        """The client is this program: its frames are as long as its memory allows."""

    async def close(self, code: int, reason: str) -> None:
        """End the connection."""
        self.end(reason or str(code))

    def end(self, reason: str) -> None:
        """End the connection, from either end."""
        self.ended = self.ended or reason
        self.heard.set()
        self.written.set()


class MemoryTransport:
    """The client's end of a connection in memory."""

    in_process = True

    def __init__(self, socket: MemorySocket) -> None:
        self._socket = socket

    def send(self, frame: bytes, /) -> None:
        """Send one whole frame. Raises `ServerGone` after the end of the connection."""
        if self._socket.ended:
            raise ServerGone(f"The connection is over: {self._socket.ended}.")
        self._socket.commands.append(frame.decode())
        self._socket.heard.set()

    async def receive(self) -> bytes:
        """The next whole frame. Raises `ServerGone` after the end of the connection."""
        socket = self._socket
        while not socket.frames:
            if socket.ended:
                raise ServerGone(f"The connection is over: {socket.ended}.")
            socket.written.clear()
            await socket.written.wait()
        frame = socket.frames.popleft()
        was_full = not socket.ready
        socket.unread_bytes -= len(frame)
        if was_full and socket.ready:
            socket.heard.set()
            if socket.drained is not None:
                socket.drained()
        return frame

    async def close(self) -> None:
        """End the connection."""
        self.drop()

    def drop(self) -> None:
        """End the connection now."""
        self._socket.end("the client has left")


@asynccontextmanager
async def serve_in_memory(
    base: SessionOptions, *, role: Role = "owner", maintain: bool = False
) -> AsyncIterator[MemoryTransport]:
    """Serve one client of this process while the body runs, which is given its end of the connection. With `maintain` the
    sessions are looked after as a daemon does it. Raises `JaatoError`s when the store cannot be opened."""
    workspace = base.workspace or Path.cwd()
    settings = settings_for(base, workspace)
    state_dir = base.state_dir or settings.state_dir
    store = open_store(settings, state_dir)
    async with AsyncExitStack() as stack:
        stack.callback(store.close)
        hub = Hub(store, replace(base, state_dir=state_dir), session_secrets(settings, base))
        await stack.enter_async_context(hub.running())
        if maintain:
            await stack.enter_async_context(maintained(hub))
        socket = MemorySocket()
        connection = Connection(hub, socket, Admission(Pass(role), local=True))
        serving = asyncio.create_task(connection.serve())
        serving.add_done_callback(lambda _: socket.end("the server has failed"))
        try:
            yield MemoryTransport(socket)
        finally:
            socket.end("the client has left")
            await serving
