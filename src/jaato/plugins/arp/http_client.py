"""Requests to a registry: a pool of kept connections a loop, checked addresses, bounds of time and size, no redirects;
streamed results (server-sent events or lines of JSON) are taken apart while the call is under way."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import anyio
import msgspec

from jaato.errors import ConfigError
from jaato.plugins.arp.config import Filled
from jaato.plugins.arp.errors import CallLost, RegistryFault, RegistryUnusable
from jaato.tools.invisible_text import escape_invisible, one_line
from jaato.tools.network.addresses import AddressRefused, AllowedHosts, Url
from jaato.tools.network.pinned_connect import CONNECT_WITHIN_S, CheckedResolver, open_pool, request_to
from jaato.tools.network.proxy_settings import proxy_for

if TYPE_CHECKING:
    import httpcore2

ACCEPTED = "application/x-ndjson, text/event-stream;q=0.9, application/json;q=0.8"
MAX_SHOWN_CHARS = 1_000_000
"""What is shown of one call while it is under way; the result is none of it."""
LINE = re.compile(rb"\r\n|\n|\r")
KINDS: dict[str, Literal["sse", "ndjson"]] = {
    "text/event-stream": "sse",
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
}

OnOutput = Callable[[str], None]


class StreamEvent(msgspec.Struct):
    """One event: `output` with a text, `result` with the whole result; others are for who knows them."""

    type: str = ""
    text: str = ""
    result: msgspec.Raw = msgspec.Raw()


STREAM_EVENT: msgspec.json.Decoder[StreamEvent] = msgspec.json.Decoder(StreamEvent)


class ResultStream:
    """Takes a stream apart. `result` is the body of the answer once it is there; nothing that comes later counts."""

    def __init__(self, kind: Literal["sse", "ndjson"], on_output: OnOutput) -> None:
        self.result: bytes | None = None
        self._on_output = on_output
        self._shown = 0
        self._rest = bytearray()
        self._scanned = 0
        self._sse = kind == "sse"
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        self._rest += chunk
        while self.result is None:
            found = LINE.search(self._rest, self._scanned)
            if found is None or (found[0] == b"\r" and found.end() == len(self._rest)):
                self._scanned = max(0, len(self._rest) - 1)
                return  # it may be half of a line's end
            line = bytes(self._rest[: found.start()])
            del self._rest[: found.end()]
            self._scanned = 0
            self._field(line) if self._sse else self._object(line)

    def end(self) -> bytes:
        """The body of the answer, all bytes being there; empty where there is none."""
        if self.result is None and not self._sse:
            self._object(bytes(self._rest))  # the last line need not end
        return self.result or b""

    def _field(self, line: bytes) -> None:
        """One line of an event; an empty one ends it."""
        if line:
            name, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
            value = value.removeprefix(b" ")
            if name == b"event":
                self._name = value
            elif name == b"data":
                self._data.append(value)
            return
        name, data = self._name, b"\n".join(self._data)
        self._name, self._data = b"", []
        if name == b"result":
            self.result = data
        elif name == b"output":
            self._show(decode_event(data))

    def _object(self, line: bytes) -> None:
        event = decode_event(line)
        if event is not None and event.type == "result":
            self.result = bytes(event.result)
        elif event is not None and event.type == "output":
            self._show(event)

    def _show(self, event: StreamEvent | None) -> None:
        """Show what the tool says, as a third party's words."""
        if event is None or not event.text or self._shown >= MAX_SHOWN_CHARS:
            return
        text = event.text[: MAX_SHOWN_CHARS - self._shown]
        self._shown += len(text)
        self._on_output(escape_invisible(text))


def reader_for(content_type: str, on_output: OnOutput | None) -> ResultStream | None:
    """What takes an answer of this content type apart; None where it is no stream."""
    kind = KINDS.get(content_type.partition(";")[0].strip().lower())
    return None if kind is None or on_output is None else ResultStream(kind, on_output)


def decode_event(data: bytes) -> StreamEvent | None:
    """An event; None for what is none."""
    try:
        return STREAM_EVENT.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


IDLE_S = 15.0
"""How long a connection may lie idle: less than servers let it."""
MAX_OPEN = 64
"""Connections that are open at once; who comes later waits."""
MAX_KEPT = 8
"""Of them, those that are kept."""

Open = Callable[[], "httpcore2.AsyncConnectionPool"]


