"""The allowlists of `Host` and `Origin` headers (against DNS rebinding and foreign pages). No answer has CORS headers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from jaato.server.http.asgi import Refused, Scope

CHECKED = frozenset((b"host", b"origin"))
PORT = re.compile(r":[0-9]{1,5}$")


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The accepted values of `Host` and `Origin`, compared whole and in lower case. A `Host` in `any_port` is accepted with
    every port, for a port that is forwarded is not the server's own."""

    hosts: frozenset[str]
    origins: frozenset[str]
    any_port: frozenset[str] = frozenset()
    encoded: frozenset[bytes] = frozenset()
    """The `hosts` as bytes: the fast path of most requests, which have no `Origin`."""

    def check(self, scope: Scope) -> None:
        """Raise `Refused` for a missing, repeated or unknown `Host` and for an unknown `Origin`. HTTP/1.0 requires no
        `Host` (RFC 9112, 3.2), and no browser uses it."""
        found = [line for line in scope["headers"] if line[0] in CHECKED]
        if len(found) == 1 and found[0][0] == b"host" and found[0][1] in self.encoded:
            return
        hosts = [value for key, value in found if key == b"host"]
        if len(hosts) != 1 and (hosts or scope.get("http_version") != "1.0"):
            raise Refused(400, "A request must have exactly one Host header.")
        if hosts and not self.allows(hosts[0].decode("latin-1").lower()):
            raise Refused(421, "This Host is not allowed; --allow-host adds one.")
        if len(found) > len(hosts) and any(
            key == b"origin" and value.decode("latin-1").lower() not in self.origins for key, value in found
        ):
            raise Refused(403, "This Origin is not allowed; --allow-origin adds one.")

    def allows(self, host: str) -> bool:
        """Whether a `Host`, in lower case, is accepted."""
        return host in self.hosts or (bool(self.any_port) and PORT.sub("", host) in self.any_port)


def allow_hosts(
    host: str,
    port: int,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    *,
    secure: bool = False,
    any_port: bool = False,
) -> AllowedHosts:
    """The allowlist of a server at this address: its own names, those of loopback, and `hosts` and `origins`. With
    `any_port` its own names and those of loopback are accepted with any port, or without one."""
    own = {"127.0.0.1", "localhost", "[::1]"}
    if host not in ("", "0.0.0.0", "::"):  # noqa: S104 compared, not bound
        own.add(f"[{host}]" if ":" in host else host)
    default_port = 443 if secure else 80
    allowed = {f"{name}:{port}" for name in own} | (own if port == default_port else set())
    allowed |= {name.strip().lower() for name in hosts}
    allowed |= {f"{name.strip().lower()}:{port}" for name in hosts if not has_port(name)}
    known = {f"http{'s' * secure}://{name}" for name in allowed if has_port(name) or port == default_port}
    given = {origin.strip().lower().rstrip("/") for origin in origins} - {"null", "*", ""}
    loose = frozenset(name.lower() for name in own) if any_port else frozenset[str]()
    names = frozenset(name.lower() for name in allowed - {""})
    encoded = frozenset(name.encode() for name in names if name.isascii())
    return AllowedHosts(names, frozenset(known | given), loose, encoded)


def has_port(name: str) -> bool:
    """Whether a host name includes a port."""
    return name.rpartition("]")[2].rpartition(":")[1] == ":"
