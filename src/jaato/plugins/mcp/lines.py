"""What a server prints, as the SDK's stream of messages: bounded messages, bounded floods, no task of its own."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from jaato.plugins.mcp.ends import ReadEnd
from jaato.plugins.mcp.journal import ServerLog
from jaato.plugins.mcp.wire import Unreadable, decode, error_for, is_id, message_of

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

MAX_MESSAGE_BYTES = 32 << 20
READ_BYTES = 1 << 18
BYTES_A_SECOND = 32 << 20
"""How fast a server is read; a faster one has to wait."""
JUNK_BYTES = 64 << 20
"""How much that is no message a server may print before it is given up."""
UNASKED_A_SECOND = 400
"""Notifications and requests of the server that are heeded; answers always are."""
WAITING = 256
"""Messages that wait before the pipe is left alone."""
PARSE_ERROR = -32700


class Waiter(Protocol):
    """Somebody who waits for an answer beside the SDK; called on the loop that reads."""

    def told(self, message: Any) -> None:
        """The answer, an error among them."""
        ...

    def progress(self, params: dict[str, Any]) -> None:
        """How far the server is."""
        ...

    def lost(self) -> None:
        """No answer will come."""
        ...


class Incoming(ReadEnd):
    """What a server says, message by message. Runs on the loop it is begun on, in callbacks."""

    last_context = None

    def __init__(self, fd: int, log: ServerLog) -> None:
        self._fd = fd
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._held = bytearray()
        self._scanned = 0
        self._skipping = False
        self._ready: deque[SessionMessage] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._reading = self._ended = self._discards = False
        self._resume: asyncio.TimerHandle | None = None
        self._allowance = float(BYTES_A_SECOND)
        self._heeded = float(UNASKED_A_SECOND)
        self._at = time.monotonic()
        self._junk = 0
        self._since_pause = 0
        self.over = asyncio.Event()
        self.asked: dict[Any, Waiter | None] = {}
        """The ids of requests that wait for their answers; who waits, where it is not the SDK."""

    @property
    def ended(self) -> bool:
        """Whether the server will say no more."""
        return self._ended

    def begin(self) -> None:
        """Read from now on."""
        if not self._reading and not self._ended and self._fd >= 0:
            self._loop.add_reader(self._fd, self._read)
            self._reading = True

    def pause(self, seconds: float | None = None) -> None:
        """Leave the pipe alone, for a time or until `begin`."""
        if self._reading:
            self._loop.remove_reader(self._fd)
            self._reading = False
        if seconds is not None and self._resume is None:
            self._resume = self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._resume = None
        self.begin()

    def discard(self) -> None:
        """Take what comes and forget it: a server that writes can then hear that it should end."""
        self._discards = True
        self._held.clear()
        self._ready.clear()
        self._lose()
        self.begin()

    def stop(self) -> None:
        """Read no more."""
        self.pause()
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        self._fd = -1
        self.end()

    def end(self) -> None:
        """Nothing more will come; what the pipe still holds is taken."""
        if self._fd >= 0 and not self._ended:
            for _ in range(64):
                if not self._read():
                    break
        self._close()

    def _close(self) -> None:
        self.pause()
        self._ended = True
        self.over.set()
        self._wake()
        self._lose()

    def _lose(self) -> None:
        """Tell those who wait beside the SDK that nothing will come."""
        for waiter in list(self.asked.values()):
            if waiter is not None:
                waiter.lost()
        self.asked.clear()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _read(self) -> bool:
        """Take some; whether there may be more."""
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close()
            return False
        now = time.monotonic()
        self._allowance = min(BYTES_A_SECOND, self._allowance + (now - self._at) * BYTES_A_SECOND) - len(data)
        self._heeded = min(UNASKED_A_SECOND, self._heeded + (now - self._at) * UNASKED_A_SECOND)
        self._at = now
        if self._allowance < 0:
            self.pause(0.1)
        if not self._discards:
            self._take(data)
        return True

    def _take(self, data: bytes) -> None:
        self._held += data
        while (end := self._held.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._held[:end])
            del self._held[: end + 1]
            self._scanned = 0
            if self._skipping:
                self._skipping = False
            elif line.strip():
                self._line(line)
        self._scanned = len(self._held)
        if self._skipping or len(self._held) > MAX_MESSAGE_BYTES:
            if not self._skipping:
                self._broken(f"sent a message of more than {MAX_MESSAGE_BYTES >> 20} MB", len(self._held))
            self._skipping = True
            self._held.clear()
            self._scanned = 0
        if len(self._ready) > WAITING:
            self.pause()

    def _line(self, line: bytes) -> None:
        if not line.lstrip().startswith((b"{", b"[")):
            self._log.note("printed what is no message to its standard output")
            self._is_junk(len(line))
            return
        try:
            value = decode(line)
        except Unreadable as error:
            self._broken(f"sent {error}", len(line))
            return
        try:
            message = message_of(value)
        except Unreadable as error:
            id_ = value.get("id")
            self._broken(f"sent {error}", len(line), id_ if is_id(id_) else None)
            return
        self._deliver(message, len(line))

    def _deliver(self, message: Any, size: int) -> None:
        if hasattr(message, "method"):
            self._heeded -= 1
            if self._heeded < 0:
                self._log.note(
                    f"sent more than {UNASKED_A_SECOND} notifications a second, which were dropped"
                )
                return
            waiter = self._waiter_of(message)
            if waiter is not None:
                waiter.progress(message.params)
            else:
                self._push(message)
            return
        if isinstance(message.id, str) and message.id.isdecimal() and int(message.id[:18]) in self.asked:
            message.id = int(message.id)  # some servers answer with the number as text
        if message.id not in self.asked:
            self._log.note("answered a request that was not made, or was given up")
            self._is_junk(size)
            return
        self._junk = 0
        self._answer(message)

    def _waiter_of(self, message: Any) -> Waiter | None:
        """Who is told of this progress, where it is not the SDK."""
        if message.method != "notifications/progress":
            return None
        token = (getattr(message, "params", None) or {}).get("progressToken")
        return self.asked.get(token) if is_id(token) else None

    def _answer(self, message: Any) -> None:
        waiter = self.asked.pop(message.id)
        if waiter is None:
            self._push(message)
        else:
            waiter.told(message)

    def _push(self, message: Any) -> None:
        from mcp.shared.message import SessionMessage

        self._ready.append(SessionMessage(message))
        self._wake()

    def _broken(self, what: str, size: int, id_: Any = ...) -> None:
        """A message that cannot be read. It is the answer to its id; one without any, where only one request waits."""
        self._log.note(what)
        if id_ is ... and len(self.asked) == 1:
            (id_,) = self.asked
        if id_ in self.asked:
            self._answer(error_for(id_, PARSE_ERROR, f"The server {what}."))
        self._is_junk(size)

    def _is_junk(self, size: int) -> None:
        self._junk += size
        if self._junk > JUNK_BYTES:
            self._log.note(f"printed {JUNK_BYTES >> 20} MB that are no messages and was given up")
            self._close()

    async def receive(self) -> SessionMessage:
        """The next message. Raises `anyio.EndOfStream`."""
        self._since_pause += 1
        if self._since_pause >= 32:
            self._since_pause = 0
            await asyncio.sleep(0)
        while not self._ready:
            if self._ended:
                raise anyio.EndOfStream
            self._since_pause = 0
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message = self._ready.popleft()
        if not self._reading and self._resume is None and len(self._ready) <= WAITING // 2:
            self.begin()
        return message

    async def aclose(self) -> None:
        """The SDK listens no more."""
        self.discard()
