"""Bytes between the two ends of a connection: both ways, no faster than either end reads, each direction ended on its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from jaato.tools.network.head import Body, Head, Refused
from jaato.tools.network.upstream import Upstream

READ_BYTES = 1 << 16
IDLE_S = 300.0
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
CLOSING_HEADERS = (b"connection:", b"keep-alive:", b"proxy-connection:")


class Relay:
    """One client and one server; both are let go of when neither has sent or taken anything for `IDLE_S`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: Upstream
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._upstream = upstream
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(IDLE_S, self._look)

    async def tunnel(self) -> None:
        """Until both directions have ended."""
        self._writer.write(ESTABLISHED)
        await both(
            self._pump(self._reader, self._upstream.writer),
            self._pump(self._upstream.reader, self._writer),
        )
        await flushed(self._writer, self._upstream.writer)

    async def request(self, head: Head) -> None:
        """Send the request on and its answer back. Raises `Refused` for a body that is none."""
        assert head.url is not None
        through = self._upstream.headers
        target = head.url.target if through is None else str(head.url)
        lines = head.to_server(target, through or {})
        body = Body(lines)
        self._upstream.writer.write(lines)
        sending = asyncio.create_task(self._send(body))
        try:
            await self._answer(sending)
            await flushed(self._writer)
        finally:
            sending.cancel()
            await asyncio.wait([sending])

    def close(self) -> None:
        """Let go of the server's end."""
        self._timer.cancel()
        self._upstream.writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction: as fast as it is read, and its end where it ends."""
        while data := await reader.read(READ_BYTES):
            self._last = self._loop.time()
            writer.write(data)
            await writer.drain()
            self._last = self._loop.time()
        if writer.can_write_eof():
            writer.write_eof()

    async def _send(self, body: Body) -> None:
        """The body of the request; the server's end is closed where it is none."""
        try:
            while not body.whole:
                data = await self._reader.read(READ_BYTES)
                if not data:
                    self._upstream.writer.transport.abort()
                    return
                self._last = self._loop.time()
                self._upstream.writer.write(body.feed(data))
                await self._upstream.writer.drain()
        except Exception:
            self._upstream.writer.transport.abort()
            raise

    async def _answer(self, sending: asyncio.Task[None]) -> None:
        """The server's answer, which says that the connection ends with it."""
        status = b"1"
        while status.startswith(b"1"):
            try:
                head = await self._upstream.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
                if sending.done() and isinstance(failure := sending.exception(), Refused):
                    raise failure from None
                raise Refused(502, "The server closed the connection without an HTTP answer.") from None
            first, *lines = head[:-4].split(b"\r\n")
            status = first.partition(b" ")[2]
            kept = [line for line in lines if not line.lower().startswith(CLOSING_HEADERS)]
            last = [] if status.startswith(b"1") else [b"Connection: close"]
            self._writer.write(b"\r\n".join((first, *kept, *last, b"", b"")))
            await self._writer.drain()
        await self._pump(self._upstream.reader, self._writer)

    def _look(self) -> None:
        """End what nothing has moved on for too long."""
        left = self._last + IDLE_S - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
            return
        self._writer.transport.abort()
        self._upstream.writer.transport.abort()


async def both(first: Coroutine[Any, Any, None], second: Coroutine[Any, Any, None]) -> None:
    """Run two directions to their ends; the failure of one ends the other."""
    tasks = [asyncio.create_task(first), asyncio.create_task(second)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and (failure := task.exception()) is not None:
            raise failure


async def flushed(*writers: asyncio.StreamWriter) -> None:
    """Close, and wait until what was written has gone out."""
    for writer in writers:
        try:
            writer.close()
            await writer.wait_closed()
        except OSError:
            continue
