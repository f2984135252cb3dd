"""Requests to a registry: to checked addresses, within bounds of time and size, no redirect followed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from jaato.errors import ConfigError
from jaato.plugins.arp.config import Filled
from jaato.plugins.arp.connections import IDLE_S, MAX_KEPT, MAX_OPEN, Connections
from jaato.plugins.arp.faults import CallLost, RegistryFault, RegistryUnusable
from jaato.plugins.arp.stream import ACCEPTED, Hear, Reader, reader_for
from jaato.tools.invisible_text import one_line
from jaato.tools.network.addresses import PORTS, AddressRefused, AllowedHosts, Url
from jaato.tools.network.pinned_connect import CheckedResolver, open_pool
from jaato.tools.network.proxy_settings import proxy_for

if TYPE_CHECKING:
    import httpcore2

CONNECT_WITHIN_S = 10.0
MAX_HEADER_CHARS = 500
REDIRECTS = frozenset((301, 302, 303, 307, 308))
SENDING = "http11.send_request_headers.started"
CONNECTING = "connection.connect_tcp.started"

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request below a registry's address, and the bounds of its answer. A `safe` one may be made twice; what a call says
    while it is under way is given to `hear`."""

    method: str
    path: str
    most_bytes: int
    within_s: float
    body: bytes | None = None
    headers: Headers = ()
    safe: bool = True
    hear: Hear | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a registry answered; headers by name in lower case, of several with one name the first."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        """A header that can be shown and sent again, or nothing."""
        value = self.headers.get(name, "")
        return value if value.isascii() and value.isprintable() and len(value) <= MAX_HEADER_CHARS else ""


class TooLong(Exception):
    """An answer has more bytes than anybody wants of it."""


class Way:
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

    async def send(self, ask: Ask) -> Answer:
        """The answer to one request. Raises `RegistryFault`, where a call was sent and its answer lost `CallLost`, and
        `RegistryUnusable` for an address that may not be reached."""
        import httpcore2

        url = self.base._replace(target=self.base.target + ask.path)
        seen: set[str] = set()
        try:
            with anyio.fail_after(ask.within_s):
                return await self._sent(url, ask, seen)
        except TimeoutError:
            why = f"did not answer in full within {ask.within_s:g} s"
        except TooLong:
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

    async def _sent(self, url: Url, ask: Ask, seen: set[str]) -> Answer:
        """The answer by a connection that is kept; a safe request that one of them lost goes out once more by a new one."""
        import httpcore2

        if proxy_for(str(url), self._environ) is not None:
            await self._dialer.check_proxied(url)
        if ask.safe or self._keeps:
            try:
                async with self._kept.used() as pool:
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
        self, pool: httpcore2.AsyncConnectionPool, url: Url, ask: Ask, seen: set[str]
    ) -> Answer:
        response = await pool.handle_async_request(self._request(url, ask, seen))
        try:
            headers = headers_of(response.headers)
            self._check(response.status, headers)
            body = await bounded(
                response, ask.most_bytes, reader_for(headers.get("content-type", ""), ask.hear)
            )
            await refuse_more(response)
        finally:
            await response.aclose()
        return Answer(response.status, headers, body)

    def _request(self, url: Url, ask: Ask, seen: set[str]) -> httpcore2.Request:
        import httpcore2

        async def trace(event: str, _info: dict[str, Any]) -> None:
            seen.add(event)

        accepted = "application/json" if ask.hear is None else ACCEPTED
        headers = [("Host", url.authority), ("User-Agent", "jaato"), ("Accept", accepted)]
        headers += [("Accept-Encoding", "identity"), *self._headers, *ask.headers]
        if ask.body is not None:
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(ask.body)))]
        wait = {"connect": CONNECT_WITHIN_S, "read": None, "write": None, "pool": None}
        return httpcore2.Request(
            method=ask.method.encode("ascii"),
            url=httpcore2.URL(
                scheme=url.scheme.encode(),
                host=url.host.encode(),
                port=None if url.port == PORTS[url.scheme] else url.port,
                target=url.target.encode("ascii"),
            ),
            headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in headers],
            content=ask.body,
            extensions={"timeout": wait, "trace": trace},
        )

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


async def bounded(response: httpcore2.Response, most_bytes: int, reader: Reader | None) -> bytes:
    """The body of an answer; of a stream what stands for it. Raises `TooLong`."""
    data = bytearray()
    size = 0
    async for chunk in response.aiter_stream():
        size += len(chunk)
        if size > most_bytes:
            raise TooLong
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
