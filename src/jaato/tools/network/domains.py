"""Which hosts a process may be connected to, as patterns; and which one a request names, in its one spelling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jaato.errors import ToolError
from jaato.tools.address import MAX_URL_CHARS, UNSAFE, AddressRefused, canonical_host, split_authority

DEFAULT_PORTS = (80, 443)


class DomainRefused(ToolError):
    """A pattern that names no host."""

    code = "domain_refused"


@dataclass(frozen=True, slots=True)
class Domains:
    """The hosts that were granted: names, `*.name` for every name below, addresses, `*` for every public host; each
    at ports 80 and 443, or at the one it is written with."""

    hosts: frozenset[tuple[str, int]] = frozenset()

    @classmethod
    def of(cls, patterns: Iterable[str]) -> Domains:
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
