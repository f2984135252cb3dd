"""One HTTP client for every dialect: sends a request, streams the reply's events within bounds and timeouts, lists models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

import anyio
import msgspec
from msgspec import Struct

from jaato.abc.provider import Chunk, ModelRequest, Provider, Reply
from jaato.errors import (
    AuthenticationError,
    ConfigError,
    JaatoError,
    MalformedReply,
    ModelNotFound,
    ProviderError,
)
from jaato.protocol.specs import ModelInfo
from jaato.providers import errors
from jaato.providers.dialect import Decoder, Dialect
from jaato.providers.sse import MAX_EVENT_BYTES, SseParser, is_event_stream
from jaato.tools.network.addresses import AddressRefused, parse_url
from jaato.tools.network.proxy_settings import (
    KEPT,
    login_of,
    open_pool,
    proxy_for,
    redact_url,
    split_url,
    validate_header_value,
)

if TYPE_CHECKING:
    import httpcore2


T = TypeVar("T")
MAX_BODY_BYTES = 32 * 1024 * 1024
CODINGS = ("identity", "gzip", "deflate")
DRAIN_S = 0.05
CLOSE_S = 2.0


def headers_of(response: httpcore2.Response) -> dict[str, str]:
    """The headers of an answer by their names in lower case; repeated ones are joined."""
    headers: dict[str, str] = {}
    for field, value in response.headers:
        name, text = field.decode("latin-1").lower(), value.decode("utf-8", "replace")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


def encoding_of(response: httpcore2.Response) -> list[str]:
    """The content codings of an answer, in lower case."""
    return headers_of(response).get("content-encoding", "").lower().replace(",", " ").split()


def read_parts(response: httpcore2.Response, place: str) -> AsyncGenerator[bytes, None]:
    """The body as it comes, decompressed."""
    raw = response.aiter_stream()
    return decompress(response, raw, place) if encoding_of(response) not in ([], ["identity"]) else raw


async def decompress(
    response: httpcore2.Response, raw: AsyncGenerator[bytes, None], place: str
) -> AsyncGenerator[bytes, None]:
    """The parts of a compressed body, each of bounded size; raises `MalformedReply` for what is no such body."""
    import httpx2  # only here: streams of models are not compressed

    coded = httpx2.Response(response.status, headers=response.headers, content=raw)
    body = coded.aiter_bytes()
    async with aclosing(raw), aclosing(body):
        try:
            async for data in body:
                yield data
        except httpx2.DecodingError as error:
            reason = errors.clip(str(error).rstrip("."))
            raise MalformedReply(f"{place} sent a body that cannot be decompressed: {reason}.") from None


async def read_body(response: httpcore2.Response, place: str) -> bytes:
    """The whole body, decompressed; raises `MalformedReply` beyond `MAX_BODY_BYTES`."""
    body = bytearray()
    parts = read_parts(response, place)
    async with aclosing(parts):
        async for data in parts:
            body += data
            if len(body) > MAX_BODY_BYTES:
                raise MalformedReply(
                    f"{place} sent a body of more than {MAX_BODY_BYTES:,} bytes; no model answers so."
                )
    return bytes(body)


async def read_beginning(response: httpcore2.Response, limit_bytes: int) -> bytes:
    """The beginning of a body, decompressed; what cannot be read is left out: it only explains an error."""
    body = bytearray()
    parts = read_parts(response, "")
    async with aclosing(parts):
        try:
            async for data in parts:
                body += data
                if len(body) > limit_bytes:
                    break
        except errors.transport_errors():
            pass
    return bytes(body[:limit_bytes])


async def drain(raw: AsyncGenerator[bytes, None]) -> None:
    """Read what is left of an ended answer, if it comes at once, so that the connection can be used again."""
    with anyio.move_on_after(DRAIN_S):
        try:
            async for _ in raw:
                pass
        except errors.transport_errors():
            pass  # the answer is complete; only the reuse of the connection is lost


async def close_response(response: httpcore2.Response) -> None:
    """Let go of a response even while the task is being cancelled."""
    with anyio.move_on_after(CLOSE_S, shield=True):
        await response.aclose()


PATIENCE_S = 3.0
MAX_NAMED, MAX_NAME_CHARS = 5, 100


async def list_offered_models(provider: Provider) -> list[str]:
    """The names of the models that a provider offers; empty without a list in time."""
    with anyio.move_on_after(PATIENCE_S):
        try:
            return [info.id for info in await provider.models()]
        except (ProviderError, ConfigError):
            pass  # that no others are known is no error of its own
    return []


async def suggest_models(provider: Provider, model: str) -> str:
    """A sentence that names up to three offered models like this one, else some that are offered; empty without a list."""
    from difflib import get_close_matches

    names = [name for name in await list_offered_models(provider) if name != model]
    if near := get_close_matches(model, names, n=3, cutoff=0.5):
        return f"Did you mean {' or '.join(near)}?"
    return f"It offers {join_names(names)}; choose one with --model or /model." if names else ""


def join_names(names: Sequence[str]) -> str:
    """The first of some models' names."""
    more = ", …" if len(names) > MAX_NAMED else ""
    return ", ".join(name[:MAX_NAME_CHARS] for name in names[:MAX_NAMED]) + more


