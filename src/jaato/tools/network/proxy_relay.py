"""One request of the proxy: parse its head without ambiguity, connect to the checked host, relay bytes with back pressure."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httptools

from jaato.tools.network.addresses import AddressRefused, Url, parse_authority, parse_url
from jaato.tools.network.pinned_connect import CONNECT_WITHIN_S, CheckedResolver
from jaato.tools.network.proxy_settings import certificates, login_of, proxy_for

MAX_HEAD_BYTES = 32_768
MAX_HEADERS = 100
MISREAD = re.compile(rb"\x00|\r(?!\n)|(?<!\r)\n|\n[ \t]")
"""NUL, a line that ends in half a line end, a header that continues in the next line: programs differ in what they mean."""
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
        """The head as it is passed on: for this target alone, on a connection of its own."""
        assert self.url is not None
        named = {word.strip().lower() for value in self.values(b"connection") for word in value.split(b",")}
        dropped = (HOP_BY_HOP | named) - {b"content-length", b"transfer-encoding"}
        lines = [f"{self.method} {target} HTTP/1.1", f"Host: {self.url.authority}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in more.items()]
        kept = [name + b": " + value for name, value in self.headers if name.lower() not in dropped]
        return b"\r\n".join((*(line.encode("ascii") for line in lines), *kept, b"", b""))


class HeadReader:
    """Collects what the parser reports of one head."""

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
        raise RequestRefused(400, "An https URL must be requested with CONNECT.")
    return Head(method, url.host, url.port, url, read.headers)


class Body:
    """The body of a request, cut as the parser cuts it: nothing that follows it is passed to the server."""

    def __init__(self, head: bytes) -> None:
        self.whole = False
        self._chunked = False
        self._out: list[bytes] = []
        self._parser: Any = httptools.HttpRequestParser(self)
        self._feed(head)

    def feed(self, data: bytes) -> bytes:
        """Return what to forward to the server. Raises `RequestRefused` for an invalid body."""
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


BUFFER_BYTES = 1 << 16
EACH_WITHIN_S = 3.0


class UpstreamRefused(OSError):
    """The user's own proxy does not connect to the host."""


class Upstream(NamedTuple):
    """A connection; `headers` are for the user's own proxy where the request itself is sent to it, None where it is the host's."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    headers: dict[str, str] | None = None


async def open_upstream(
    url: Url, *, tunnel: bool, dialer: CheckedResolver, environ: Mapping[str, str]
) -> Upstream:
    """A connection for this URL, of which a tunnel uses host and port alone.

    Raises `AddressRefused` for an address that is closed, `ConfigError` for a wrong proxy variable, TimeoutError and
    OSError.
    """
    proxy = proxy_for(str(url), environ)
    async with asyncio.timeout(CONNECT_WITHIN_S):
        if proxy is None:
            return Upstream(*await connect_pinned(url.host, url.port, dialer))
        await dialer.check_proxied(url)
        parts = urlsplit(proxy)
        tls = certificates(environ) if parts.scheme == "https" else None
        reader, writer = await asyncio.open_connection(
            parts.hostname, parts.port or (443 if tls else 80), ssl=tls, limit=BUFFER_BYTES
        )
        login = {"Proxy-" + name: value for name, value in login_of(parts).items()}
        if not tunnel:
            return Upstream(reader, writer, login)
        try:
            await connect_through(reader, writer, url, login)
        except BaseException:
            writer.transport.abort()
            raise
        return Upstream(reader, writer)


async def connect_pinned(
    host: str, port: int, dialer: CheckedResolver
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first checked address of a canonical host that answers; never to its name."""
    addresses = await dialer.addresses(host, port)
    failure: OSError = OSError(f"{host} has no address")
    for address in addresses:
        each = CONNECT_WITHIN_S if len(addresses) == 1 else EACH_WITHIN_S
        try:
            async with asyncio.timeout(each):
                return await asyncio.open_connection(str(address), port, limit=BUFFER_BYTES)
        except OSError as error:  # TimeoutError is one
            failure = error
    raise failure


async def connect_through(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: Url, login: dict[str, str]
) -> None:
    """Ask the user's own proxy for a tunnel. Raises `UpstreamRefused`."""
    target = f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *(f"{name}: {login[name]}" for name in login)]
    writer.write("\r\n".join((*lines, "", "")).encode("ascii"))
    await writer.drain()
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise UpstreamRefused("the proxy of the environment gave no answer") from None
    status = head.split(b"\r\n", 1)[0].split(None, 2)
    if len(status) < 2 or not status[0].startswith(b"HTTP/1.") or not status[1].startswith(b"2"):
        shown = b" ".join(status).decode("latin-1", "replace")[:80]
        raise UpstreamRefused(f"the proxy of the environment answered {shown!r}")


READ_BYTES = 1 << 16
IDLE_S = 300.0
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
CLOSING_HEADERS = (b"connection:", b"keep-alive:", b"proxy-connection:")


class Relay:
    """One client and one server; both are closed when neither has sent or received anything for `IDLE_S`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: Upstream
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._upstream = upstream
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(IDLE_S, self._close_if_idle)

    async def tunnel(self) -> None:
        """Relay until both directions have ended."""
        self._writer.write(ESTABLISHED)
        await run_both_ways(
            self._pump(self._reader, self._upstream.writer),
            self._pump(self._upstream.reader, self._writer),
        )
        await flush_both(self._writer, self._upstream.writer)

    async def request(self, head: Head) -> None:
        """Send the request on and its answer back. Raises `RequestRefused` for a body that is none."""
        assert head.url is not None
        through = self._upstream.headers
        target = head.url.target if through is None else str(head.url)
        lines = head.to_server(target, through or {})
        body = Body(lines)
        self._upstream.writer.write(lines)
        sending = asyncio.create_task(self._send(body))
        try:
            await self._answer(sending)
            await flush_both(self._writer)
        finally:
            sending.cancel()
            await asyncio.wait([sending])

    def close(self) -> None:
        """Close the connection to the server."""
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
                if sending.done() and isinstance(failure := sending.exception(), RequestRefused):
                    raise failure from None
                raise RequestRefused(
                    502, "The server closed the connection without an HTTP answer."
                ) from None
            first, *lines = head[:-4].split(b"\r\n")
            status = first.partition(b" ")[2]
            kept = [line for line in lines if not line.lower().startswith(CLOSING_HEADERS)]
            last = [] if status.startswith(b"1") else [b"Connection: close"]
            self._writer.write(b"\r\n".join((first, *kept, *last, b"", b"")))
            await self._writer.drain()
        await self._pump(self._upstream.reader, self._writer)

    def _close_if_idle(self) -> None:
        """Close idle connections."""
        left = self._last + IDLE_S - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._close_if_idle)
            return
        self._writer.transport.abort()
        self._upstream.writer.transport.abort()


async def run_both_ways(first: Coroutine[Any, Any, None], second: Coroutine[Any, Any, None]) -> None:
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


async def flush_both(*writers: asyncio.StreamWriter) -> None:
    """Close, and wait until what was written has gone out."""
    for writer in writers:
        try:
            writer.close()
            await writer.wait_closed()
        except OSError:
            continue
