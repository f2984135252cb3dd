"""Who may come in over HTTP: a token, a name of ours in Host, no foreign Origin, and a body of some size in some time."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import anyio

from jaato.server.mcp.secret import same

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 8_000_000
BODY_S = 30.0


@dataclass(frozen=True, slots=True)
class Names:
    """What a request may say in `Host` and `Origin`; compared whole, in lower case."""

    hosts: frozenset[str]
    origins: frozenset[str]


def names_of(host: str, port: int, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> Names:
    """The names of a server at this address: its own, those of loopback, and the ones that are given."""
    own = {"127.0.0.1", "localhost", "[::1]"}
    if host not in ("", "0.0.0.0", "::"):  # noqa: S104 compared, not bound
        own.add(f"[{host}]" if ":" in host else host)
    allowed = {f"{name}:{port}" for name in own} | (own if port == 80 else set())
    allowed |= {name.strip().lower() for name in hosts}
    allowed |= {f"{name.strip().lower()}:{port}" for name in hosts if not has_port(name)}
    known = {f"http://{name}" for name in allowed if has_port(name)}
    given = {origin.strip().lower().rstrip("/") for origin in origins} - {"null", "*"}
    return Names(frozenset(name.lower() for name in allowed), frozenset(known | given))


def has_port(name: str) -> bool:
    """Whether a host is named with its port."""
    return name.rpartition("]")[2].rpartition(":")[1] == ":"


class Refused(Exception):
    """A request that is not let in: the status and what is said."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


class Guard:
    """An ASGI application that lets some requests through to another; it never speaks of CORS."""

    def __init__(self, app: App, token: str, names: Names) -> None:
        self._app = app
        self._token = token
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check and pass on, or refuse."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        try:
            self._check(scope)
            body = await body_of(scope, receive)
        except Refused as refused:
            await refuse(send, refused)
            return
        if body is None:
            return  # the client has gone
        await self._app(scope, replayed(body, receive), send)

    def _check(self, scope: Scope) -> None:
        host = header(scope, b"host")
        if host is None or host.lower() not in self._names.hosts:
            raise Refused(421, "This server is not called that; --allow-host adds a name.")
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if any(value.decode("latin-1").lower() not in self._names.origins for value in origins):
            raise Refused(403, "Pages of this origin may not call; --allow-origin adds one.")
        given = header(scope, b"authorization")
        kind, _, token = (given or "").partition(" ")
        if kind.lower() != "bearer" or not same(token.strip().encode("latin-1"), self._token):
            raise Refused(
                401, "Give the token: Authorization: Bearer TOKEN.", **{"www-authenticate": "Bearer"}
            )


def header(scope: Scope, name: bytes) -> str | None:
    """A header that is there exactly once."""
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


async def body_of(scope: Scope, receive: Receive) -> bytes | None:
    """The body, whole; None when the client has gone. Raises `Refused` when it is too large or too slow."""
    declared = header(scope, b"content-length")
    too_large = Refused(413, f"A message has at most {MAX_BODY_BYTES:,} bytes.", connection="close")
    if declared is not None and (
        not declared.isdigit() or len(declared) > 12 or int(declared) > MAX_BODY_BYTES
    ):
        raise too_large
    parts: list[bytes] = []
    size = 0
    with anyio.move_on_after(BODY_S):
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            piece = message.get("body", b"")
            size += len(piece)
            if size > MAX_BODY_BYTES:
                raise too_large
            parts.append(piece)
            if not message.get("more_body", False):
                return b"".join(parts)
    raise Refused(408, f"The message was not there within {BODY_S:g} s.", connection="close")


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that begins with the body."""
    given = False

    async def next_message() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


async def refuse(send: Send, refused: Refused) -> None:
    """Say no, as JSON-RPC does."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": refused.text}}
    body = json.dumps(error).encode()
    named = {"content-type": "application/json", "content-length": str(len(body))} | refused.headers
    headers = [(name.encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
