"""The allowlist of the proxy: host patterns, and the token by which it knows what a call may reach."""

from __future__ import annotations

import asyncio
import secrets
import threading
from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jaato.errors import ToolError
from jaato.tools.network.addresses import (
    MAX_URL_CHARS,
    UNSAFE,
    AddressRefused,
    canonical_host,
    split_authority,
)
from jaato.tools.processes.warden.network_namespace import PROXY_ADDRESS

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


def parse_authority(text: str) -> tuple[str, int]:
    """The canonical host and the port of `host:port`, as a CONNECT names its target. Raises `AddressRefused`."""
    if len(text) > MAX_URL_CHARS or UNSAFE.search(text):
        raise AddressRefused(f"{text[:100]!r} is no host and port.")
    host, port = split_authority(text, text)
    if port is None:
        raise AddressRefused(f"{text[:100]!r} names no port; write it like host:443.")
    return canonical_host(host), port


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
        """Take the token back and end what is connected with it; from any thread, any number of times."""
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
