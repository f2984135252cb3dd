"""Pinned connections: a name is resolved once, its addresses are checked, and the checked address is connected."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import anyio

from jaato.tools.network import proxy_settings
from jaato.tools.network.addresses import PORTS, Address, AddressRefused, AllowedHosts, Url, check_address
from jaato.tools.network.proxy_settings import proxy_for

if TYPE_CHECKING:
    import httpcore2

Resolve = Callable[[str, int], Awaitable[list[str]]]
MAX_ADDRESSES = 16
CONNECT_WITHIN_S = 10.0
WAIT_S: Mapping[str, float | None] = {"connect": CONNECT_WITHIN_S, "read": None, "write": None, "pool": None}
METADATA_NAMES = frozenset(
    ("metadata", "metadata.google.internal", "metadata.goog", "instance-data.ec2.internal")
)
INSIDE = (
    ".internal",
    ".local",
    ".localhost",
    ".localdomain",
    ".lan",
    ".intranet",
    ".corp",
    ".home",
    ".home.arpa",
    ".private",
)
"""Names that no public server answers for."""


async def system_resolve(host: str, port: int) -> list[str]:
    """The addresses of a name as the system knows them, in its order. Raises OSError."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def check_name(host: str, port: int, allowed: AllowedHosts) -> None:
    """Raise `AddressRefused` for a name of an inner network, which only someone else can look up."""
    secret = host in METADATA_NAMES
    inside = secret or "." not in host or host.endswith(INSIDE)
    if inside and not (allowed.names_host(host, port) or (allowed.everything and not secret)):
        raise AddressRefused(
            f"{host} is a name of an inner network, which is reached through a proxy only when the user allows it: "
            f"the setting allow_hosts can name {host}:{port}."
        )


class CheckedResolver:
    """Decides which address a host is reached at; `resolve` looks names up, `allowed` lifts refusals."""

    def __init__(self, allowed: AllowedHosts, resolve: Resolve = system_resolve) -> None:
        self.allowed = allowed
        self.resolve = resolve

    async def addresses(self, host: str, port: int) -> list[Address]:
        """The checked addresses of a canonical host. Raises `AddressRefused` when any of them may not be reached, and
        OSError when the name is not known."""
        try:
            found: list[Address] = [ipaddress.ip_address(host)]
        except ValueError:
            texts = await self.resolve(host, port)
            found = [ipaddress.ip_address(text.partition("%")[0]) for text in texts[:MAX_ADDRESSES]]
        if not found:
            raise OSError(f"{host} has no address")
        for address in found:
            check_address(host, port, address, self.allowed)
        return found

    async def check_proxied(self, url: Url) -> str:
        """Check what can be checked of a host that a proxy will look up; says what that was."""
        try:
            await self.addresses(url.host, url.port)
        except AddressRefused:
            raise
        except OSError:
            check_name(url.host, url.port, self.allowed)
            return "The proxy looked up the name; only the name itself could be checked."
        return "The proxy looked up the name again; the addresses known here were checked."


def open_pool(
    url: Url, dialer: CheckedResolver, environ: Mapping[str, str], **bounds: float
) -> tuple[httpcore2.AsyncConnectionPool, bool]:
    """A pool for one URL, and whether it leads through a proxy of the environment; `bounds` are the pool's own. Raises
    `ConfigError`."""
    proxy = proxy_for(str(url), environ)
    backend = make_pinned_backend(dialer)
    pool = proxy_settings.open_pool(str(url), proxy, environ, bounds, backend)
    return pool, proxy is not None


@contextlib.asynccontextmanager
async def exchange(
    url: Url, request: httpcore2.Request, dialer: CheckedResolver, environ: Mapping[str, str]
) -> AsyncIterator[tuple[httpcore2.Response, str]]:
    """The response to one request, on a connection of its own; and what was checked of a host that a proxy looks up. Raises
    `ConfigError`, `AddressRefused`, and what httpcore2 raises."""
    pool, proxied = open_pool(url, dialer, environ)
    note = await dialer.check_proxied(url) if proxied else ""
    async with pool:
        response = await pool.handle_async_request(request)
        try:
            yield response, note
        finally:
            await response.aclose()


async def read_bounded(response: httpcore2.Response, most_bytes: int) -> tuple[bytes, bool]:
    """The raw body up to a bound, and whether there was more."""
    data = bytearray()
    async for chunk in response.aiter_stream():
        data += chunk[: most_bytes + 1 - len(data)]
        if len(data) > most_bytes:
            return bytes(data[:most_bytes]), True
    return bytes(data), False


def request_to(
    url: Url,
    method: str,
    headers: Iterable[tuple[str, str]],
    body: bytes | None,
    wait_s: Mapping[str, float | None] = WAIT_S,
) -> httpcore2.Request:
    """A request as it goes out, with these headers after `Host`; how long an answer may take is the caller's to say."""
    import httpcore2

    every = [("Host", url.authority), *headers]
    return httpcore2.Request(
        method=method.encode("ascii"),
        url=httpcore2.URL(
            scheme=url.scheme.encode(),
            host=url.host.encode(),
            port=None if url.port == PORTS[url.scheme] else url.port,
            target=url.target.encode("ascii"),
        ),
        headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in every],
        content=body,
        extensions={"timeout": wait_s},
    )


def make_pinned_backend(dialer: CheckedResolver) -> httpcore2.AsyncNetworkBackend:
    """A network backend that reaches hosts through the dialer alone."""
    import httpcore2
    from httpcore2 import AnyIOBackend

    class Checked(AnyIOBackend):
        """Resolves, checks, and connects to an address; never to a name."""

        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,
            local_address: str | None = None,
            socket_options: Iterable[Any] | None = None,
        ) -> httpcore2.AsyncNetworkStream:
            failure: Exception | None = None
            try:
                with anyio.fail_after(timeout):
                    addresses = await dialer.addresses(host, port)
                    for address in addresses:
                        each = timeout if len(addresses) == 1 else min(timeout or 3.0, 3.0)
                        try:
                            return await super().connect_tcp(
                                str(address), port, each, local_address, socket_options
                            )
                        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                            failure = error
            except TimeoutError as error:
                raise httpcore2.ConnectTimeout(f"{host} did not answer") from error
            except OSError as error:
                raise httpcore2.ConnectError(f"{host} is not known: {error.strerror or error}") from error
            raise httpcore2.ConnectError(f"{host} cannot be reached: {failure}") from failure

        async def connect_unix_socket(self, *_args: Any, **_more: Any) -> httpcore2.AsyncNetworkStream:
            raise AddressRefused("Only addresses of the network are dialed.")

    return Checked()
