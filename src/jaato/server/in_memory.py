"""A hub in this process, and a connection to it that needs no socket."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from jaato.client.blocking import Transport
from jaato.errors import ConfigError, JaatoError, ServerGone
from jaato.protocol.frames import Role
from jaato.runtime.secrets import session_secrets
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.session_store import open_store
from jaato.server.auth.identity import Admission, Identity
from jaato.server.sessions.client_connection import ClientConnection
from jaato.server.sessions.hub import Hub
from jaato.server.sessions.maintenance import maintain_sessions

MAX_UNREAD_BYTES = 4 << 20
"""What a client may leave unread before its events wait in the room, as behind a WebSocket."""
HEAD_BYTES = {126: 4, 127: 10}
"""The length of a frame's head, by its second byte (RFC 6455, section 5.2); 2 for all others."""


class MemorySocket:
    """The server's end of a connection in memory."""

    on_drain: Callable[[], None] | None = None

    def __init__(self) -> None:
        self.commands: deque[str] = deque()
        self.frames: deque[bytes] = deque()
        self.client_acted = asyncio.Event()
        """Set when the client has sent a frame, read frames, or the connection has ended."""
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

    async def receive_text(self) -> str | None:
        """The next frame, None at the end."""
        while not self.commands:
            if self.ended:
                return None
            await self._wait_for_client()
        return self.commands.popleft()

    async def wait_writable(self) -> None:
        """Wait while the client leaves too much unread."""
        while not self.ready and not self.ended:
            await self._wait_for_client()

    async def _wait_for_client(self) -> None:
        """Wait until the client sends, reads, or ends the connection."""
        self.client_acted.clear()
        await self.client_acted.wait()

    def accept_client(self, max_message_bytes: int) -> None:
        """The client is this program: its frames are as long as its memory allows."""

    async def disconnect(self, code: int, reason: str) -> None:
        """End the connection."""
        self.end(reason or str(code))

    def end(self, reason: str) -> None:
        """End the connection, from either end."""
        self.ended = self.ended or reason
        self.client_acted.set()
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
        self._socket.client_acted.set()

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
            socket.client_acted.set()
            if socket.on_drain is not None:
                socket.on_drain()
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
            await stack.enter_async_context(maintain_sessions(hub))
        yield await stack.enter_async_context(connect_in_memory(hub, Admission(Identity(role), local=True)))


@asynccontextmanager
async def connect_in_memory(hub: Hub, admission: Admission) -> AsyncIterator[MemoryTransport]:
    """A client's end of a connection to a hub of this process, served while the body runs."""
    socket = MemorySocket()
    serving = asyncio.create_task(ClientConnection(hub, socket, admission).serve())
    serving.add_done_callback(lambda _: socket.end("the server has failed"))
    try:
        yield MemoryTransport(socket)
    finally:
        socket.end("the client has left")
        await serving


class LoopTransport:
    """Drives an asynchronous transport from blocking code, on an event loop that runs only while the caller waits.

    What else is on that loop, such as a server in the same process, stands still otherwise. Everything happens on one thread,
    which has no other running loop.
    """

    in_process = False

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Transport]]) -> None:
        self._opened = opened
        self._runner = asyncio.Runner()
        self._frames: deque[bytes] = deque()
        self._readable: set[int] = set()
        self._watched: set[int] = set()
        self._failure: BaseException | None = None

    def open(self) -> None:
        """Open the transport. Raises what that raises."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ConfigError(
                "A blocking client cannot wait inside a running event loop; use `connect` there."
            )
        self._loop = self._runner.get_loop()
        self._closing = asyncio.Event()
        self._transport: Transport | None = None
        self._host = self._loop.create_task(self._serve())
        self._host.add_done_callback(lambda _: self._loop.stop())
        self._loop.run_forever()
        if self._host.done():
            try:
                self._host.result()
            finally:
                self._runner.close()

    async def _serve(self) -> None:
        """Hold the transport open, in a task of its own: task groups are left where they were entered."""
        async with self._opened() as transport:
            self._transport, self.in_process = transport, transport.in_process
            self._loop.stop()
            reading = self._loop.create_task(self._read(transport))
            await self._closing.wait()
            reading.cancel()
            await transport.close()

    async def _read(self, transport: Transport) -> None:
        try:
            while True:
                self._frames.append(await transport.receive())
                self._loop.stop()
        except JaatoError as error:
            self._failure = error
            self._loop.stop()

    def send(self, message: bytes, /) -> None:
        """Send one whole frame. Raises `ServerGone`."""
        assert self._transport is not None
        self._transport.send(message)

    def wait(
        self, timeout_s: float | None, descriptors: Collection[int] = ()
    ) -> tuple[list[bytes], Collection[int]]:
        """The frames that have come and those of the descriptors that can be read; waits, at most so long, when there are
        none. Raises `ServerGone` at the end of the connection."""
        self._watch(descriptors)
        if not self._frames and self._failure is None:
            timer = None if timeout_s is None else self._loop.call_later(timeout_s, self._loop.stop)
            self._loop.run_forever()
            if timer is not None:
                timer.cancel()
        frames, readable = list(self._frames), self._readable & set(descriptors)
        self._frames.clear()
        self._readable.clear()
        if self._failure is not None and not frames and not readable:
            raise self._failure
        return frames, readable

    def _watch(self, descriptors: Collection[int]) -> None:
        wanted = set(descriptors)
        for descriptor in self._watched - wanted:
            self._loop.remove_reader(descriptor)
        for descriptor in wanted - self._watched:
            self._loop.add_reader(descriptor, self._can_read, descriptor)
        self._watched = wanted

    def _can_read(self, descriptor: int) -> None:
        self._readable.add(descriptor)
        self._loop.stop()

    def close(self) -> None:
        """End the connection, and all that is on the loop."""
        if self._transport is None:
            return
        self._transport = None
        self._watch(())
        self._closing.set()
        try:
            while not self._host.done():
                self._loop.run_forever()
            self._host.result()
        finally:
            self._runner.close()
