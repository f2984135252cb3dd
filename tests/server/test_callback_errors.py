"""Errors of callbacks of the server's loop: which are logged."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from jaato.server.daemon import log_callback_error


class Writer(asyncio.Protocol):
    """Writes once more when it may, to a client that has just gone."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=0)

    def resume_writing(self) -> None:
        self.client.close()
        self.transport.write(b"more")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


def test_a_connection_that_ends_twice_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A client goes while the end of its answer is written; another error of a callback is logged."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(log_callback_error)
        ours, client = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        ours.setblocking(False)
        transport, writer = await loop.create_connection(lambda: Writer(client), sock=ours)
        while not transport.get_write_buffer_size():
            transport.write(b"x" * 1_000)
        transport.close()
        client.setblocking(False)
        while not writer.lost.done():
            with suppress(OSError):  # nothing to read, or closed
                client.recv(1_000)
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        loop.call_soon(int, "no number")
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]
