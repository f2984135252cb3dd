"""The forward proxy of a session: `CONNECT` and plain HTTP, to the hosts on the allowlist of the calling command.

TLS is not taken apart: inside a tunnel a program may name another host than it asked for, where the server of the granted
one answers for it too (domain fronting).
"""

from __future__ import annotations

import asyncio
import logging
import resource
import secrets
import socket
import threading
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from jaato.errors import JaatoError, ToolError
from jaato.tools.network.addresses import (
    AddressRefused,
    Url,
    canonical_host,
    split_authority,
)
from jaato.tools.network.pinned_connect import CheckedResolver
from jaato.tools.network.proxy_relay import (
    BUFFER_BYTES,
    MAX_HEAD_BYTES,
    Head,
    Relay,
    RequestRefused,
    Upstream,
    open_upstream,
    parse_head,
)
from jaato.tools.processes.warden.namespaces import BACKLOG, PROXY_ADDRESS

DEFAULT_PORTS = (80, 443)


class DomainRefused(ToolError):
    """A pattern that names no host."""

    code = "domain_refused"


@dataclass(frozen=True, slots=True)
class DomainPatterns:
    """The hosts that were granted: names, `*.name` for every name below, addresses, `*` for every public host; each
    at ports 80 and 443, or at the one it is written with."""

    hosts: frozenset[tuple[str, int]] = frozenset()

    @classmethod
    def of(cls, patterns: Iterable[str]) -> DomainPatterns:
        """From patterns such as `pypi.org`, `*.npmjs.org`, `host:8443`, `*`. Raises `DomainRefused`."""
        hosts: set[tuple[str, int]] = set()
        for pattern in patterns:
            host, port = pattern_of(pattern.strip())
            hosts.update((host, one) for one in ((port,) if port else DEFAULT_PORTS))
        return cls(frozenset(hosts))

    def covers(self, host: str, port: int) -> bool:
        """Whether a canonical host was granted at this port."""
        above = [f"*.{host.split('.', at)[at]}" for at in range(1, host.count(".") + 1)]
        return any((name, port) in self.hosts for name in (host, *above, "*"))


def pattern_of(pattern: str) -> tuple[str, int | None]:
    """A pattern's host in its one spelling, and its port."""
    try:
        host, port = split_authority(pattern, pattern)
        if host == "*":
            return host, port
        if host.startswith("*."):
            return f"*.{canonical_host(host[2:])}", port
        return canonical_host(host), port
    except AddressRefused:
        raise DomainRefused(
            f"{pattern[:100]!r} names no host; write it like pypi.org, *.npmjs.org, host:8443 or [::1]:8080."
        ) from None


USER = "call"
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
LOCAL = "localhost,127.0.0.1,::1"
MOST_REFUSED = 50
"""Refused hosts that are remembered of one call."""


