"""MCP over the standard streams, which carry the protocol alone: what prints writes to stderr instead."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import select
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as mcp
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

if TYPE_CHECKING:
    from jaato.server.mcp.handlers import Handlers

MAX_MESSAGE_BYTES = 16_000_000
CHUNK_BYTES = 65_536
DIRECT_BYTES = 4_096
"""As much as a pipe that takes anything takes at once."""
MAX_REQUESTS = 512
"""Requests that wait for their answers; the next one is refused, so that a client that only asks fills no memory."""
ENDING_S = 1.0
GONE = (errno.EPIPE, errno.ECONNRESET, errno.EBADF)

Inbox = MemoryObjectSendStream[SessionMessage | Exception]


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
    async with streams(wire_in, wire_out) as (inbox, outbox), anyio.create_task_group() as group:
        group.start_soon(handlers.changes.tell)
        await server.run(inbox, outbox, server.create_initialization_options())
        group.cancel_scope.cancel()


@asynccontextmanager
async def streams(
    wire_in: int, wire_out: int
) -> AsyncIterator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
]:
    """The messages that come in at one descriptor, and where to put those that go out at the other."""
    inbox_end, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbox, outbox_end = anyio.create_memory_object_stream[SessionMessage](0)
    refusals = outbox.clone()
    reader = Reader(wire_in, inbox_end, refusals)
    async with anyio.create_task_group() as group:
        written = anyio.Event()

        async def write_messages() -> None:
            try:
                async with outbox_end:
                    async for message in outbox_end:
                        reader.answered(message.message)
                        if not await write(wire_out, line_of(message)):
                            break
            finally:
                inbox_end.close()  # the client reads no more: it has gone
                written.set()

        group.start_soon(write_messages)
        threading.Thread(target=reader.read_all, name="jaato-stdin", daemon=True).start()
        try:
            yield inbox, outbox
        finally:
            reader.stopped = True
            inbox.close()
            refusals.close()
            outbox.close()
            with anyio.move_on_after(ENDING_S):
                await written.wait()  # what the server has said last
            group.cancel_scope.cancel()


class Reader:
    """Reads lines in a thread of its own: what waits at a descriptor cannot be cancelled."""

    def __init__(
        self, descriptor: int, inbox: Inbox, refusals: MemoryObjectSendStream[SessionMessage]
    ) -> None:
        self.stopped = False
        self._descriptor = descriptor
        self._inbox = inbox
        self._refusals = refusals
        self._loop = asyncio.get_running_loop()
        self._asked: Counter[int | str] = Counter()
        self._counting = threading.Lock()

    def answered(self, message: mcp.JSONRPCMessage) -> None:
        """A message goes out; from the loop's thread."""
        if isinstance(message, mcp.JSONRPCResponse | mcp.JSONRPCError) and message.id is not None:
            self._forget(message.id)

    def _forget(self, id_: int | str) -> None:
        """A request waits no more."""
        with self._counting:
            self._asked[id_] -= 1
            if self._asked[id_] <= 0:
                del self._asked[id_]

    def read_all(self) -> None:
        """Hand on every message until the stream ends."""
        try:
            for line in self._lines():
                if line is None:
                    self._refuse(f"The message has more than {MAX_MESSAGE_BYTES:,} bytes.")
                elif line.strip():
                    self._take(line)
        except (OSError, RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the stream or the server has ended
        finally:
            try:
                self._loop.call_soon_threadsafe(self._inbox.close)
            except RuntimeError:
                pass  # the loop has ended; nobody waits any more

    def _lines(self) -> Iterator[bytes | None]:
        """Each line; None for one that is too long, of which nothing is kept."""
        parts: list[bytes] = []
        size = 0
        while not self.stopped and (chunk := os.read(self._descriptor, CHUNK_BYTES)):
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                size += len(piece)
                yield b"".join([*parts, piece]) if size <= MAX_MESSAGE_BYTES else None
                parts, size = [], 0
            size += len(rest)
            parts = [*parts, rest] if size <= MAX_MESSAGE_BYTES else []
        if parts and size <= MAX_MESSAGE_BYTES:
            yield b"".join(parts)

    def _take(self, line: bytes) -> None:
        try:
            message = mcp.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            self._refuse("This is no JSON-RPC message.")
            return
        if isinstance(message, mcp.JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line):
            self._refuse("The id of a request is a text or a number.")
            return
        if self._counted(message):
            self._on_loop(self._inbox.send(SessionMessage(message)))

    def _counted(self, message: mcp.JSONRPCMessage) -> bool:
        """Whether a message may go in: no request may while too many wait."""
        match message:
            case mcp.JSONRPCRequest(id=id_):
                with self._counting:
                    fits = self._asked.total() < MAX_REQUESTS
                    self._asked[id_] += fits
                if not fits:
                    self._refuse(f"{MAX_REQUESTS} requests wait for their answers; wait for some.", id_)
                return fits
            case mcp.JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": int() | str() as given}
            ):
                self._forget(given)
        return True

    def _refuse(self, text: str, id_: int | str | None = None) -> None:
        code = mcp.PARSE_ERROR if id_ is None else mcp.INVALID_REQUEST
        error = mcp.JSONRPCError(jsonrpc="2.0", id=id_, error=mcp.ErrorData(code=code, message=text))
        self._on_loop(self._refusals.send(SessionMessage(error)))

    def _on_loop(self, work: Any) -> None:
        """Wait, in this thread, until the loop has done it: a client that floods waits too."""
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except (asyncio.CancelledError, RuntimeError):
            work.close()
            raise anyio.ClosedResourceError from None


def line_of(message: SessionMessage) -> bytes:
    """A message as a line; the id of what could not be read is null, not absent."""
    data = message.message
    if isinstance(data, mcp.JSONRPCError) and data.id is None:
        return (
            json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": None,
                    "error": {"code": data.error.code, "message": data.error.message},
                }
            ).encode()
            + b"\n"
        )
    return data.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


async def write(descriptor: int, data: bytes) -> bool:
    """Write all of it; False when nobody reads any more. A client that reads slowly holds up nobody but itself."""
    if len(data) <= DIRECT_BYTES and takes(descriptor):
        return write_all(descriptor, data)
    return await anyio.to_thread.run_sync(write_all, descriptor, data, abandon_on_cancel=True)


def takes(descriptor: int) -> bool:
    """Whether a small write would not wait."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(events & select.POLLOUT for _, events in poll.poll(0))


def write_all(descriptor: int, data: bytes) -> bool:
    """Write all of it, waiting as long as that takes; False when nobody reads any more."""
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
