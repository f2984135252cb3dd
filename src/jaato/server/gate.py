"""Who is let in, on every route and for every kind of connection, before anything that was sent is looked at."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from jaato.protocol.frames import Role
from jaato.server.connection import Admission
from jaato.server.mcp.guard import App, Names, Receive, Refused, Scope, Send, header
from jaato.server.tokens import Tokens

ADMISSION = "jaato.admission"
FAILURES = 10
"""Failures of one address that are answered at once; after them an answer takes its time."""
MOST_FAILURES = 100
"""Failures of one address in `FORGET_S` after which it is told to come later."""
FORGET_S = 60.0
DELAY_S = 1.0
ADDRESSES = 10_000
Admit = Callable[[Scope], Awaitable[Admission]]


class Gate:
    """An ASGI application that lets some requests through to another, with their admission in the scope's state."""

    def __init__(self, app: App, admit: Admit) -> None:
        self._app = app
        self._admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let in or refuse."""
        if scope["type"] not in ("http", "websocket"):
            return
        try:
            admission = await self._admit(scope)
        except Refused as refused:
            await turn_away(scope, send, refused)
            return
        scope.setdefault("state", {})[ADMISSION] = admission
        await self._app(scope, receive, send)


async def turn_away(scope: Scope, send: Send, refused: Refused) -> None:
    """Say no, in words, on whichever kind of connection."""
    problem = {"code": "not_let_in", "message": refused.text, "retryable": refused.status == 429}
    body = json.dumps({"error": problem}).encode()
    named = {"content-type": "application/json", "content-length": str(len(body))} | refused.headers
    headers = [(name.encode(), value.encode()) for name, value in named.items()]
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    await send({"type": f"{kind}.start", "status": refused.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


def local() -> Admit:
    """For the Unix socket: whoever comes through is the same user, as the socket has made sure."""

    async def admit(_scope: Scope) -> Admission:
        return Admission("owner", lambda _token: None, local=True)

    return admit


class Remote:
    """For TCP: a name of ours in Host, no foreign Origin, and a token, in a header or in the first frame."""

    def __init__(self, tokens: Tokens, names: Names) -> None:
        self._tokens = tokens
        self._names = names
        self._failures: dict[str, tuple[int, float]] = {}

    async def __call__(self, scope: Scope) -> Admission:
        """How this request comes in. Raises `Refused`."""
        host = header(scope, b"host")
        if host is None or host.lower() not in self._names.hosts:
            raise Refused(421, "This server is not called that; --allow-host adds a name.")
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if any(value.decode("latin-1").lower() not in self._names.origins for value in origins):
            raise Refused(403, "Pages of this origin may not call; --allow-origin adds one.")
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        peer = str((scope.get("client") or ("",))[0])
        if not given and scope["type"] == "websocket":
            if self._failures.get(peer, (0, 0.0))[0] > MOST_FAILURES:
                await self._failed(peer)
            return Admission(None, lambda token: self._role(token, peer))
        kind, _, token = (given[0].decode("latin-1") if len(given) == 1 else "").partition(" ")
        judged = self._tokens.judge(token.strip()) if kind.lower() == "bearer" else None
        if judged is None:
            await self._failed(peer)
            raise Refused(
                401, "Give the token: Authorization: Bearer TOKEN.", **{"www-authenticate": "Bearer"}
            )
        return Admission(judged[0], lambda _token: None, judged[1])

    def _role(self, token: str, peer: str) -> Role | None:
        judged = self._tokens.judge(token)
        if judged is None:
            self._count(peer)
            return None
        return judged[0]

    def _count(self, peer: str) -> int:
        now = time.monotonic()
        count, since = self._failures.pop(peer, (0, now))
        if now - since > FORGET_S:
            count, since = 0, now
        self._failures[peer] = (count + 1, since)
        if len(self._failures) > ADDRESSES:
            del self._failures[next(iter(self._failures))]
        return count + 1

    async def _failed(self, peer: str) -> None:
        """Slow down whoever tries one token after the other; a right one is never kept waiting. Raises `Refused`."""
        count = self._count(peer)
        if count > MOST_FAILURES:
            raise Refused(
                429, "Too many wrong tokens; come back later.", **{"retry-after": str(int(FORGET_S))}
            )
        if count > FAILURES:
            await asyncio.sleep(DELAY_S)
