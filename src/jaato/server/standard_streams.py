"""The standard streams of a process as a wire for lines of JSON, which carry a protocol alone: what prints writes to stderr."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread

MAX_MESSAGE_BYTES = 16_000_000
CHUNK_BYTES = 65_536
DIRECT_BYTES = 4_096
"""As much as a pipe that takes anything takes at once."""
GONE = (errno.EPIPE, errno.ECONNRESET, errno.EBADF)


def own_streams() -> tuple[int, int]:
    """Descriptors of the real stdin and stdout; for everybody else stdin is empty from now on, and stdout is stderr.

    For good: what is printed without being flushed is written when the process ends.
    """
    wire_in = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    wire_out = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return wire_in, wire_out


class LineStreams:
    """Lines of bounded length in both directions."""

    def __init__(self, wire_in: int, wire_out: int) -> None:
        self._in = wire_in
        self._out = wire_out
        self.writing = anyio.Lock()
        self._unfinished: asyncio.Task[bool] | None = None
        """A line that is being written by a thread, which ends it even where its caller was cancelled."""
        self._waiting = anyio.CancelScope()
        self._gone = False

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Each line; None for one that is too long, of which nothing is kept."""
        parts: list[bytes] = []
        size = 0
        while chunk := await self._read():
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                size += len(piece)
                yield b"".join([*parts, piece]) if size <= MAX_MESSAGE_BYTES else None
                parts, size = [], 0
            size += len(rest)
            if size > MAX_MESSAGE_BYTES:
                parts = []
            else:
                parts.append(rest)
        if parts and size <= MAX_MESSAGE_BYTES:
            yield b"".join(parts)

    async def _read(self) -> bytes:
        while not self._gone:
            with anyio.CancelScope() as self._waiting:
                try:
                    await anyio.wait_readable(self._in)
                except PermissionError:
                    pass  # a file, which is always readable
                try:
                    return os.read(self._in, CHUNK_BYTES)
                except BlockingIOError:
                    continue
                except OSError:
                    break
        return b""

    async def write_line(self, text: str) -> bool:
        """Write a line, which ends with a newline; False when the client reads no more, after which nothing is read."""
        async with self.writing:
            if self._unfinished is not None:
                await asyncio.wait([self._unfinished])  # so that no line begins within another
            if await self._write(text.encode()):
                return True
            self.stop()
            return False

    async def _write(self, data: bytes) -> bool:
        """Write all of it; False when the client reads no more. A slow client delays itself only."""
        if len(data) <= DIRECT_BYTES and takes(self._out):
            return write_all(self._out, data)
        writing = anyio.to_thread.run_sync(write_all, self._out, data, abandon_on_cancel=True)
        self._unfinished = asyncio.ensure_future(writing)
        written = await asyncio.shield(self._unfinished)
        self._unfinished = None
        return written

    def stop(self) -> None:
        """Read nothing more."""
        self._gone = True
        self._waiting.cancel()


def takes(descriptor: int) -> bool:
    """Whether a small write would not wait."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(events & select.POLLOUT for _, events in poll.poll(0))


def write_all(descriptor: int, data: bytes) -> bool:
    """Write all of it, waiting as long as that takes; False when the client reads no more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError as error:
            if error.errno in GONE:
                return False
            raise
    return True