Key = str | Callable[[], Awaitable[str]] | None
"""A key, or what gives a fresh one each time (a token that expires), or None where none is needed."""

MAX_ERROR_BYTES = 64 * 1024
MAX_REPLY_BYTES = 8 * MAX_EVENT_BYTES
MAX_PAGES = 50
STREAM_TYPES = ("text/event-stream", "text/plain", "application/octet-stream", "")
"""Content types under which servers send a stream of events; the last ones by servers that do not care."""


class Timeouts(Struct, frozen=True):
    """Seconds to wait: for a connection, for the first sign of an answer, and between two pieces of it."""

    connect_s: float = 15.0
    first_byte_s: float = 600.0
    idle_s: float = 300.0

    def __str__(self) -> str:
        return f"connect {self.connect_s:g} s, first byte {self.first_byte_s:g} s, idle {self.idle_s:g} s"


TIMEOUTS = Timeouts()


class ModelListing(Struct, frozen=True):
    """Where a provider lists its models: a path below the base URL, or from the root of its host.

    `read` turns one answer into models and the path of the next page, if there is one; it may raise msgspec's
    `DecodeError` for an answer of another shape.
    """

    path: str
    read: Callable[[bytes], tuple[list[ModelInfo], str | None]]
    from_root: bool = False


class LimitQuery(Struct, frozen=True):
    """Where a server describes one model, from the root of its host: `{"model": NAME}` is posted there. `read` gives the
    limit of its context."""

    path: str
    read: Callable[[bytes], int | None]


