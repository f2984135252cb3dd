"""One connection of HTTP/1.1 at the registry's own address: requests in order, each answered before the next is."""

from __future__ import annotations

import asyncio
from collections import deque
from email.utils import formatdate
from http import HTTPStatus
from time import time
from typing import Any, Protocol

import httptools

from jaato.server.asgi import Refused
from jaato.server.registry.answers import Answer, refusal
from jaato.server.registry.door import RegistryDoor, identified, turned_away
from jaato.server.registry.request import Pending, Request, Who, request_id

HEAD_S = 15.0
"""How long a request may take to say what it wants."""
BODY_S = 30.0
IDLE_S = 60.0
ENDING_S = 1.0
"""How long a call may still take whose client has ended its side of the connection."""
UNREAD_S = 30.0
"""How long a client may leave answers unread."""
MAX_HEAD_BYTES = 32_768
MAX_HEADERS = 100
MAX_WAITING = 16
"""Requests that are read while one before them is answered."""
ENTRY = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Guard(Protocol):
    """Decides who is let in, by the head of a request."""

    def admit(self, request: Request, peer: str) -> Who:
        """Whose calls these are. Raises `Refused`."""
        ...


class Clock:
    """The date as a header, made once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._line = b""

    def line(self) -> bytes:
        """The header's line."""
        now = int(time())
        if now != self._second:
            self._second = now
            self._line = f"date: {formatdate(now, usegmt=True)}\r\n".encode()
        return self._line


CLOCK = Clock()