class NetworkGrant:
    """The hosts of one call. `refused` may be read from any thread; `close` ends its connections."""

    def __init__(self, domains: DomainPatterns, release: Callable[[NetworkGrant], None]) -> None:
        self.token = secrets.token_urlsafe(24)
        self.domains = domains
        self.connections: set[asyncio.Task[None]] = set()
        self._release = release
        self._refused: dict[str, None] = {}

    @property
    def refused(self) -> list[str]:
        """The hosts it asked for and was not connected to, as `host:port`, in the order of the first request."""
        return list(self._refused)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which programs find the proxy, with the credentials of this call."""
        host, port = PROXY_ADDRESS
        given = dict.fromkeys(PROXY_VARIABLES, f"http://{USER}:{self.token}@{host}:{port}")
        given["NO_PROXY"] = LOCAL
        return {**given, **{name.lower(): value for name, value in given.items()}, "NODE_USE_ENV_PROXY": "1"}

    def refuse(self, host: str, port: int) -> None:
        """Remember a host that was refused."""
        if len(self._refused) < MOST_REFUSED:
            self._refused[f"[{host}]:{port}" if ":" in host else f"{host}:{port}"] = None

    def close(self) -> None:
        """Revoke the token and end its connections; from any thread, any number of times."""
        self._release(self)


class ProxyAllowlist:
    """The grants that are open, by token. Safe from any thread."""

    def __init__(self, end: Callable[[NetworkGrant], None]) -> None:
        self._end = end
        self._open: dict[str, NetworkGrant] = {}
        self._lock = threading.Lock()

    def open(self, patterns: Iterable[str]) -> NetworkGrant:
        """A grant for these hosts. Raises `DomainRefused`."""
        grant = NetworkGrant(DomainPatterns.of(patterns), self._release)
        with self._lock:
            self._open[grant.token] = grant
        return grant

    def find(self, authorization: bytes) -> NetworkGrant | None:
        """The grant that the value of a `Proxy-Authorization` header belongs to."""
        scheme, _, encoded = authorization.strip().partition(b" ")
        if scheme.lower() != b"basic":
            return None
        try:
            user, _, token = b64decode(encoded.strip(), validate=True).decode("ascii").partition(":")
        except ValueError:
            return None
        return self._open.get(token) if user == USER else None

    def __len__(self) -> int:
        return len(self._open)

    def _release(self, grant: NetworkGrant) -> None:
        with self._lock:
            known = self._open.pop(grant.token, None)
        if known is not None:
            self._end(grant)


MAX_CONNECTIONS = 256
"""Of one session; more are closed at once."""
MOST_IN_ALL = max(64, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 20) // 4)
"""Of all sessions: a connection has two descriptors, and the rest of the process needs some too."""
EVERY: set[asyncio.Task[None]] = set()
"""The connections of all sessions; every proxy of a process runs on one loop."""
HEAD_WITHIN_S = 10.0
CLOSE_WITHIN_S = 2.0
REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    407: "Proxy Authentication Required",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    504: "Gateway Timeout",
}
UNKNOWN_CALL = (
    "This command was not given any hosts, or its proxy variables were changed: the network is reached with the "
    "credentials in HTTP_PROXY and HTTPS_PROXY, which each command has of its own."
)
LOG = logging.getLogger(__name__)


class Proxy:
    """Serves one listener. `open` and `close` run on the loop it serves on; `grants` is used from any thread.

    `environ` may name the user's own proxy, through which hosts are then reached.
    """

    def __init__(self, listener: socket.socket, dialer: CheckedResolver, environ: Mapping[str, str]) -> None:
        self._listener = listener
        self._dialer = dialer
        self._environ = environ
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.grants = ProxyAllowlist(self._end)

    async def open(self) -> None:
        """Accept connections."""
        self._loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(
            self._accept, sock=self._listener, limit=BUFFER_BYTES, backlog=BACKLOG
        )

    async def close(self) -> None:
        """Accept nothing more, and end every connection."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._tasks)

    def _end(self, grant: NetworkGrant) -> None:
        """End the connections of a call that is over."""
        if self._loop is not None and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in grant.connections])
            except RuntimeError:
                pass  # the loop was closed just now, with all that ran on it

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= MAX_CONNECTIONS or len(EVERY) >= MOST_IN_ALL:
            writer.transport.abort()
            return
        self._tasks.add(task)
        EVERY.add(task)
        try:
            await self._serve(reader, writer, task)
        except RequestRefused as refused:
            await self._answer(reader, writer, refused)
        except OSError:
            pass  # either end has gone
        except asyncio.CancelledError:
            pass  # its call is over, or the session; nothing awaits this task's result but `close`
        except Exception:
            LOG.exception("A connection of the proxy failed")
        finally:
            self._tasks.discard(task)
            EVERY.discard(task)
            writer.transport.abort()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        """One request, and what it opens, to its end."""
        data = await read_head(reader)
        if not data:
            return
        head = parse_head(data)
        given = head.values(b"proxy-authorization")
        grant = self.grants.find(given[0]) if len(given) == 1 else None
        if grant is None:
            raise RequestRefused(407, UNKNOWN_CALL)
        grant.connections.add(task)
        try:
            upstream = await self._reach(head, grant)
            relay = Relay(reader, writer, upstream)
            try:
                await (relay.tunnel() if head.url is None else relay.request(head))
            finally:
                relay.close()
        finally:
            grant.connections.discard(task)

    async def _reach(self, head: Head, grant: NetworkGrant) -> Upstream:
        """A connection to what the request names. Raises `RequestRefused`."""
        host, port = head.host, head.port
        if not grant.domains.covers(host, port):
            grant.refuse(host, port)
            raise RequestRefused(
                403,
                f"{host}:{port} is not among the hosts that this command was granted. Ask for it: the same command "
                f"with the domain {host if port in (80, 443) else f'{host}:{port}'}; the user can also start jaato with "
                "--allow-domain.",
            )
        url = head.url or Url("https", host, port, "/")
        try:
            return await open_upstream(
                url, tunnel=head.url is None, dialer=self._dialer, environ=self._environ
            )
        except AddressRefused as error:
            grant.refuse(host, port)
            raise RequestRefused(403, str(error)) from None
        except TimeoutError:
            raise RequestRefused(504, f"{host}:{port} did not answer in time.") from None
        except OSError as error:
            raise RequestRefused(
                502, f"{host}:{port} cannot be reached: {error.strerror or error}."
            ) from None
        except JaatoError as error:
            raise RequestRefused(502, f"{host}:{port} cannot be reached: {error}") from None

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refused: RequestRefused
    ) -> None:
        """Answer, and wait for a moment until the other end has read it."""
        body = f"jaato: {refused}\n".encode()
        lines = [
            f"HTTP/1.1 {refused.status} {REASONS[refused.status]}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
            "Proxy-Connection: close",
        ]
        lines += ['Proxy-Authenticate: Basic realm="jaato"'] if refused.status == 407 else []
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                writer.write("\r\n".join((*lines, "", "")).encode("ascii") + body)
                writer.write_eof()
                while await reader.read(BUFFER_BYTES):
                    pass
        except (OSError, asyncio.CancelledError):
            pass


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """The bytes of a request up to the empty line; nothing where the other end asked nothing. Raises `RequestRefused`."""
    try:
        async with asyncio.timeout(HEAD_WITHIN_S):
            data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise RequestRefused(431, f"The head of a request has at most {MAX_HEAD_BYTES:,} bytes.") from None
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise RequestRefused(400, "The request ended in the middle of its head.") from None
        return b""
    except TimeoutError:
        raise RequestRefused(
            408, f"The head of the request was not there after {HEAD_WITHIN_S:g} s."
        ) from None
    if len(data) > MAX_HEAD_BYTES:
        raise RequestRefused(431, f"The head of a request has at most {MAX_HEAD_BYTES:,} bytes.")
    return data
