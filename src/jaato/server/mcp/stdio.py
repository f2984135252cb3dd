"""MCP over the standard streams, which carry the protocol alone: what prints writes to stderr instead."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import mcp_types as mcp
from mcp.server.stdio import stdio_server
from pydantic import ValidationError

if TYPE_CHECKING:
    from jaato.server.mcp.handlers import Handlers

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


async def serve_stdio(handlers: Handlers, wire_in: int, wire_out: int) -> None:
    """Serve the client at these descriptors until it says no more, or reads no more."""
    server = handlers.server()
    streams: Any = ClientStreams(wire_in, wire_out)
    async with stdio_server(streams, streams) as (inbox, outbox), anyio.create_task_group() as group:
        group.start_soon(handlers.changes.watch)
        await server.run(inbox, outbox, server.create_initialization_options())
        group.cancel_scope.cancel()


class ClientStreams:
    """Both streams as the SDK uses them, as its stdin and its stdout. Lines are bounded, what is no message is refused
    here, and nothing is read while the client does not read: one that only asks fills no memory."""

    def __init__(self, wire_in: int, wire_out: int) -> None:
        self._in = wire_in
        self._out = wire_out
        self._writing = anyio.Lock()
        self._waiting = anyio.CancelScope()
        self._gone = False

    async def __aiter__(self) -> AsyncIterator[str]:
        """The messages that come in, each as its line."""
        async for line in self._lines():
            if line is None:
                await self._refuse(f"The message has more than {MAX_MESSAGE_BYTES:,} bytes.")
            elif line.strip():
                try:
                    message = mcp.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError:
                    await self._refuse("This is no JSON-RPC message.")
                    continue
                if (
                    isinstance(message, mcp.JSONRPCNotification)
                    and b'"id"' in line
                    and "id" in json.loads(line)
                ):
                    await self._refuse("The id of a request is a text or a number.")
                    continue
                async with self._writing:  # a chunk may hold a thousand requests: answers go first
                    pass
                yield line.decode()

    async def _lines(self) -> AsyncIterator[bytes | None]:
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
            parts = [*parts, rest] if size <= MAX_MESSAGE_BYTES else []
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

    async def _refuse(self, text: str) -> None:
        error = {"code": mcp.PARSE_ERROR, "message": text}
        await self.write(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}) + "\n")

    async def write(self, text: str) -> None:
        """Write a line. Raises `anyio.ClosedResourceError` when the client reads no more."""
        async with self._writing:
            if not await write(self._out, text.encode()):
                self._gone = True
                self._waiting.cancel()
                raise anyio.ClosedResourceError

    async def flush(self) -> None:
        """Nothing is held back."""


async def write(descriptor: int, data: bytes) -> bool:
    """Write all of it; False when the client reads no more. A slow client delays itself only."""
    if len(data) <= DIRECT_BYTES and takes(descriptor):
        return write_all(descriptor, data)
    return await anyio.to_thread.run_sync(write_all, descriptor, data, abandon_on_cancel=True)


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
