"""The WebSocket of the asynchronous client."""

from __future__ import annotations

import asyncio

from jaato.client.address import (
    CONNECT_S,
    PATH,
    Address,
    Disconnected,
    check_owner,
    no_answer,
    no_server,
    tls_of,
)
from jaato.client.websocket import (
    CLOSE,
    READ_BYTES,
    TEXT,
    Closed,
    Frames,
    Handshake,
    frame,
    refusal_error,
)
from jaato.errors import ConnectionFault, JaatoError

MAX_UNREAD_BYTES = 1 << 20
"""What a server may leave unread and still be owed answers to its pings."""


class WebSocketTransport:
    """A WebSocket to a server elsewhere."""

    in_process = False

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rest: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = Frames()
        self._messages = self._frames.take(rest)

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
            raise no_answer(address) from None
        except OSError as error:
            raise no_server(address, error) from None

    def send(self, message: bytes) -> None:
        """Send one whole frame; never waits. Raises `ServerGone` once the connection is lost."""
        if self._writer.is_closing():
            raise Disconnected("The connection to the server was lost.")
        self._writer.write(frame(TEXT, message))

    async def receive(self) -> bytes:
        """The next whole frame. Raises `JaatoError` at the end of the connection."""
        while not self._messages:
            try:
                data = await self._reader.read(READ_BYTES)
            except OSError as error:
                raise Disconnected(f"The connection to the server was lost: {error.strerror}.") from None
            if not data:
                raise Disconnected("The server has ended the connection.")
            self._messages = self._frames.take(data)
            for due in self._frames.due:
                if self._writer.transport.get_write_buffer_size() < MAX_UNREAD_BYTES:
                    self._writer.write(due)
            self._frames.due.clear()
        message = self._messages.pop(0)
        if isinstance(message, Closed):
            raise refusal_error(message)
        return message

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
