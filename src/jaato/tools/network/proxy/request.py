"""Parse the head of a request to the proxy, bounded and unambiguous."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import httptools

from jaato.tools.network.addresses import AddressRefused, Url, parse_url
from jaato.tools.network.proxy.allowlist import parse_authority

MAX_HEAD_BYTES = 32_768
MAX_HEADERS = 100
MISREAD = re.compile(rb"\x00|\r(?!\n)|(?<!\r)\n|\n[ \t]")
"""NUL, a line that ends in half a line end, a header that goes on in the next line: programs differ in what they mean."""
HOP_BY_HOP = frozenset(
    b"""connection keep-alive proxy-connection proxy-authorization proxy-authenticate te trailer upgrade host
    http2-settings""".split()
)
VERSIONS = ("1.0", "1.1")


class RequestRefused(Exception):
    """A request that the proxy answers itself: the status, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(slots=True)
class Head:
    """A request: `url` is what it asks for, None for a tunnel to `host` and `port`."""

    method: str
    host: str
    port: int
    url: Url | None
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)

    def values(self, name: bytes) -> list[bytes]:
        """The values of the headers of this name, in lower case."""
        return [value for known, value in self.headers if known.lower() == name]

    def to_server(self, target: str, more: dict[str, str]) -> bytes:
        """The head as it goes on: for this target alone, on a connection of its own."""
        assert self.url is not None
        named = {word.strip().lower() for value in self.values(b"connection") for word in value.split(b",")}
        dropped = (HOP_BY_HOP | named) - {b"content-length", b"transfer-encoding"}
        lines = [f"{self.method} {target} HTTP/1.1", f"Host: {self.url.authority}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in more.items()]
        kept = [name + b": " + value for name, value in self.headers if name.lower() not in dropped]
        return b"\r\n".join((*(line.encode("ascii") for line in lines), *kept, b"", b""))


class HeadReader:
    """What the parser tells of one head."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.whole = False

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self.whole = True


def parse_head(data: bytes) -> Head:
    """The request of a head that ends with an empty line. Raises `RequestRefused`."""
    if MISREAD.search(data):
        raise RequestRefused(400, "The head of the request can be read in more than one way.")
    if data.count(b"\n") > MAX_HEADERS + 2:
        raise RequestRefused(431, f"A request has at most {MAX_HEADERS} headers.")
    read = HeadReader()
    parser: Any = httptools.HttpRequestParser(read)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError:
        raise RequestRefused(400, "This is no HTTP/1.1 request.") from None
    if not read.whole or parser.get_http_version() not in VERSIONS:
        raise RequestRefused(400, "This is no HTTP/1.1 request.")
    method = parser.get_method().decode("ascii")
    try:
        target = read.url.decode("utf-8")
        if method == "CONNECT":
            host, port = parse_authority(target)
            return Head(method, host, port, None, read.headers)
        url = parse_url(target)
    except UnicodeDecodeError:
        raise RequestRefused(400, "The target of the request is no text.") from None
    except AddressRefused as error:
        raise RequestRefused(
            400, f"{error} A proxy is asked for host:port with CONNECT, or for http://host/."
        ) from None
    if url.scheme != "http":
        raise RequestRefused(400, "A https URL is reached with CONNECT, so that nobody on the way reads it.")
    return Head(method, url.host, url.port, url, read.headers)


class Body:
    """The body of a request, cut as the parser cuts it: nothing that follows it goes on to the server."""

    def __init__(self, head: bytes) -> None:
        self.whole = False
        self._chunked = False
        self._out: list[bytes] = []
        self._parser: Any = httptools.HttpRequestParser(self)
        self._feed(head)

    def feed(self, data: bytes) -> bytes:
        """What goes on to the server for what has come. Raises `RequestRefused` for what is no body."""
        self._out = []
        self._feed(data)
        return b"".join(self._out)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note how the body is framed."""
        if name.lower() == b"transfer-encoding":
            self._chunked = True

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        if not self.whole:
            self._out.append(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    def on_message_complete(self) -> None:
        """The body is whole."""
        if not self.whole and self._chunked:
            self._out.append(b"0\r\n\r\n")
        self.whole = True

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if not self.whole:
                raise RequestRefused(400, "The body of the request is not framed as HTTP/1.1 says.") from None
