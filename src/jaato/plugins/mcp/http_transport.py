"""A server behind a URL: the SDK's HTTP transports over requests that are bounded, paced and sent to checked addresses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from ipaddress import IPv6Address, ip_address
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from jaato.errors import JaatoError
from jaato.plugins.mcp.config import McpServerOptions, ServerConfig
from jaato.plugins.mcp.errors import SessionForgotten
from jaato.plugins.mcp.oauth.options import plain
from jaato.plugins.mcp.session import RateLimiter
from jaato.tools.network import proxy_settings
from jaato.tools.network.addresses import METADATA, Address, AllowedHosts, Url, parse_url
from jaato.tools.network.pinned_connect import CheckedResolver, open_pool
from jaato.tools.network.proxy_settings import KEPT, is_loopback, proxy_for

CONNECT_S = 30.0
WRITE_S = 60.0
NOT_THERE = (404, 405)
NO_SESSION = -32000
"""What servers built on the usual examples answer, with status 400, when they do not know a session."""
MAX_BODY_BYTES = 32 << 20
STREAM_BURST_BYTES = 64 << 20
STREAM_BYTES_A_SECOND = 4 << 20
"""What a stream may go on sending; a faster one has to wait."""
BURST_LINES = 10_000
LINES_A_SECOND = 2_000
"""The same for the lines of its events, each of which has to be looked at."""
BURST_STREAMS = 5
STREAMS_A_SECOND = 1.0
"""How often a stream is opened again that the server ends, whatever it says about waiting."""
STREAM_READY_S = 5.0
"""How long calls wait, once, for the stream of server requests: a request before it is open would be lost."""


class HttpTransport:
    """The way to one server, as the SDK takes it."""

    def __init__(self, setting: McpServerOptions, *, older: bool) -> None:
        self._setting = setting
        self._older = older
        self._stack = AsyncExitStack()
        self._over = anyio.Event()
        self._guard = Guard(inner_transport(setting), self._over, older=older)
        self._auth = auth_of(setting)

    @property
    def failed_immediately(self) -> bool:
        """Whether the server may be one that only knows the older way."""
        return not self._older and self._guard.refused in NOT_THERE

    async def __aenter__(self) -> tuple[Any, Any]:
        config = self._setting.config
        limits = httpx2.Timeout(CONNECT_S, read=None, write=WRITE_S, pool=None)

        def made(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
            return Client(self._guard, headers=config.headers, auth=self._auth, timeout=limits)

        try:
            if self._older:
                way = sse_client(config.url, httpx_client_factory=made)
            else:
                client = await self._stack.enter_async_context(made())
                way = streamable_http_client(
                    config.url, http_client=client, max_sse_event_size=MAX_BODY_BYTES
                )
            return await self._stack.enter_async_context(way)
        except BaseException:
            await self._stack.aclose()
            raise

    async def until_over(self) -> None:
        """Until the server says no more."""
        await self._over.wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def exit_reason(self) -> str:
        """What the server answered last, if that was a refusal."""
        failure = getattr(self._auth, "failure", None)
        if isinstance(failure, JaatoError):
            raise failure
        if self._guard.session_expired:
            raise SessionForgotten(
                f"The MCP server {self._setting.config.name} has forgotten its session: {self._guard.failure}"
            )
        return self._guard.failure

    def explain(self, error: types.ErrorData) -> types.ErrorData:
        """An error, which may be the SDK's own, as one that says what happened and what to do."""
        guard, code, text = self._guard, error.code, error.message
        if code == NO_SESSION and guard.refused == 400 and "session" in text.lower():
            guard.expire_session()
        if guard.session_expired:
            return types.ErrorData(code=types.CONNECTION_CLOSED, message=guard.failure)
        if code == types.INTERNAL_ERROR and text == "Server returned an error response":
            return types.ErrorData(code=code, message=guard.failure or text)
        if code == types.CONNECTION_CLOSED and not guard.over.is_set():
            text = f"{plain(text).rstrip('.')}; whether it did what was asked is not known. {guard.failure}".strip()
        elif code == types.PARSE_ERROR and "validation error" in text:
            text = "what it answered is no JSON-RPC message"
        elif code == types.INVALID_REQUEST and text.startswith("Unexpected content type: "):
            kind = plain(text.partition(": ")[2])[:80] or "none"
            text = f"its answer is neither JSON nor a stream of events (content type: {kind})"
        else:
            return error
        return types.ErrorData(code=types.PARSE_ERROR, message=text)


