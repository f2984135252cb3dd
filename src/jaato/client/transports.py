"""What carries protocol frames between a client and its server, and how a blocking client drives it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from jaato.client.address import CONNECT_S, PATH, Address, check_owner, no_server, tls_of
from jaato.client.blocking import refused
from jaato.client.websocket import CLOSE, TEXT, Closed, Frames, Handshake, frame
from jaato.errors import ConfigError, ConnectionFault, JaatoError, ServerGone

READ_BYTES = 1 << 18
MAX_UNREAD_BYTES = 1 << 20
"""What a server may leave unread and still be owed answers to its pings."""


class Transport(Protocol):
    """Carries protocol frames between one client and one server."""

    in_process: bool
    """Whether the server ends with this program."""

    def send(self, message: bytes, /) -> None:
        """Send one whole frame; never waits. Raises `ServerGone`."""
        ...

    async def receive(self) -> bytes:
        """The next whole frame. Raises `ServerGone` at the end of the connection."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...

    def drop(self) -> None:
        """Let go of a connection that is lost."""
        ...


class WebSocketTransport:
    """A WebSocket to a server elsewhere."""

    in_process = False

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rest: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = Frames()
        self._told = self._frames.take(rest)

    @classmethod
    async def open(cls, address: Address) -> WebSocketTransport:
        """Connect, and change to the WebSocket protocol. Raises `ServerGone`, or what the server refuses with."""
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await streams(address)
                try:
                    opening = Handshake(address.name, PATH, address.headers, address.token_from)
                    writer.write(opening.request)
                    while (rest := opening.take(await reader.read(READ_BYTES))) is None:
                        pass
                    return cls(reader, writer, rest)
                except BaseException:
                    writer.transport.abort()
                    raise
        except TimeoutError:
            raise ServerGone(f"The server at {address} does not answer.") from None
        except OSError as error:
            raise no_server(address, error) from None

    def send(self, message: bytes) -> None:
        """Send one whole frame; never waits. Raises `ServerGone` once the connection is lost."""
        if self._writer.is_closing():
            raise ServerGone("The connection to the server was lost.")
        self._writer.write(frame(TEXT, message))

    async def receive(self) -> bytes:
        """The next whole frame. Raises `JaatoError` at the end of the connection."""
        while not self._told:
            try:
                data = await self._reader.read(READ_BYTES)
            except OSError as error:
                raise ServerGone(f"The connection to the server was lost: {error.strerror}.") from None
            if not data:
                raise ServerGone("The server has ended the connection.")
            self._told = self._frames.take(data)
            for due in self._frames.due:
                if self._writer.transport.get_write_buffer_size() < MAX_UNREAD_BYTES:
                    self._writer.write(due)
            self._frames.due.clear()
        told = self._told.pop(0)
        if isinstance(told, Closed):
            raise refused(told)
        return told

    def drop(self) -> None:
        """Let go of a connection that is lost."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """End the connection."""
        try:
            self._writer.write(frame(CLOSE, (1000).to_bytes(2, "big")))
            self._writer.close()
            await self._writer.wait_closed()
        except (OSError, JaatoError):
            pass  # it has ended before


async def streams(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The two ends of a connection."""
    if address.path is not None:
        reader, writer = await asyncio.open_unix_connection(address.path)
        try:
            check_owner(writer.get_extra_info("socket"), address)
        except ConnectionFault:
            writer.close()
            raise
        return reader, writer
    context = tls_of(address) if address.secure else None
    return await asyncio.open_connection(address.host, address.port, ssl=context)


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
