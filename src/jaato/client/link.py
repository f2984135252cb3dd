"""One connection of the asynchronous client, from its greeting to its end."""

from __future__ import annotations

import asyncio
from typing import Any

from jaato.client.address import CONNECT_S, PATH, Address, check_owner, no_server, tls_of
from jaato.client.blocking import refused, understood
from jaato.client.websocket import CLOSE, TEXT, Closed, Frames, Handshake, frame
from jaato.errors import ConnectionFault, JaatoError, ServerGone
from jaato.protocol.codec import encode
from jaato.protocol.frames import PROTOCOL, Hello, Welcome

READ_BYTES = 1 << 18
MOST_UNREAD_BYTES = 1 << 20
"""What a server may leave unread and still be owed answers to its pings."""


class Link:
    """A greeted connection. `receive` gives what the server sends; `send` never waits long for a server that reads."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rest: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = Frames()
        self._told = self._frames.take(rest)
        self.welcome: Welcome

    @classmethod
    async def open(cls, address: Address, name: str) -> Link:
        """Connect and greet. Raises `ServerGone`, or what the server refuses with."""
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await streams(address)
                try:
                    opening = Handshake(address.name, PATH, address.headers, address.token_from)
                    writer.write(opening.request)
                    while (rest := opening.take(await reader.read(READ_BYTES))) is None:
                        pass
                    link = cls(reader, writer, rest)
                    link.send(Hello(PROTOCOL, client="jaato", name=name))
                    welcome = await link.receive()
                    if not isinstance(welcome, Welcome):
                        raise ServerGone("The server does not greet.")
                    link.welcome = welcome
                    return link
                except BaseException:
                    writer.transport.abort()
                    raise
        except TimeoutError:
            raise ServerGone(f"The server at {address} does not answer.") from None
        except OSError as error:
            raise no_server(address, error) from None

    def send(self, struct: Any) -> None:
        """Send a command. Raises `ServerGone` once the connection is lost."""
        if self._writer.is_closing():
            raise ServerGone("The connection to the server was lost.")
        self._writer.write(frame(TEXT, encode(struct)))

    async def receive(self) -> Any:
        """The next frame of a kind this client knows. Raises `JaatoError` at the end of the connection."""
        while True:
            while self._told:
                told = self._told.pop(0)
                if isinstance(told, Closed):
                    raise refused(told)
                if (value := understood(told)) is not None:
                    return value
            try:
                data = await self._reader.read(READ_BYTES)
            except OSError as error:
                raise ServerGone(f"The connection to the server was lost: {error.strerror}.") from None
            if not data:
                raise ServerGone("The server has ended the connection.")
            self._told = self._frames.take(data)
            for due in self._frames.due:
                if self._writer.transport.get_write_buffer_size() < MOST_UNREAD_BYTES:
                    self._writer.write(due)
            self._frames.due.clear()

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
