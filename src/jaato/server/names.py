"""What a server may be called in `Host`, and which pages may call it; no answer ever speaks of CORS."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jaato.server.asgi import Refused, Scope

SAID = frozenset((b"host", b"origin"))


@dataclass(frozen=True, slots=True)
class Names:
    """What a request may say in `Host` and `Origin`; compared whole, in lower case."""

    hosts: frozenset[str]
    origins: frozenset[str]

    def check(self, scope: Scope) -> None:
        """Raises `Refused` for none or two names, for another name, and for a page of another origin."""
        said = [line for line in scope["headers"] if line[0] in SAID]
        hosts = [value for key, value in said if key == b"host"]
        if len(hosts) != 1:
            raise Refused(400, "A request says once in Host what it takes the server for.")
        if hosts[0].decode("latin-1").lower() not in self.hosts:
            raise Refused(421, "This server is not called that; --allow-host adds a name.")
        if len(said) > 1 and any(
            key == b"origin" and value.decode("latin-1").lower() not in self.origins for key, value in said
        ):
            raise Refused(403, "Pages of this origin may not call; --allow-origin adds one.")


def names_of(
    host: str, port: int, hosts: Iterable[str] = (), origins: Iterable[str] = (), *, secure: bool = False
) -> Names:
    """The names of a server at this address: its own, those of loopback, and the ones that are given."""
    own = {"127.0.0.1", "localhost", "[::1]"}
    if host not in ("", "0.0.0.0", "::"):  # noqa: S104 compared, not bound
        own.add(f"[{host}]" if ":" in host else host)
    usual = 443 if secure else 80
    allowed = {f"{name}:{port}" for name in own} | (own if port == usual else set())
    allowed |= {name.strip().lower() for name in hosts}
    allowed |= {f"{name.strip().lower()}:{port}" for name in hosts if not has_port(name)}
    known = {f"http{'s' * secure}://{name}" for name in allowed if has_port(name) or port == usual}
    given = {origin.strip().lower().rstrip("/") for origin in origins} - {"null", "*", ""}
    return Names(frozenset(name.lower() for name in allowed - {""}), frozenset(known | given))


def has_port(name: str) -> bool:
    """Whether a host is named with its port."""
    return name.rpartition("]")[2].rpartition(":")[1] == ":"