class Pool:
    """The connections of one loop. A task of that loop closes them: when they are idle, or when the loop ends."""

    def __init__(self, pool: httpcore2.AsyncConnectionPool) -> None:
        self.pool = pool
        self.loop = asyncio.get_running_loop()
        self.users = 0
        self.used = self.loop.time()
        self.task: asyncio.Task[None] | None = None

    async def idle(self) -> None:
        """Wait until they have been idle for a while."""
        while (left_s := IDLE_S if self.users else self.used + IDLE_S - self.loop.time()) > 0:  # noqa: ASYNC110 nothing waits
            await asyncio.sleep(left_s)


class Connections:
    """The pools by their loops. `open_pool` makes one; it may raise."""

    def __init__(self, open_pool: Open) -> None:
        self._open = open_pool
        self._pools: dict[int, Pool] = {}

    @asynccontextmanager
    async def use(self) -> AsyncIterator[httpcore2.AsyncConnectionPool]:
        """The pool of the running loop, in use while the context is entered."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(id(loop))
        if pool is None or pool.loop is not loop:
            pool = self._pools[id(loop)] = Pool(self._open())
            pool.task = loop.create_task(self._keep(pool), name="connections", context=Context())
        pool.users += 1
        try:
            yield pool.pool
        finally:
            pool.users -= 1
            pool.used = loop.time()

    async def _keep(self, pool: Pool) -> None:
        try:
            with suppress(asyncio.CancelledError):  # the loop ends, or the registry is no longer used
                await pool.idle()
        finally:
            if self._pools.get(id(pool.loop)) is pool:
                del self._pools[id(pool.loop)]
            with anyio.CancelScope(shield=True):
                await pool.pool.aclose()

    def close(self) -> None:
        """Close what is unused, soon; from any thread."""
        for pool in list(self._pools.values()):
            task = pool.task
            if task is not None:
                with suppress(RuntimeError):  # that loop has ended, and closed them
                    pool.loop.call_soon_threadsafe(task.cancel)


MAX_HEADER_CHARS = 500
REDIRECTS = frozenset((301, 302, 303, 307, 308))
SENDING = "http11.send_request_headers.started"
CONNECTING = "connection.connect_tcp.started"

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ArpRequest:
    """A request below a registry's address, and the bounds of its answer. A `safe` one may be made twice; what a call says
    while it is under way is given to `on_output`."""

    method: str
    path: str
    most_bytes: int
    within_s: float
    body: bytes | None = None
    headers: Headers = ()
    safe: bool = True
    on_output: OnOutput | None = None


@dataclass(frozen=True, slots=True)
class ArpResponse:
    """What a registry answered; headers by name in lower case, of several with one name the first."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        """A header that can be shown and sent again, or nothing."""
        value = self.headers.get(name, "")
        return value if value.isascii() and value.isprintable() and len(value) <= MAX_HEADER_CHARS else ""


class ResponseTooLarge(Exception):
    """An answer has more bytes than anybody wants of it."""


class RegistryHttpClient:
    """How one registry is reached, from the loop of any thread. A call that is cancelled leaves no connection behind."""

    def __init__(self, name: str, filled: Filled, allowed: AllowedHosts, environ: Mapping[str, str]) -> None:
        self.name = name
        self.base = filled.base
        self._headers = filled.headers
        self._dialer = CheckedResolver(allowed)
        self._environ = environ
        self._keeps = False
        """Whether it has answered twice on one connection: no call is sent by one that its server may just be closing."""
        self._kept = Connections(
            lambda: self._open(keepalive_expiry=IDLE_S, max_keepalive_connections=MAX_KEPT)
        )

    def _open(self, **bounds: float) -> httpcore2.AsyncConnectionPool:
        return open_pool(self.base, self._dialer, self._environ, max_connections=MAX_OPEN, **bounds)[0]

    def close(self) -> None:
        """Keep no connection any longer; from any thread."""
        self._kept.close()

    async def send(self, ask: ArpRequest) -> ArpResponse:
        """The answer to one request. Raises `RegistryFault`, where a call was sent and its answer lost `CallLost`, and
        `RegistryUnusable` for an address that may not be reached."""
        import httpcore2

        url = self.base._replace(target=self.base.target + ask.path)
        seen: set[str] = set()
        try:
            with anyio.fail_after(ask.within_s):
                return await self._send(url, ask, seen)
        except TimeoutError:
            why = f"did not answer in full within {ask.within_s:g} s"
        except ResponseTooLarge:
            why = f"sends more than {ask.most_bytes:,} bytes, of which none are used"
        except (ConfigError, AddressRefused) as error:
            raise RegistryUnusable(f"The registry {self.name!r} cannot be asked: {error}") from None
        except httpcore2.ConnectTimeout:
            why = f"did not answer within {CONNECT_WITHIN_S:g} s"
        except (httpcore2.ConnectError, httpcore2.ProxyError, httpcore2.UnsupportedProtocol) as error:
            why = f"cannot be reached ({one_line(str(error), 200) or type(error).__name__})"
        except (httpcore2.NetworkError, httpcore2.TimeoutException) as error:
            why = f"broke off the connection ({one_line(str(error), 200) or type(error).__name__})"
        except httpcore2.ProtocolError as error:
            why = f"did not keep to HTTP ({one_line(str(error), 200) or type(error).__name__})"
        text = f"The registry {self.name!r} at {self.base.authority} {why}."
        if SENDING in seen and not ask.safe:
            raise CallLost(f"{text} The call had been sent: whether it was carried out is not known.")
        raise RegistryFault(text)

    async def _send(self, url: Url, ask: ArpRequest, seen: set[str]) -> ArpResponse:
        """The answer by a connection that is kept; a safe request that one of them lost goes out once more by a new one."""
        import httpcore2

        if proxy_for(str(url), self._environ) is not None:
            await self._dialer.check_proxied(url)
        if ask.safe or self._keeps:
            try:
                async with self._kept.use() as pool:
                    answer = await self._exchange(pool, url, ask, seen)
                self._keeps = self._keeps or CONNECTING not in seen
                return answer
            except (httpcore2.NetworkError, httpcore2.RemoteProtocolError):
                if CONNECTING in seen:
                    raise
                self._keeps = False
                if not ask.safe:
                    raise
        async with self._open() as pool:
            return await self._exchange(pool, url, ask, seen)

    async def _exchange(
        self, pool: httpcore2.AsyncConnectionPool, url: Url, ask: ArpRequest, seen: set[str]
    ) -> ArpResponse:
        response = await pool.handle_async_request(self._request(url, ask, seen))
        try:
            headers = headers_of(response.headers)
            self._check(response.status, headers)
            body = await read_bounded(
                response, ask.most_bytes, reader_for(headers.get("content-type", ""), ask.on_output)
            )
            await refuse_more(response)
        finally:
            await response.aclose()
        return ArpResponse(response.status, headers, body)

    def _request(self, url: Url, ask: ArpRequest, seen: set[str]) -> httpcore2.Request:
        async def trace(event: str, _info: dict[str, Any]) -> None:
            seen.add(event)

        accepted = "application/json" if ask.on_output is None else ACCEPTED
        headers = [("User-Agent", "jaato"), ("Accept", accepted)]
        headers += [("Accept-Encoding", "identity"), *self._headers, *ask.headers]
        if ask.body is not None:
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(ask.body)))]
        request = request_to(url, ask.method, headers, ask.body)
        request.extensions["trace"] = trace
        return request

    def _check(self, status: int, headers: Mapping[str, str]) -> None:
        """Raise `RegistryFault` for an answer whose body is not worth reading."""
        if status in REDIRECTS:
            place = one_line(headers.get("location", ""), 200) or "nowhere"
            raise RegistryFault(
                f"The registry {self.name!r} redirects to {place}, which is not followed. If that is right, write it "
                "into its configuration."
            )
        if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise RegistryFault(
                f"The registry {self.name!r} sends a compressed answer, which was not asked for."
            )


async def read_bounded(response: httpcore2.Response, most_bytes: int, reader: ResultStream | None) -> bytes:
    """The body of an answer; of a stream what stands for it. Raises `ResponseTooLarge`."""
    data = bytearray()
    size = 0
    async for chunk in response.aiter_stream():
        size += len(chunk)
        if size > most_bytes:
            raise ResponseTooLarge
        if reader is None:
            data += chunk
            continue
        reader.feed(chunk)
        if reader.result is not None:
            return reader.result
    return bytes(data) if reader is None else reader.end()


async def refuse_more(response: httpcore2.Response) -> None:
    """Keep no connection on which more has come than the answer: it would be taken for that to the next request."""
    stream: Any = response.stream
    more, _ended = stream._stream._connection._h11_state.trailing_data  # noqa: SLF001 nothing else knows of it
    if more:
        await response.extensions["network_stream"].aclose()


def headers_of(pairs: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; of several with one name the first."""
    found: dict[str, str] = {}
    for key, value in pairs:
        found.setdefault(key.decode("latin-1").lower(), value.decode("latin-1"))
    return found
