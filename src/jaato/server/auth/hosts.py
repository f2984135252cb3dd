"""What a server may be called in `Host`, and which pages may call it; no answer ever speaks of CORS."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from jaato.server.http.asgi import Refused, Scope

SAID = frozenset((b"host", b"origin"))
PORT = re.compile(r":[0-9]{1,5}$")


@dataclass(frozen=True, slots=True)
class Names:
    """What a request may say in `Host` and `Origin`; compared whole, in lower case. For `any_port` the port of `Host` says
    nothing: where one is forwarded, it is not the server's own."""

    hosts: frozenset[str]
    origins: frozenset[str]
    any_port: frozenset[str] = frozenset()
    usual: frozenset[bytes] = frozenset()
    """The names as most requests say them, which say nothing else."""

    def check(self, scope: Scope) -> None:
        """Raises `Refused` for none or two names, for another name, and for a page of another origin. HTTP/1.0 needs no
        name (RFC 9112, 3.2), and no browser speaks it."""
        said = [line for line in scope["headers"] if line[0] in SAID]
        if len(said) == 1 and said[0][0] == b"host" and said[0][1] in self.usual:
            return
        hosts = [value for key, value in said if key == b"host"]
        if len(hosts) != 1 and (hosts or scope.get("http_version") != "1.0"):
            raise Refused(400, "A request says once in Host what it takes the server for.")
        if hosts and not self.known(hosts[0].decode("latin-1").lower()):
            raise Refused(421, "This server is not called that; --allow-host adds a name.")
        if len(said) > len(hosts) and any(
            key == b"origin" and value.decode("latin-1").lower() not in self.origins for key, value in said
        ):
            raise Refused(403, "Pages of this origin may not call; --allow-origin adds one.")

    def known(self, host: str) -> bool:
        """Whether the server is called that."""
        return host in self.hosts or (bool(self.any_port) and PORT.sub("", host) in self.any_port)


def names_of(
    host: str,
    port: int,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    *,
    secure: bool = False,
    any_port: bool = False,
) -> Names:
    """The names of a server at this address: its own, those of loopback, and the ones that are given. With `any_port`
    its own and those of loopback are good with any port, or without one."""
    own = {"127.0.0.1", "localhost", "[::1]"}
    if host not in ("", "0.0.0.0", "::"):  # noqa: S104 compared, not bound
        own.add(f"[{host}]" if ":" in host else host)
    usual = 443 if secure else 80
    allowed = {f"{name}:{port}" for name in own} | (own if port == usual else set())
    allowed |= {name.strip().lower() for name in hosts}
    allowed |= {f"{name.strip().lower()}:{port}" for name in hosts if not has_port(name)}
    known = {f"http{'s' * secure}://{name}" for name in allowed if has_port(name) or port == usual}
    given = {origin.strip().lower().rstrip("/") for origin in origins} - {"null", "*", ""}
    loose = frozenset(name.lower() for name in own) if any_port else frozenset[str]()
    names = frozenset(name.lower() for name in allowed - {""})
    usual_names = frozenset(name.encode() for name in names if name.isascii())
    return Names(names, frozenset(known | given), loose, usual_names)


def has_port(name: str) -> bool:
    """Whether a host is named with its port."""
    return name.rpartition("]")[2].rpartition(":")[1] == ":"
