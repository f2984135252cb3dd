"""One connection of HTTP/1.1 at the registry's own address: requests in order, each answered before the next is."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from typing import Any

from jaato.server.asgi import Refused
from jaato.server.registry import patience
from jaato.server.registry.answers import Answer, Stream
from jaato.server.registry.incoming import Incoming
from jaato.server.registry.lines import Lines
from jaato.server.registry.refusals import REFUSALS
from jaato.server.registry.request import Pending, Request, Who
from jaato.server.registry.said import broken, unanswered
from jaato.server.registry.written import CONTINUE, begun, chunk, cut, written

NOTHING = Request(b"GET", b"/", [])


class Line(asyncio.BufferedProtocol):
    """A client's connection. `deadline` is when it is closed for saying nothing, or for leaving answers unread."""

    def __init__(self, lines: Lines) -> None:
        self._door, self._guard, self._lines = lines.door, lines.guard, lines
        self._loop = asyncio.get_running_loop()
        self._incoming = Incoming(self, lines.door.max_body_bytes)
        self._transport: Any = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[Request, Who, bytes, bool]] = deque()
        self._waiting_bytes = self._left_bytes = 0
        self._first = self._closes = self._ended = self._unread = self._expects = False
        self._final: tuple[Answer, Request] | None = None
        self._served = (NOTHING, True)
        self._read: asyncio.Future[None] | None = None
        self._who = Who()
        self.deadline = self._loop.time() + patience.HEAD_S

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered."""
        return self._task is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self._transport = transport
        self._lines.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has gone: its call is cancelled, and the log says so."""
        self._lines.open.pop(self, None)
        self._waiting.clear()
        self._incoming.over = self._ended = True
        if self._task is not None:
            self._task.cancel()

    def eof_received(self) -> bool:
        """The client says nothing more; it may have gone, or wait for an answer that is nearly there."""
        self._incoming.over = self._closes = True
        awaited = (self._task is not None or bool(self._waiting)) and not self._ended
        if awaited and not self._unread:
            self.deadline = self._loop.time() + patience.ENDING_S
        return awaited

    def pause_writing(self) -> None:
        """The client leaves too much unread: nothing more is answered until it reads."""
        self._unread = True
        self._left_bytes = self._transport.get_write_buffer_size()
        self.deadline = self._loop.time() + patience.UNREAD_S
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._unread = False
        if self._ended:
            self._part()
            return
        self._rest()
        if self._read is not None and not self._read.done():
            self._read.set_result(None)
        self._next()

    def late(self) -> None:
        """The deadline has passed."""
        left = self._transport.get_write_buffer_size()
        if 0 < left <= self._left_bytes - patience.UNREAD_BYTES:
            self._left_bytes = left
            self.deadline = self._loop.time() + patience.UNREAD_S
        elif self._ended or self._unread or self._closes or self._task is not None:
            cut(self._transport)
        elif self._incoming.begun or self._incoming.request is not None:
            self._last(self._door.too_slow(self._incoming.request or NOTHING), self._incoming.request)
        else:
            self._transport.abort()

    def stop(self) -> None:
        """The server ends: what is being answered is, nothing else."""
        self._waiting.clear()
        self._incoming.over = self._closes = True
        if self._task is None:
            self._transport.close()

    def cancel(self) -> None:
        """End what is being answered; the client is told so."""
        if self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        """Close it now, whatever it does."""
        self._transport.abort()

    def _rest(self) -> None:
        """Wait for the client, with the time it has for what it is at."""
        if self._task is not None and not self._closes:
            self.deadline = patience.NEVER  # it is we who take the time
            return
        allowed = (
            patience.BODY_S
            if self._incoming.request is not None
            else patience.HEAD_S
            if self._incoming.begun
            else patience.IDLE_S
        )
        self.deadline = self._loop.time() + (patience.ENDING_S if self._closes else allowed)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where what the client says goes."""
        return self._lines.place

    def buffer_updated(self, nbytes: int) -> None:
        """The client has said something."""
        self._first = True
        self._incoming.feed(bytes(self._lines.place[:nbytes]))

    def begun(self) -> None:
        """A request begins."""
        if self._task is None and not self._unread:
            self.deadline = self._loop.time() + patience.HEAD_S

    def asked(self, request: Request) -> None:
        """The head of a request is there: who is not let in is told so before anything else is read."""
        try:
            self._who = self._guard.admit(request, self._peer())
        except Refused as problem:
            answer = self._door.turn_away(request, problem)
            answer.headers += [(name.encode(), value.encode()) for name, value in problem.headers.items()]
            self._last(answer, request)
            return
        length = request.header(b"content-length")
        if length is not None and int(length) > self._door.max_body_bytes:
            self._last(self._door.too_large(request), request)
            return
        if self._task is None and not self._unread:
            self.deadline = self._loop.time() + patience.BODY_S
        expected = request.header(b"expect")
        self._expects = expected is not None and expected.lower() == b"100-continue"
        self._go_on()

    def _go_on(self) -> None:
        """Say that the body may come, where the client waits to hear it and it is its turn."""
        if self._expects and self._task is None and not self._waiting:
            self._expects = False
            if self._incoming.size == 0 and not self._ended:
                self._transport.write(CONTINUE)

    def said(self, request: Request, body: bytes, closes: bool) -> None:
        """A request is whole."""
        self._expects = False
        self._waiting.append((request, self._who, body, closes))
        self._waiting_bytes += len(body)
        if self._task is None and not self._unread:
            self._next()
        elif len(self._waiting) >= patience.MAX_WAITING or self._waiting_bytes >= self._door.max_body_bytes:
            self._transport.pause_reading()

    def wrong(self, code: str, words: str, request: Request | None) -> None:
        """What came is not to be read on."""
        if code == "request.too_large" and request is not None:
            self._last(self._door.too_large(request), request)
        else:
            self._last(broken(code, words, request), request)

    def _last(self, answer: Answer, request: Request | None) -> None:
        """Answer what is being read when it is its turn, and read nothing else."""
        self._incoming.over = True
        self._final = (answer, request or NOTHING)
        self._next()

    def _peer(self) -> str:
        return str((self._transport.get_extra_info("peername") or ("",))[0])

    def _next(self) -> None:
        """Answer what waits, in order, until one takes time."""
        while self._waiting and self._task is None and not self._unread and not self._ended:
            request, who, body, closes = self._waiting.popleft()
            self._waiting_bytes -= len(body)
            answer = self._door.at_once(request, who)
            if isinstance(answer, Pending):
                if not self._closes:
                    self.deadline = patience.NEVER
                self._served = (request, closes)
                first, self._first = self._first, False
                self._lines.eager.begin(self._work(answer, body), self._has, self._over, at_once=first)
                return
            self._send(answer, request, closes=closes)
        if self._task is not None or self._unread or self._ended or self._transport.is_closing():
            return
        if self._final is not None:
            self._send(*self._final, closes=True)
        elif self._closes:
            self._end()
        else:
            self._go_on()
            self._transport.resume_reading()

    async def _work(self, pending: Pending, body: bytes) -> None:
        answer = await self._door.work(pending, body)
        if answer.stream is None:
            self._worked(answer)
        else:
            await self._pour(answer, answer.stream)

    async def _pour(self, answer: Answer, stream: Stream) -> None:
        """Send what comes as it comes; nothing more is asked for while the client leaves it unread. What breaks off in the
        middle ends the connection."""
        request, closes = self._served[0], self._served[1] or self._served[0].old
        try:
            async with aclosing(stream) as pieces:
                self._transport.write(begun(answer, request, closes=closes))
                async for piece in pieces:
                    self._transport.write(chunk(piece, request))
                    if self._unread:
                        self._read = self._loop.create_future()
                        await self._read
            self._transport.write(chunk(b"", request))
        except BaseException:
            self._transport.abort()
            raise
        self._task = None
        self._sent(closes=closes or (self._closes and not self._waiting))
        self._next()

    def _worked(self, answer: Answer) -> None:
        self._task = None
        request, closes = self._served
        self._send(answer, request, closes=closes or (self._closes and not self._waiting))
        self._next()

    def _has(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def _over(self, task: asyncio.Task[None], problem: BaseException | None) -> None:
        """A task has ended; one that gave no answer leaves nobody waiting."""
        if self._task is task:
            self._worked(unanswered(self._served[0], problem))

    def _send(self, answer: Answer, request: Request, *, closes: bool) -> None:
        if answer.status >= 400:
            REFUSALS.note(request, answer, self._peer())
        if self._ended or self._transport.is_closing():
            return
        self._transport.write(written(answer, request, closes=closes))
        self._sent(closes=closes)

    def _sent(self, *, closes: bool) -> None:
        """An answer has been written."""
        if self._ended or self._transport.is_closing():
            return
        self._lines.used(self)
        if closes:
            self._end()
        elif not self._unread:
            self._rest()

    def _end(self) -> None:
        """Say that nothing more comes, and wait a moment for the client to end too (RFC 9112, 9.6)."""
        self._incoming.over = self._ended = True
        self._waiting.clear()
        self._part()
        if self._closes:
            self._transport.close()
        else:
            self._transport.write_eof()
            self._transport.resume_reading()

    def _part(self) -> None:
        """How long the client has to take the last it is told, and to end."""
        self._left_bytes = self._transport.get_write_buffer_size()
        self.deadline = self._loop.time() + (patience.UNREAD_S if self._left_bytes else patience.LINGER_S)