def auth_of(setting: McpServerOptions) -> httpx2.Auth | None:
    """What logs in, where the configuration has no key of its own."""
    if any(name.lower() == "authorization" for name in setting.config.headers):
        return None
    from jaato.plugins.mcp.oauth.login import auth_for
    from jaato.plugins.mcp.oauth.token_store import open_store

    allowed = make_allowed_hosts(setting.config, setting.allow_hosts)
    store = open_store(setting.state_dir)
    return auth_for(setting.config, store, setting.ask, environ=setting.environ, allowed=allowed)


def inner_transport(setting: McpServerOptions) -> httpx2.AsyncBaseTransport:
    """Connections to the server. Where a workspace names it, its addresses are checked as they are dialed."""
    config = setting.config
    transport = httpx2.AsyncHTTPTransport(trust_env=False, verify=False)
    if config.scope != "workspace":
        proxy = proxy_for(config.url, setting.environ)
        pool = proxy_settings.open_pool(config.url, proxy, setting.environ, KEPT)
    else:
        allowed = make_allowed_hosts(config, setting.allow_hosts) or AllowedHosts()
        url = parse_url(config.url)
        dialer = CheckedResolver(allowed)
        pool, proxied = open_pool(url, dialer, setting.environ)
        if proxied:
            transport = Proxied(dialer, url)
    transport._pool = pool  # noqa: SLF001 httpx2 takes no network backend of its own accord
    return transport


class Proxied(httpx2.AsyncHTTPTransport):
    """The way through a proxy, which looks the host up by itself: what can be known of it is checked here."""

    def __init__(self, dialer: CheckedResolver, url: Url) -> None:
        super().__init__(trust_env=False, verify=False)
        self._dialer = dialer
        self._url = url

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request."""
        await self._dialer.check_proxied(self._url)
        return await super().handle_async_request(request)


def make_allowed_hosts(config: ServerConfig, hosts: tuple[str, ...]) -> AllowedHosts | None:
    """What may be reached beside public addresses: what the user allows, and the address that was vouched for
    when the entry itself says it, as `localhost` and `10.0.0.5` do and a name that leads there does not. Where clouds
    answer what is secret, and beside it, only the user's own word leads."""
    parts = urlsplit(config.url)
    host = (parts.hostname or "").lower()
    if not (is_loopback(host) or may_be_named(host)):
        return AllowedHosts.of(hosts)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    name = f"[{host}]" if ":" in host else host
    return AllowedHosts.of([*hosts, f"{name}:{port}"])


def may_be_named(host: str) -> bool:
    """Whether a host is an address, not a name, and none that only a machine's own system should reach."""
    try:
        address = meant(ip_address(host))
    except ValueError:
        return False
    return not address.is_link_local and address not in METADATA


