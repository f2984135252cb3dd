"""Who is let in, on every route and for every kind of connection, before anything that was sent is looked at."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

import anyio

from jaato.protocol.frames import NOT_LET_IN
from jaato.server.auth.admission import KEY, Admission, Judge, Pass
from jaato.server.auth.hosts import Names
from jaato.server.auth.throttle import Throttle
from jaato.server.http.asgi import App, Receive, Refused, Scope, Send, bearer, values

OBJECTION = "jaato.objection"
"""Where a request's scope says, in `state`, why the process that sends it is not let in as the owner."""
LOOK_S = 1.0
"""How soon those leave whose token was taken away."""
Form = Callable[[Scope, Refused], Any]


class Admit(Protocol):
    """How one kind of door decides."""

    async def admit(self, scope: Scope) -> Admission:
        """How this request comes in. Raises `Refused`."""
        ...

    def stays(self, admission: Admission) -> bool:
        """Whether somebody who came in so may stay."""
        ...


class Keyring(Protocol):
    """Keys that let in at some paths only."""

    def enter_at(self, path: str, key: str) -> Any:
        """What a key gives there; None for one that is not let in. Raises `Refused` for one that has asked too often."""
        ...

    def holds(self, entrance: Any) -> bool:
        """Whether it still gives that."""
        ...


class Gate:
    """An ASGI application that lets some requests through to another, with their admission in the scope's state."""

    def __init__(self, app: App, door: Admit, form: Form | None = None) -> None:
        self._app = app
        self._door = door
        self.form = form or problem
        self._inside: dict[Admission, anyio.CancelScope] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let in or refuse."""
        if scope["type"] not in ("http", "websocket"):
            return
        try:
            admission = await self._door.admit(scope)
        except Refused as refused:
            await turn_away(scope, send, refused, self.form)
            return
        scope.setdefault("state", {})[KEY] = admission
        with anyio.CancelScope() as inside:
            self._inside[admission] = inside
            try:
                await self._app(scope, receive, send)
            finally:
                del self._inside[admission]
        if inside.cancelled_caught and scope["type"] == "websocket":
            reason = "the token is no longer valid"
            await send({"type": "websocket.close", "code": NOT_LET_IN, "reason": reason})

    async def look(self) -> None:
        """Send those away, again and again, whose token has expired or was taken away."""
        while True:
            await anyio.sleep(LOOK_S)
            for admission, inside in list(self._inside.items()):
                if not self._door.stays(admission):
                    inside.cancel()


async def turn_away(scope: Scope, send: Send, refused: Refused, form: Form) -> None:
    """Say no, in words, on whichever kind of connection, and end it: nothing else on it is looked at."""
    body = json.dumps(form(scope, refused)).encode()
    named = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    named |= refused.headers
    headers = [(name.encode(), value.encode()) for name, value in named.items()]
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    await send({"type": f"{kind}.start", "status": refused.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


def problem(_scope: Scope, refused: Refused) -> Any:
    """A refusal as the server's own routes give it."""
    code = "not_found" if refused.status == 404 else "not_allowed"
    return {"error": {"code": code, "message": refused.text, "retryable": refused.status == 429}}


def rpc_problem(_scope: Scope, refused: Refused) -> Any:
    """A refusal as JSON-RPC has it."""
    return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": refused.text}}


class Local:
    """For the Unix socket: whoever comes through is the same user, as the socket has made sure."""

    async def admit(self, scope: Scope) -> Admission:
        """As the owner. Raises `Refused` for a process that may be none of the owner's own making."""
        objection = scope.get("state", {}).get(OBJECTION)
        if objection is not None:
            raise Refused(403, objection)
        return Admission(Pass("owner"), local=True)

    def stays(self, _admission: Admission) -> bool:
        """For good."""
        return True


class Remote:
    """For TCP: a name of ours in Host, no foreign Origin, and a token: in the header, or, at a path of `greeting`, in the
    first frame of a WebSocket. A right token is looked at first and never throttled, whatever else its address has tried."""

    def __init__(
        self,
        judge: Judge,
        names: Names,
        greeting: frozenset[str] = frozenset(),
        keyring: Keyring | None = None,
    ) -> None:
        self._judge = judge
        self._keyring = keyring
        self._names = names
        self._greeting = greeting
        self._throttle = Throttle()

    def stays(self, admission: Admission) -> bool:
        """Whether the token, or the key, still lets in."""
        if admission.entrance is not None and self._keyring is not None:
            return self._keyring.holds(admission.entrance)
        return admission.held is None or self._judge.holds(admission.held)

    async def admit(self, scope: Scope) -> Admission:
        """How this request comes in. Raises `Refused`."""
        self._names.check(scope)
        given = values(scope, b"authorization")
        peer = str((scope.get("client") or ("",))[0])
        if not given and scope["type"] == "websocket" and scope["path"] in self._greeting:
            return Admission(None, lambda token: self._greeted(token, peer))
        token = bearer(given)
        held = self._judge.judge(token)
        if held is not None:
            return Admission(held)
        if self._keyring is not None and scope["type"] == "http":
            entrance = self._keyring.enter_at(scope["path"], token)
            if entrance is not None:
                return Admission(None, entrance=entrance)
        if token:
            await self._throttle.wait(peer)  # to present none is no attempt, and costs nobody anything
        said = 'Bearer error="invalid_token"' if token else "Bearer"
        raise Refused(401, "Give the token: Authorization: Bearer TOKEN.", **{"www-authenticate": said})

    async def _greeted(self, token: str, peer: str) -> Pass | None:
        held = self._judge.judge(token)
        if held is None and token:
            await self._throttle.wait(peer)
        return held
