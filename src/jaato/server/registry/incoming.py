"""Requests out of the bytes of a connection: heads and bodies within their bounds, and no byte that others read otherwise."""

from __future__ import annotations

import re
from typing import Any, Protocol

import httptools

from jaato.server.registry.framing import NO_HTTP, fault_of
from jaato.server.registry.request import Headers, Request

MAX_HEAD_BYTES = 32_768
MAX_HEADERS = 100
EXCESS = 16
"""How many bytes of framing there may be for each of a body, beyond as many as a head has: chunks have lengths."""
UNKNOWN = re.compile(rb"(?:\r\n)*([!#-'*+.^-`|~0-9A-Za-z-]{1,32}) /")
"""Where a request begins whose method the parser has never heard of; it is a token (RFC 9110, 5.6.2)."""
STAND_IN = b"PATCH"
TOO_LONG = f"The head of a request has at most {MAX_HEAD_BYTES:,} bytes and {MAX_HEADERS} headers."


class Told(Protocol):
    """Who is told of requests."""

    def begun(self) -> None:
        """A request begins."""
        ...

    def asked(self, request: Request) -> None:
        """Its head is there; its body may follow."""
        ...

    def said(self, request: Request, body: bytes, closes: bool) -> None:
        """It is whole; `closes`: it is the last."""
        ...

    def wrong(self, code: str, words: str, request: Request | None) -> None:
        """What came is not to be read on; the request as far as it is known."""
        ...


class Incoming:
    """The parser of one connection. `request` is the one whose body is being read; `begun` while its head is."""

    def __init__(self, told: Told, max_body_bytes: int) -> None:
        self._told = told
        self._max_body_bytes = max_body_bytes
        self._parser: Any = httptools.HttpRequestParser(self)
        self._url, self._headers, self._body = b"", Headers(), list[bytes]()
        self._trailing_bytes = self._raw_bytes = self._since_bytes = self._size = self._requests = 0
        self._closes = self._upgrades = self._resumed = self._large = False
        self._method = b""
        self.request: Request | None = None
        self.begun = False
        self.over = False
        """Nothing else is read."""

    @property
    def size(self) -> int:
        """How much of the body is there."""
        return self._size

    def feed(self, data: bytes) -> None:
        """Take what has come. Raises what the one who is told raises."""
        before = self._requests
        size = len(data)
        self._large = self._since_bytes + size > MAX_HEAD_BYTES
        alone = fresh = not self.begun and self.request is None
        while data and not self.over:
            try:
                self._parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                if not self.over:
                    self._resume()
            except httptools.HttpParserCallbackError as error:
                self.over = True
                raise (error.__context__ or error) from None
            except httptools.HttpParserInvalidMethodError:
                named = UNKNOWN.match(data) if fresh and self._requests <= before + 1 else None
                fresh = False
                if named is None:
                    self._wrong(NO_HTTP)
                else:
                    data = self._renamed(named, data)
            except httptools.HttpParserError:
                self._wrong(NO_HTTP)
        if self._requests != before:
            self._since_bytes = 0
            if self._requests > before + 1 or not (alone and self.begun):
                self._since_bytes = size
                return  # where in this piece the last of them began is not said
        self._since_bytes += size
        if (self.begun or self.request is not None) and not self.over:
            self._raw_bytes += len(data)
            if self._raw_bytes - self._size > MAX_HEAD_BYTES + EXCESS * self._size:
                self._wrong(TOO_LONG if self.request is None else NO_HTTP, "request.head_too_large")

    @property
    def _head_bytes(self) -> int:
        """How large the head is so far; not worth counting before so much has come that it may be too large."""
        return len(self._url) + sum([len(name) + len(value) + 4 for name, value in self._headers])

    def _wrong(self, words: str, code: str = "request.invalid_http") -> None:
        if self.over:
            return
        self.over = True
        known = self.request
        if known is None and self.begun and self._url:
            path = self._url.partition(b"?")[0]
            known = Request(self._parser.get_method(), path, self._headers)
        self._told.wrong(code, words, known)

    def _renamed(self, named: re.Match[bytes], data: bytes) -> bytes:
        """The same request by a method that the parser knows and nobody here answers; `request` has its own."""
        self._parser = httptools.HttpRequestParser(self)
        self._method = named[1]
        return STAND_IN + data[named.end(1) :]

    def _resume(self) -> None:
        """Go on after a request for another protocol, which is answered as if it had not said so (RFC 9110, 7.8).

        Its body still belongs to it: the parser, which takes it for the other protocol, is told of it again.
        """
        self._parser = httptools.HttpRequestParser(self)
        headers = self._headers
        framing = [line for line in headers if line[0] in (b"content-length", b"transfer-encoding")]
        self._upgrades, self._resumed = False, True
        lines = b"".join(b"%b: %b\r\n" % line for line in framing)
        self._parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % lines)

    # --- what the parser says ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        if self._resumed:
            return
        self._url, self._headers, self._body = b"", [], []
        self._trailing_bytes = self._raw_bytes = self._size = 0
        self._requests += 1
        self.begun = True
        if not self.over:
            self._told.begun()

    def on_url(self, url: bytes) -> None:
        """Its target, or a piece of it."""
        if self._resumed:
            return
        self._url += url
        if self._large and self._head_bytes > MAX_HEAD_BYTES:
            self._wrong(TOO_LONG, "request.head_too_large")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers; one that comes after the body counts, and is none (RFC 9110, 6.5.1)."""
        if self.request is None and not self._resumed:
            headers = self._headers
            headers.append((name.lower(), value))
            if len(headers) > MAX_HEADERS or (self._large and self._head_bytes > MAX_HEAD_BYTES):
                self._wrong(TOO_LONG, "request.head_too_large")
        elif not self._resumed:
            self._trailing_bytes += len(name) + len(value) + 4
            if self._trailing_bytes > MAX_HEAD_BYTES:
                self._wrong(TOO_LONG, "request.head_too_large")

    def on_headers_complete(self) -> None:
        """Its head is there."""
        if self._resumed or self.over:
            self._resumed = False
            return
        self.begun = False
        self._raw_bytes = 0
        parser = self._parser
        self._closes = not parser.should_keep_alive()
        self._upgrades = parser.should_upgrade()
        path, _, query = self._url.partition(b"?")
        method, self._method = self._method or parser.get_method(), b""
        self.request = request = Request(method, path, self._headers, query)
        version = parser.get_http_version()
        request.old = version == "1.0"
        if words := fault_of(request, version):
            self._wrong(words)
        else:
            self._told.asked(request)

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""
        self._size += len(body)
        if self.over:
            return
        if self._size > self._max_body_bytes:
            self._wrong("", "request.too_large")
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """It is whole."""
        request = self.request
        if self.over or request is None or self._upgrades:
            return
        self.request = None
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body = []
        self._told.said(request, body, self._closes)
