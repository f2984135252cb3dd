"""Authenticates requests on every route and kind of connection, before anything else of them is read.

`Host` and `Origin` are checked, then the token; wrong ones are throttled."""

from __future__ import annotations

import ipaddress
import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import anyio

from jaato.protocol.frames import NOT_LET_IN
from jaato.server.auth.cookies import cookie_half
from jaato.server.auth.identity import KEY, Admission, Identity, TokenVerifier
from jaato.server.http.asgi import App, Receive, Refused, Scope, Send, bearer, values

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


PROMPT = 10
"""Wrong credentials of one address that are answered without delay."""
MAX_PENDING = 100
"""The size of an address's bucket; attempts beyond it are refused with 429."""
LEAK_PER_S = 20.0
"""How fast a bucket leaks."""
DELAY_S = 0.25
MAX_DELAYED = 32
"""Answers delayed at a time over all addresses, for each occupies a connection."""
MAX_ADDRESSES = 10_000
TOO_MANY = "Too many wrong tokens; try again in a second."


class Throttle:
    """A leaky bucket for each address, in bounded memory: the address whose last failure is oldest is evicted first."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}
        self._delayed = 0

    async def wait(self, peer: str) -> None:
        """Count a wrong credential and delay its answer. Raises `Refused` with 429 for too many."""
        level = self._add(network_of(peer))
        if level <= PROMPT:
            return
        if level > MAX_PENDING or self._delayed >= MAX_DELAYED:
            raise too_many()
        self._delayed += 1
        try:
            await anyio.sleep(DELAY_S)
        finally:
            self._delayed -= 1

    def check(self, peer: str, words: str = TOO_MANY) -> None:
        """Count a wrong credential without a delay. Raises `Refused` with 429 for too many."""
        level = self._add(network_of(peer))
        if level > MAX_PENDING:
            raise too_many(words)

    def _add(self, network: str) -> float:
        """The level of an address after one more attempt; refused attempts do not raise it."""
        now = time.monotonic()
        level, since = self._buckets.pop(network, (0.0, now))
        level = max(0.0, level - (now - since) * LEAK_PER_S) + 1
        self._buckets[network] = (min(level, MAX_PENDING), now)
        while len(self._buckets) > MAX_ADDRESSES:
            del self._buckets[next(iter(self._buckets))]
        return level


def too_many(words: str = TOO_MANY) -> Refused:
    """The refusal, with `Retry-After`."""
    return Refused(429, words, **{"retry-after": "1"})


@lru_cache(4_096)
def network_of(peer: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 network of an IPv6 one."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped is not None:
        return peer
    return str(ipaddress.ip_network((address, 64), strict=False))


OBJECTION = "jaato.objection"
"""The key, in the `state` of a request's scope, of the reason why the sending process is not admitted as the owner."""
RECHECK_S = 1.0
"""How often the admissions of open requests are checked again."""
ErrorFormat = Callable[[Scope, Refused], Any]


class Authenticator(Protocol):
    """Authenticates the requests of one listener. If `rechecks`, an admission may end while its request is served."""

    rechecks: bool

    async def authenticate(self, scope: Scope) -> Admission:
        """How a request is admitted. Raises `Refused`."""
        ...

    def is_admitted(self, admission: Admission) -> bool:
        """Whether the admission is still valid."""
        ...


class KeyVerifier(Protocol):
    """Verifies keys that are accepted at some paths only."""

    def verify_key(self, path: str, key: str) -> Any:
        """What a key allows there, None if it is not accepted. Raises `Refused` when its rate limit is exceeded."""
        ...

    def is_valid(self, key: Any) -> bool:
        """Whether the result of an earlier `verify_key` is still accepted."""
        ...