class HttpProvider:
    """A provider of one dialect at one host. Nothing is sent before it is used, and nothing is retried.

    A decoder is fed every event (of a plain JSON answer the whole body, as one event named ""); the `Reply`
    that its `feed` or `end` gives ends the stream. `describe` says what is known of a model.
    """

    def __init__(
        self,
        name: str,
        dialect: Dialect,
        *,
        base_url: str,
        describe: Callable[[str], ModelInfo],
        key: Key = None,
        listing: ModelListing | None = None,
        limit: LimitQuery | None = None,
        environ: Mapping[str, str] | None = None,
        timeouts: Timeouts = TIMEOUTS,
        headers: Mapping[str, str] | None = None,
        remedy: str = "",
    ) -> None:
        self.name = name
        self.dialect = dialect
        parts = split_url(base_url, f"The base URL of {name}")
        self._root = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._base = self._root + parts.path.rstrip("/")
        self._query = parts.query
        self.base_url = redact_url(base_url)
        self._key = validate_header_value(key, f"The key for {name}") if isinstance(key, str) else key
        self._describe = describe
        self._listing = listing
        self._limit = limit
        self._limits: dict[str, int | None] = {}
        self._environ = environ or {}
        self._timeouts = timeouts
        self._headers = {
            field: validate_header_value(value, f"The header {field}")
            for field, value in (headers or {}).items()
        } | login_of(parts)
        self._remedy = remedy
        self._proxy = proxy_for(self._base, self._environ)
        self._pool: httpcore2.AsyncConnectionPool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"HttpProvider({self.name!r}, {self.dialect.name!r}, {self.base_url!r})"

    def model_info(self, model: str) -> ModelInfo:
        """What is known of a model without a request."""
        return self._describe(model)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """The model's answer, chunk by chunk, and the `Reply` last; raises `ProviderError`s."""
        key = response = None
        try:
            body = self.dialect.encode(request)
            key = await self._fresh_key()
            headers = {
                "Accept": "text/event-stream, application/json",
                "Accept-Encoding": "identity",
                "Content-Type": "application/json",
                **self.dialect.headers(key),
            }
            decoder = self.dialect.decoder(request)
            response = await self._send("POST", self._url(self.dialect.path(request)), headers, body)
            await self._accept(response)
            chunks = self._chunks(response, decoder)
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk
        except errors.transport_errors() as error:
            typed = self._make_typed(error, key)
            if isinstance(typed, ModelNotFound) and request.model in str(typed):
                typed.args = (
                    " ".join(
                        [errors.end_sentence(str(typed)), await suggest_models(self, request.model)]
                    ).strip(),
                )
            raise typed from None
        finally:
            if response is not None:
                await close_response(response)

    async def models(self) -> list[ModelInfo]:
        """The models the provider offers to this key, all pages; raises `ProviderError`s."""
        found: list[ModelInfo] = []
        listing = self._listing
        path = listing.path if listing is not None else None
        for _ in range(MAX_PAGES):
            if path is None or listing is None:
                break
            page, path = await self._fetch("GET", self._url(path, listing.from_root), None, listing.read)
            found += page
        return found

    async def fetch_context_limit(self, model: str) -> int | None:
        """How many tokens fit into a model's context, as its server says, which is asked once; raises `ProviderError`s."""
        if model in self._limits:
            return self._limits[model]
        limit, query = None, self._limit
        try:
            if query is not None:
                body = msgspec.json.encode({"model": model})
                limit = await self._fetch("POST", self._url(query.path, from_root=True), body, query.read)
            else:
                known = [info.context_limit for info in await self.models() if info.id == model]
                limit = known[0] if known else None
        except ProviderError:
            self._limits[model] = None
            raise
        self._limits[model] = limit
        return limit

    async def _fetch(self, method: str, url: str, body: bytes | None, read: Callable[[bytes], T]) -> T:
        """What `read` makes of a plain JSON answer; raises `ProviderError`s."""
        key = await self._fresh_key()
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip", **self.dialect.headers(key)}
        if body is not None:
            headers["Content-Type"] = "application/json"
        response = None
        try:
            response = await self._send(method, url, headers, body)
            await self._accept(response)
            return read(await read_body(response, self.base_url))
        except errors.transport_errors() as error:
            raise self._make_typed(error, key) from None
        finally:
            if response is not None:
                await close_response(response)

    async def aclose(self) -> None:
        """Close every connection; the provider may be used again afterwards."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    async def _fresh_key(self) -> str | None:
        key = await self._key() if callable(self._key) else self._key
        return None if key is None else validate_header_value(key, f"The key for {self.name}")

    def _url(self, path: str, from_root: bool = False) -> str:
        if not path.startswith("/"):
            raise ConfigError(
                f"The dialect {self.dialect.name} asked for the path {path!r}; it must begin with a slash."
            )
        url = (self._root if from_root else self._base) + path
        return url if not self._query else f"{url}{'&' if '?' in path else '?'}{self._query}"

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> httpcore2.Response:
        """Send a request and wait for the headers of its answer."""
        from jaato.tools.network.pinned_connect import request_to  # with the first request

        times = self._timeouts
        waits: dict[str, float | None] = {
            "connect": times.connect_s,
            "pool": times.connect_s,
            "write": times.idle_s,
            "read": times.first_byte_s,
        }
        try:
            place = parse_url(url)
        except AddressRefused as error:
            raise ConfigError(f"The base URL of {self.name} cannot be used: {error}") from None
        given = {"User-Agent": "jaato", **self._headers, **headers}
        if body is not None:
            given["Content-Length"] = str(len(body))
        fields = {name.lower(): value for name, value in given.items()}  # the later of two spellings counts
        response = await self._open().handle_async_request(
            request_to(place, method, fields.items(), body, waits)
        )
        waits["read"] = times.idle_s  # the connection looks at it again when the body is read
        return response

    def _open(self) -> httpcore2.AsyncConnectionPool:
        """The connections of the running event loop."""
        loop = asyncio.get_running_loop()
        if self._pool is None or self._loop is not loop:
            self._pool = open_pool(self._base, self._proxy, self._environ, KEPT)
            self._loop = loop
        return self._pool

    async def _accept(self, response: httpcore2.Response) -> None:
        """Return for a success; raise the typed error for anything else."""
        status = response.status
        coding = " ".join([coding for coding in encoding_of(response) if coding not in CODINGS])
        if 200 <= status < 300 and coding:
            raise errors.not_a_stream(
                self.base_url, f"answered in the content coding {coding!r:.200}", self.name
            )
        if 200 <= status < 300:
            return
        headers = headers_of(response)
        if 300 <= status < 400:
            raise errors.redirect_error(
                self.base_url, status, redact_url(headers.get("location", "")), self.name
            )
        body = b"" if coding else await read_beginning(response, MAX_ERROR_BYTES)
        error = errors.status_error(self.dialect.provider, status, headers, body)
        error.status = status
        if error.retry_after_s is None and error.retryable:
            error.retry_after_s = errors.retry_after_s(headers)
        raise errors.add_wait(error)

    async def _chunks(self, response: httpcore2.Response, decoder: Decoder) -> AsyncGenerator[Chunk, None]:
        """What the decoder makes of a successful answer, until its `Reply`."""
        content_type = headers_of(response).get("content-type", "").partition(";")[0].strip().lower()
        if content_type == "application/json":
            body = await read_body(response, self.base_url)
            for chunk in (*decoder.feed("", body), *decoder.end()):
                yield chunk
            return
        answered = f"answered with {content_type or 'no content type'}"
        if content_type not in STREAM_TYPES:
            body = await read_beginning(response, MAX_ERROR_BYTES)
            raise errors.not_a_stream(self.base_url, answered, self.name, body)
        parser = SseParser(MAX_EVENT_BYTES)
        size = events = 0
        start = b""
        raw = read_parts(response, self.base_url)
        async with aclosing(raw):
            async for data in raw:
                size += len(data)
                if size > MAX_REPLY_BYTES:
                    raise MalformedReply(
                        f"{self.base_url} streamed more than {MAX_REPLY_BYTES:,} bytes in one answer."
                    )
                if not events and len(start) < 200:
                    start += data[:200]
                for name, payload in parser.feed(data):
                    events += 1
                    chunks = decoder.feed(name, payload)
                    for chunk in chunks:
                        yield chunk
                    if chunks and type(chunks[-1]) is Reply:
                        await drain(raw)
                        return
                if not events and size > MAX_EVENT_BYTES:
                    raise errors.not_a_stream(self.base_url, "sent no stream of events", self.name, start)
        if start and not events and content_type != "text/event-stream":
            raise errors.not_a_stream(self.base_url, answered, self.name, start)
        if not events and not is_event_stream(start):
            raise errors.not_a_stream(self.base_url, "sent no stream of events", self.name, start)
        for chunk in decoder.end():
            yield chunk

    def _make_typed(self, error: Exception, key: str | None) -> Exception:
        """Any exception as what the caller may see: typed, naming the provider, without the key."""
        if isinstance(error, (msgspec.DecodeError, UnicodeDecodeError, RecursionError)):
            error = MalformedReply(f"{self.base_url} answered in a form that is not understood: {error}.")
        elif not isinstance(error, JaatoError):
            proxy = None if self._proxy is None else redact_url(self._proxy)
            error = errors.transport_error(error, self.base_url, self.name, proxy, str(self._timeouts))
        if isinstance(error, ProviderError):
            error.provider = error.provider or self.name
            text = str(error)
            if self._remedy and isinstance(error, AuthenticationError):
                text = f"{errors.end_sentence(text)} {self._remedy}"
            error.args = (errors.redact_key(key, text),)
        return error
