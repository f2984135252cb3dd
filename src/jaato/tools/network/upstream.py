"""The connection from the proxy to a host: to the address that was checked, or through the user's own proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from jaato.tools.address import Url
from jaato.tools.dial import CONNECT_WITHIN_S, Dialer
from jaato.tools.route import certificates, login_of, proxy_for

BUFFER_BYTES = 1 << 16
EACH_WITHIN_S = 3.0


class UpstreamRefused(OSError):
    """The user's own proxy does not connect to the host."""


class Upstream(NamedTuple):
    """A connection; `headers` are for the user's own proxy where the request itself is sent to it, None where it is the host's."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    headers: dict[str, str] | None = None


async def open_upstream(url: Url, *, tunnel: bool, dialer: Dialer, environ: Mapping[str, str]) -> Upstream:
    """A connection for this URL, of which a tunnel uses host and port alone.

    Raises `AddressRefused` for an address that is closed, `ConfigError` for a wrong proxy variable, TimeoutError and
    OSError.
    """
    proxy = proxy_for(str(url), environ)
    async with asyncio.timeout(CONNECT_WITHIN_S):
        if proxy is None:
            return Upstream(*await dial(url.host, url.port, dialer))
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


async def dial(host: str, port: int, dialer: Dialer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
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