class Line(asyncio.Protocol):
    """A client's connection. `deadline` is when it is closed for saying nothing, or for leaving answers unread."""

    def __init__(self, door: RegistryDoor, guard: Guard, lines: dict[Line, None]) -> None:
        self._door = door
        self._guard = guard
        self._lines = lines
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[Request, Who, bytes, bool]] = deque()
        self._ends = self._closes = self._unread = self._reads_body = False
        self._final: tuple[Answer, Request] | None = None
        self._url, self._headers, self._body = b"", list[tuple[bytes, bytes]](), list[bytes]()
        self._head_bytes = self._size = 0
        self._request: Request | None = None
        self._who = Who()
        self.deadline = self._loop.time() + HEAD_S

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered."""
        return self._task is None

    # --- the connection ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self._transport = transport
        self._lines[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has gone: its call is cancelled, and the log says so."""
        self._lines.pop(self, None)
        self._waiting.clear()
        self._ends = True
        if self._task is not None:
            self._task.cancel()

    def eof_received(self) -> bool:
        """The client says nothing more; it may have gone, or wait for an answer that is nearly there."""
        self._ends = self._closes = True
        self.deadline = self._loop.time() + ENDING_S
        return self._task is not None

    def pause_writing(self) -> None:
        """The client leaves too much unread: nothing more is answered until it reads."""
        self._unread = True
        self.deadline = self._loop.time() + UNREAD_S
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._unread = False
        self._rest()
        self._next()

    def late(self) -> None:
        """The deadline has passed."""
        if self._reads_body and self._task is None and self._request is not None:
            self._reads_body = False
            self._send(self._door.too_slow(self._request), self._request, closes=True)
        else:
            self._transport.abort()

    def stop(self) -> None:
        """The server ends: what is being answered is, nothing else."""
        self._waiting.clear()
        self._ends = self._closes = True
        if self._task is None:
            self._transport.close()

    def abort(self) -> None:
        """Close it now, whatever it does."""
        self._transport.abort()

    def _rest(self) -> None:
        self.deadline = self._loop.time() + IDLE_S

    # --- reading -----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """The client says something."""
        if self._ends:
            return
        if self._request is None:
            self._head_bytes += len(data)
        while data:
            try:
                self._parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]  # nothing else is spoken here: it goes on as it was
                self._parser = httptools.HttpRequestParser(self)
            except httptools.HttpParserError:
                if not self._ends:
                    self._malformed("This is no HTTP/1.1 request.")
                return
        if self._request is None and self._head_bytes > MAX_HEAD_BYTES and not self._ends:
            self._malformed(f"The head of a request has at most {MAX_HEAD_BYTES:,} bytes.")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url = b""
        self._headers = []
        self._body = []
        self._size = 0
        if self._task is None:
            self.deadline = self._loop.time() + HEAD_S

    def on_url(self, url: bytes) -> None:
        """Its target, or a piece of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers."""
        self._headers.append((name.lower(), value))
        if len(self._headers) > MAX_HEADERS:
            raise ValueError("too many headers")

    def on_headers_complete(self) -> None:
        """Its head is there: who is not let in is told so before anything else is read."""
        path, _, query = self._url.partition(b"?")
        if not path.startswith(b"/"):  # the absolute form, as proxies send it (RFC 9112, 3.2.2)
            path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
        request = self._request = Request(self._parser.get_method(), path, self._headers, query)
        self._head_bytes = 0
        if self._ends:
            return
        try:
            self._who = self._guard.admit(request, self._peer())
        except Refused as problem:
            answer = identified(turned_away(request, problem), request_id(request.header(b"x-request-id")))
            answer.headers += [(name.encode(), value.encode()) for name, value in problem.headers.items()]
            self._last(answer)
            return
        length = request.header(b"content-length")
        if length is not None and int(length) > self._door.max_body_bytes:
            self._last(self._door.too_large(request))
            return
        self._reads_body = True
        self.deadline = self._loop.time() + BODY_S
        expected = request.header(b"expect")
        if expected is not None and expected.lower() == b"100-continue" and self.idle and not self._waiting:
            self._transport.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""
        self._size += len(body)
        if self._size > self._door.max_body_bytes and not self._ends and self._request is not None:
            self._last(self._door.too_large(self._request))
        if not self._ends:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """It is whole."""
        request, self._request, self._reads_body = self._request, None, False
        if self._ends or request is None:
            return
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._waiting.append((request, self._who, body, not self._parser.should_keep_alive()))
        if self._task is None and not self._unread:
            self._next()
        elif len(self._waiting) >= MAX_WAITING:
            self._transport.pause_reading()

    def _malformed(self, words: str) -> None:
        self._last(identified(refusal("request.invalid_http", words), request_id(None)))

    def _last(self, answer: Answer) -> None:
        """Answer what is being read when it is its turn, and read nothing else."""
        self._ends = True
        self._final = (answer, self._request or Request(b"GET", b"/", []))
        self._next()

    def _peer(self) -> str:
        return str((self._transport.get_extra_info("peername") or ("",))[0])

    # --- answering ---------------------------------------------------------------------------------------------

    def _next(self) -> None:
        """Answer what waits, in order, until one takes time."""
        while self._waiting and self._task is None and not self._unread:
            request, who, body, closes = self._waiting.popleft()
            answer = self._door.at_once(request, who)
            if isinstance(answer, Pending):
                self._task = self._loop.create_task(self._work(answer, body, closes))
                return
            self._send(answer, request, closes=closes)
        if self._task is not None or self._unread or self._transport.is_closing():
            return
        if self._final is not None:
            self._send(*self._final, closes=True)
        elif self._closes:
            self._transport.close()
        else:
            self._transport.resume_reading()

    async def _work(self, pending: Pending, body: bytes, closes: bool) -> None:
        if not self._closes:
            self.deadline = float("inf")
        try:
            answer = await self._door.work(pending, body)
        finally:
            self._task = None
        self._send(answer, pending.request, closes=closes or (self._closes and not self._waiting))
        self._next()

    def _send(self, answer: Answer, request: Request, *, closes: bool) -> None:
        parts = [ENTRY[answer.status], CLOCK.line()]
        for name, value in answer.headers:
            parts += (name, b": ", value, b"\r\n")
        if answer.status != 304:
            parts.append(b"content-length: %d\r\n" % len(answer.body))
        parts.append(b"connection: close\r\n\r\n" if closes else b"\r\n")
        if request.method != b"HEAD":
            parts.append(answer.body)
        if self._transport.is_closing():
            return
        self._transport.write(b"".join(parts))
        if closes:
            self._ends = True
            self._transport.close()
        else:
            self._rest()
