"""Requests of logging in: https or loopback only, to checked addresses, bounded in size and time, followed nowhere."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import anyio

from jaato.errors import ConfigError
from jaato.plugins.mcp.oauth.options import OAuthFault, Unreachable, plain
from jaato.tools.network.addresses import AddressRefused, AllowedHosts, Url, parse_url
from jaato.tools.network.pinned_connect import CheckedResolver, Resolve, open_pool, request_to, system_resolve

MAX_BYTES = 262_144
WITHIN_S = 20.0
MAX_REDIRECTS = 3
REDIRECTS = frozenset((301, 302, 303, 307, 308))
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


def is_loopback(host: str) -> bool:
    """Whether a canonical host is this machine for certain; a name below `localhost` may be looked up elsewhere."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def document(self, what: str) -> dict[str, Any]:
        """The body as a JSON object. Raises `OAuthFault`, showing nothing of it."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise OAuthFault(
                f"{what} is no JSON object; the server is set up wrongly, or it is another page."
            )
        return found


class Wire:
    """Sends what logging in to one server needs.

    Private addresses are refused but for the server's own host and what `allowed` names; a server on this machine
    may send us to others on this machine.
    """

    def __init__(
        self,
        server: Url,
        environ: Mapping[str, str],
        allowed: AllowedHosts | None = None,
        resolve: Resolve = system_resolve,
        *,
        within_s: float = WITHIN_S,
    ) -> None:
        allowed = allowed or AllowedHosts()
        networks = allowed.networks
        if is_loopback(server.host):
            networks += tuple((network, None) for network in LOOPBACK)
        names = allowed.names | {(server.host, server.port)}
        self.environ = environ
        self.within_s = within_s
        self.dialer = CheckedResolver(replace(allowed, names=names, networks=networks), resolve)

    async def get(self, url: Url, what: str) -> Reply:
        """Fetch a document; redirects are followed within its origin alone. Raises `OAuthFault`."""
        headers = {"Accept": "application/json"}
        for _ in range(MAX_REDIRECTS + 1):
            reply = await self._send("GET", url, headers, None, what, MAX_BYTES)
            place = reply.headers.get("location", "")
            if reply.status not in REDIRECTS or not place:
                return reply
            try:
                following = parse_url(place, url)
            except AddressRefused:
                raise OAuthFault(f"{what} redirects to what is no web address.") from None
            if following.origin != url.origin:
                raise OAuthFault(f"{what} redirects to another host, {following.host}; that is not followed.")
            url = following
        raise OAuthFault(f"{what} redirects more than {MAX_REDIRECTS} times.")

    async def post(
        self, url: Url, body: bytes, headers: Mapping[str, str], what: str, most_bytes: int = MAX_BYTES
    ) -> Reply:
        """Send a document; no redirect is followed, for it may hold secrets. With `most_bytes` 0 the answer's body is
        not read. Raises `OAuthFault`."""
        return await self._send(
            "POST", url, {"Accept": "application/json", **headers}, body, what, most_bytes
        )

    async def check(self, url: Url, what: str) -> None:
        """Raise `OAuthFault` for a place where a browser should not be sent either; an unknown name passes, for
        the browser may know it by other means."""
        try:
            await self.dialer.addresses(url.host, url.port)
        except AddressRefused as error:
            raise OAuthFault(f"{what}: {error}") from None
        except OSError:
            return

    async def _send(
        self,
        method: str,
        url: Url,
        headers: Mapping[str, str],
        body: bytes | None,
        what: str,
        most_bytes: int,
    ) -> Reply:
        import httpcore2

        secure(url, what)
        try:
            with anyio.fail_after(self.within_s):
                pool, proxied = open_pool(url, self.dialer, self.environ)
                if proxied:
                    await self.dialer.check_proxied(url)
                async with pool:
                    response = await pool.handle_async_request(request_of(method, url, headers, body))
                    try:
                        return await read(response, what, most_bytes)
                    finally:
                        await response.aclose()
        except TimeoutError:
            raise Unreachable(f"{what}: {url.authority} did not answer within {self.within_s:g} s.") from None
        except AddressRefused as error:
            raise OAuthFault(f"{what}: {error}") from None
        except ConfigError as error:
            raise OAuthFault(f"{what}: {error}") from None
        except (httpcore2.NetworkError, httpcore2.ProxyError, httpcore2.TimeoutException) as error:
            raise Unreachable(f"{what}: {url.authority} cannot be reached: {plain(str(error))}.") from None
        except httpcore2.ProtocolError:
            raise OAuthFault(f"{what}: {url.authority} did not keep to HTTP.") from None


def secure(url: Url, what: str) -> None:
    """Raise `OAuthFault` for a URL that is neither https nor on this machine."""
    if url.scheme != "https" and not is_loopback(url.host):
        raise OAuthFault(
            f"{what} is at {url.host} over plain http; only https, or this machine, is used to log in."
        )


def secure_url(text: Any, what: str) -> Url:
    """The URL a stranger names, if it is https or loopback. Raises `OAuthFault`."""
    if not isinstance(text, str) or not text or not text.isascii():
        raise OAuthFault(f"{what} is no web address in ASCII.")
    if "#" in text:
        raise OAuthFault(f"{what} has a fragment; it must have none.")
    try:
        url = parse_url(text)
    except AddressRefused:
        raise OAuthFault(f"{what} is {plain(text)!r}, which is no https address.") from None
    secure(url, what)
    return url


def request_of(method: str, url: Url, headers: Mapping[str, str], body: bytes | None) -> Any:
    """The request as it goes out; nothing packed is asked for, so nothing unfolds."""
    every = {**headers, "Accept-Encoding": "identity", "User-Agent": "jaato"}
    if body is not None:
        every["Content-Length"] = str(len(body))
    return request_to(url, method, every.items(), body)


async def read(response: Any, what: str, most_bytes: int) -> Reply:
    """The answer whole, or `OAuthFault` for one that is too long or packed."""
    lines: dict[str, list[str]] = {}
    for name, value in response.headers:
        lines.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    headers = {name: ", ".join(values) for name, values in lines.items()}
    data = bytearray()
    if most_bytes:
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise OAuthFault(f"{what} came packed, which was not asked for.")
        async for chunk in response.aiter_stream():
            data += chunk
            if len(data) > most_bytes:
                raise OAuthFault(f"{what} has more than {most_bytes:,} bytes; it is not read.")
    return Reply(response.status, headers, bytes(data))