class Gate:
    """An ASGI application that admits authenticated requests to another one, with their `Admission` in the scope."""

    def __init__(
        self, app: App, authenticator: Authenticator, error_format: ErrorFormat | None = None
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self.error_format = error_format or server_error
        self._open: dict[Admission, anyio.CancelScope] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate or refuse one request."""
        if scope["type"] not in ("http", "websocket"):
            return
        try:
            admission = await self._authenticator.authenticate(scope)
        except Refused as refused:
            await send_refusal(scope, send, refused, self.error_format)
            return
        scope.setdefault("state", {})[KEY] = admission
        if not self._authenticator.rechecks:
            await self._app(scope, receive, send)
            return
        with anyio.CancelScope() as cancel_scope:
            self._open[admission] = cancel_scope
            try:
                await self._app(scope, receive, send)
            finally:
                del self._open[admission]
        if cancel_scope.cancelled_caught and scope["type"] == "websocket":
            reason = "the token is no longer valid"
            await send({"type": "websocket.close", "code": NOT_LET_IN, "reason": reason})

    async def recheck(self) -> None:
        """Periodically cancel the requests whose token has expired or was removed."""
        while True:
            await anyio.sleep(RECHECK_S)
            for admission, cancel_scope in list(self._open.items()):
                if not self._authenticator.is_admitted(admission):
                    cancel_scope.cancel()


async def send_refusal(scope: Scope, send: Send, refused: Refused, error_format: ErrorFormat) -> None:
    """Answer a request, HTTP or WebSocket, with an error, and close its connection."""
    body = json.dumps(error_format(scope, refused)).encode()
    named = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    named |= refused.headers
    headers = [(name.encode(), value.encode()) for name, value in named.items()]
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    await send({"type": f"{kind}.start", "status": refused.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


def server_error(_scope: Scope, refused: Refused) -> Any:
    """The body of a refusal on the server's own routes."""
    code = "not_found" if refused.status == 404 else "not_allowed"
    return {"error": {"code": code, "message": refused.text, "retryable": refused.status == 429}}


def rpc_error(_scope: Scope, refused: Refused) -> Any:
    """The body of a refusal in JSON-RPC."""
    return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": refused.text}}


class LocalAuthenticator:
    """Authenticates requests on the Unix socket, whose listener accepts only processes of the same user."""

    rechecks = False

    async def authenticate(self, scope: Scope) -> Admission:
        """Authenticate as the owner. Raises `Refused` for a process that a tool call may have started."""
        objection = scope.get("state", {}).get(OBJECTION)
        if objection is not None:
            raise Refused(403, objection)
        return Admission(Identity("owner"), local=True)

    def is_admitted(self, _admission: Admission) -> bool:
        """The admission does not expire."""
        return True


class TokenAuthenticator:
    """Authenticates requests over TCP: an allowed `Host` and `Origin`, and a token in the header or, at the paths
    `greeting`, in the first frame of a WebSocket, where a browser's cookie may have the first half of it. A valid token is
    checked first and never throttled. `public` requests (method, path) are passed on unauthenticated."""

    rechecks = True

    def __init__(
        self,
        tokens: TokenVerifier,
        hosts: AllowedHosts,
        greeting: frozenset[str] = frozenset(),
        keys: KeyVerifier | None = None,
        public: Callable[[str, str], bool] = lambda _method, _path: False,
    ) -> None:
        self._tokens = tokens
        self._keys = keys
        self._hosts = hosts
        self._greeting = greeting
        self._public = public
        self._throttle = Throttle()

    def is_admitted(self, admission: Admission) -> bool:
        """Whether the token or the key is still valid."""
        if admission.key is not None and self._keys is not None:
            return self._keys.is_valid(admission.key)
        return admission.identity is None or self._tokens.is_valid(admission.identity)

    async def authenticate(self, scope: Scope) -> Admission:
        """How a request is admitted. Raises `Refused`."""
        self._hosts.check(scope)
        given = values(scope, b"authorization")
        peer = str((scope.get("client") or ("",))[0])
        if not given and scope["type"] == "websocket" and scope["path"] in self._greeting:
            half = cookie_half(scope)
            return Admission(None, lambda token: self._verify_greeting(token, half, peer))
        if scope["type"] == "http" and self._public(scope["method"], scope["path"]):
            return Admission(None)
        token = bearer(given)
        identity = self._tokens.verify(token)
        if identity is not None:
            return Admission(identity)
        if self._keys is not None and scope["type"] == "http":
            key = self._keys.verify_key(scope["path"], token)
            if key is not None:
                return Admission(None, key=key)
        if token:
            await self._throttle.wait(peer)  # a request without a token is no attempt
        challenge = 'Bearer error="invalid_token"' if token else "Bearer"
        text = "Send the token: Authorization: Bearer TOKEN."
        if scope["path"] == "/" and self._greeting:
            text += f" Clients of sessions connect by WebSocket at {', '.join(self._greeting)}."
        raise Refused(401, text, **{"www-authenticate": challenge})

    async def _verify_greeting(self, token: str, half: str, peer: str) -> Identity | None:
        identity = self._tokens.verify(token)
        if identity is None and half and token:
            identity = self._tokens.verify(half + token)
        if identity is None and token:
            await self._throttle.wait(peer)
        return identity