def meant(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, if it stands for one."""
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return inner or address


class Guard(httpx2.AsyncBaseTransport):
    """Requests to one server. `failure` describes the error of the last message; `over` is set when no other
    can succeed, `session_expired` when that is so because the server does not know the session any more."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, over: anyio.Event, *, older: bool) -> None:
        self._inner = inner
        self.older = older
        self._bytes = RateLimiter(STREAM_BURST_BYTES, STREAM_BYTES_A_SECOND)
        self._lines = RateLimiter(BURST_LINES, LINES_A_SECOND)
        self._streams = RateLimiter(BURST_STREAMS, STREAMS_A_SECOND)
        self.over = over
        self.refused = 0
        self.failure = ""
        self.session_expired = False
        self._stream_ready: anyio.Event | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request."""
        request.headers["accept-encoding"] = "identity"
        if request.method == "GET":
            self._stream_ready = self._stream_ready or anyio.Event()
            await anyio.sleep(self._streams.wait_s(1))
        elif "mcp-session-id" in request.headers and is_initialized(request):
            self._stream_ready = (
                self._stream_ready or anyio.Event()
            )  # the stream is opened beside this, maybe later
        elif (
            self._stream_ready is not None
            and not self._stream_ready.is_set()
            and b'"tools/call"' in request.content
        ):
            with anyio.move_on_after(STREAM_READY_S):
                await self._stream_ready.wait()
            self._stream_ready.set()
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            self.record_error(error)
            raise
        finally:
            if request.method == "GET" and self._stream_ready is not None:
                self._stream_ready.set()
        if request.method == "POST" or self.older:
            self._record_response(request, response)
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            await response.aclose()
            self.record_error(httpx2.RemoteProtocolError("the answer is compressed, which was not asked for"))
            raise httpx2.RemoteProtocolError("the answer is compressed, which was not asked for")
        endless = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = Bounded(response.stream, self, endless=endless)
        return response

    def _record_response(self, request: httpx2.Request, response: httpx2.Response) -> None:
        """Record the status of a response to a message. Refused streams are common and are ignored."""
        status = response.status_code
        self.failure = ""
        if status < 400:
            return
        self.refused = status
        self.failure = f"It answered HTTP {status} {plain(response.reason_phrase)}".strip() + "."
        if status == 404 and "mcp-session-id" in request.headers:
            self.expire_session()
        elif self.older and status != 401:
            self.over.set()  # the SDK sends nothing more, without an error

    def expire_session(self) -> None:
        """Record that the server does not know the session."""
        self.session_expired = True
        self.over.set()

    def record_error(self, error: Exception) -> None:
        """Record an error of the connection."""
        known = isinstance(error, JaatoError)
        why = (plain(str(error)) or type(error).__name__).rstrip(".")
        self.failure = str(error) if known else f"Its connection failed: {why}."

    async def pace(self, chunk: bytes) -> None:
        """Wait as long as a stream that has sent this may be made to wait."""
        lines = max(chunk.count(b"\n"), chunk.count(b"\r"))
        wait_s = max(self._bytes.wait_s(len(chunk)), self._lines.wait_s(lines))
        if wait_s > 0:
            await anyio.sleep(wait_s)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


def is_initialized(request: httpx2.Request) -> bool:
    """Whether a request ends the handshake."""
    try:
        return b'"notifications/initialized"' in request.content
    except httpx2.RequestNotRead:  # redirected
        return False


class Bounded(httpx2.AsyncByteStream):
    """A body that ends, or is no faster than it can be taken."""

    def __init__(self, inner: Any, guard: Guard, *, endless: bool) -> None:
        self._inner = inner
        self._guard = guard
        self._endless = endless

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        try:
            async for chunk in self._inner:
                total += len(chunk)
                if self._endless:
                    await self._guard.pace(chunk)
                elif total > MAX_BODY_BYTES:
                    raise httpx2.StreamError(f"the answer is larger than {MAX_BODY_BYTES >> 20} MB")
                yield chunk
        except httpx2.TransportError as error:
            self._guard.record_error(error)
            raise
        finally:
            if self._endless and self._guard.older:
                self._guard.over.set()  # its only stream

    async def aclose(self) -> None:
        """Close the connection."""
        await self._inner.aclose()


class Client(httpx2.AsyncClient):
    """A client whose transport records messages that could not be sent, for example after a failed login: the SDK
    sends nothing more then, without an error."""

    def __init__(self, guard: Guard, **options: Any) -> None:
        super().__init__(transport=guard, trust_env=False, **options)
        self._guard = guard

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send one request."""
        try:
            return await super().send(request, **options)
        except Exception as error:
            if not isinstance(error, httpx2.TransportError):
                self._guard.record_error(error)
            if request.method == "POST":
                self._guard.over.set()
            raise
