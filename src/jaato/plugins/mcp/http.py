"""A server behind a URL: streamable HTTP or the older server-sent events, with bounded answers and checked addresses."""

from __future__ import annotations

from contextlib import AsyncExitStack
from ipaddress import IPv6Address, ip_address
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from jaato.errors import JaatoError
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.faults import SessionForgotten
from jaato.plugins.mcp.guard import MAX_BODY_BYTES, Client, Guard
from jaato.plugins.mcp.journal import ServerLog
from jaato.plugins.mcp.server import Setting
from jaato.plugins.mcp.watched import Streams
from jaato.tools.address import METADATA, Address, Allowed, Url, parse_url
from jaato.tools.dial import Dialer, open_pool
from jaato.tools.route import is_loopback, open_transport, proxy_for

CONNECT_S = 30.0
WRITE_S = 60.0
NOT_THERE = (404, 405)


class HttpTransport:
    """The way to one server, as the SDK takes it."""

    def __init__(self, setting: Setting, log: ServerLog, *, older: bool) -> None:
        self._setting = setting
        self._log = log
        self._older = older
        self._stack = AsyncExitStack()
        self._over = anyio.Event()
        self._guard = Guard(inner_transport(setting), self._over, older=older)
        self._auth = auth_of(setting)

    @property
    def broke_at_once(self) -> bool:
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
                return self._watched(await self._stack.enter_async_context(way))
            client = await self._stack.enter_async_context(made())
            way = streamable_http_client(config.url, http_client=client, max_sse_event_size=MAX_BODY_BYTES)
            return self._watched(await self._stack.enter_async_context(way))
        except BaseException:
            await self._stack.aclose()
            raise

    def _watched(self, streams: tuple[Any, Any]) -> tuple[Any, Any]:
        made = Streams(*streams, self._guard, self._log)
        return made.incoming, made.outgoing

    async def until_over(self) -> None:
        """Until the server says no more."""
        await self._over.wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def how_it_ended(self, within_s: float = 1.0) -> str:
        """What the server answered last, if that was a refusal."""
        failure = getattr(self._auth, "failure", None)
        if isinstance(failure, JaatoError):
            raise failure
        if self._guard.forgot:
            raise SessionForgotten(
                f"The MCP server {self._setting.config.name} has forgotten its session: {self._guard.said}"
            )
        return self._guard.said


def auth_of(setting: Setting) -> httpx2.Auth | None:
    """What logs in, where the configuration has no key of its own."""
    if any(name.lower() == "authorization" for name in setting.config.headers):
        return None
    from jaato.plugins.mcp.oauth import auth_for
    from jaato.plugins.mcp.oauth_store import open_store

    allowed = allowed_for(setting.config, setting.allow_hosts)
    store = open_store(setting.state_dir)
    return auth_for(setting.config, store, setting.ask, environ=setting.environ, allowed=allowed)


def inner_transport(setting: Setting) -> httpx2.AsyncBaseTransport:
    """Connections to the server. Where a workspace names it, its addresses are checked as they are dialed."""
    config = setting.config
    if config.scope != "workspace":
        return open_transport(config.url, proxy_for(config.url, setting.environ), setting.environ)
    allowed = allowed_for(config, setting.allow_hosts) or Allowed()
    url = parse_url(config.url)
    dialer = Dialer(allowed)
    pool, proxied = open_pool(url, dialer, setting.environ)
    transport = Proxied(dialer, url) if proxied else httpx2.AsyncHTTPTransport(trust_env=False, verify=False)
    transport._pool = pool  # noqa: SLF001 httpx2 takes no network backend of its own accord
    return transport


class Proxied(httpx2.AsyncHTTPTransport):
    """The way through a proxy, which looks the host up by itself: what can be known of it is checked here."""

    def __init__(self, dialer: Dialer, url: Url) -> None:
        super().__init__(trust_env=False, verify=False)
        self._dialer = dialer
        self._url = url

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request."""
        await self._dialer.check_proxied(self._url)
        return await super().handle_async_request(request)


def allowed_for(config: ServerConfig, hosts: tuple[str, ...]) -> Allowed | None:
    """What may be reached beside public addresses: what the user allows, and the address that was vouched for
    when the entry itself says it, as `localhost` and `10.0.0.5` do and a name that leads there does not. Where clouds
    answer what is secret, and beside it, only the user's own word leads."""
    parts = urlsplit(config.url)
    host = (parts.hostname or "").lower()
    if not (is_loopback(host) or may_be_named(host)):
        return Allowed.of(hosts)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    name = f"[{host}]" if ":" in host else host
    return Allowed.of([*hosts, f"{name}:{port}"])


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
