"""The registry's door as an ASGI application, to be mounted beside others."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec

from jaato.server.admission import KEY
from jaato.server.asgi import BODY_S, Receive, Refused, Scope, Send
from jaato.server.registry.answers import Answer
from jaato.server.registry.door import RegistryDoor, turned_away
from jaato.server.registry.request import EVERYTHING, Pending, Request, Who, request_id


class Application:
    """Answers what a `Gate` before it has let in."""

    def __init__(self, door: RegistryDoor) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = request_of(scope)
        answer = self._door.at_once(request, who_of(scope))
        if isinstance(answer, Pending):
            found = await self._answered(answer, receive)
            if found is None:
                return  # the client has gone
            answer = found
        head = request.method == b"HEAD"
        length = [] if answer.status == 304 else [(b"content-length", str(len(answer.body)).encode())]
        start = {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [*answer.headers, *length],
        }
        await send(start)
        await send({"type": "http.response.body", "body": b"" if head else answer.body})

    async def _answered(self, pending: Pending, receive: Receive) -> Answer | None:
        parts: list[bytes] = []
        size = 0
        with anyio.move_on_after(BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                piece = message.get("body", b"")
                size += len(piece)
                if size > self._door.max_body_bytes:
                    return self._door.too_large(pending.request)
                parts.append(piece)
                if not message.get("more_body", False):
                    break
            body = b"".join(parts)
        if not parts or message.get("more_body", False):
            return self._door.too_slow(pending.request)
        return await self._door.work(pending, body)


def request_of(scope: Scope) -> Request:
    """A request of ASGI's."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    headers: Any = scope["headers"]
    return Request(
        scope.get("method", "GET").encode(), path.partition(b"?")[0], headers, scope.get("query_string", b"")
    )


def who_of(scope: Scope) -> Who:
    """Whose session the calls of a request are in: that of its token."""
    held = scope.get("state", {}).get(KEY)
    if held is None or held.held is None:
        return Who()
    name = held.held.name or held.held.role
    return Who(f"token {held.held.digest or name}", name, EVERYTHING)


def refused(scope: Scope, problem: Refused) -> Any:
    """A refusal of the gate's in the contract's words: a whole result where a call was meant."""
    request = request_of(scope)
    answer = turned_away(request, problem)
    problem.headers.setdefault("x-request-id", request_id(request.header(b"x-request-id")).decode("ascii"))
    return msgspec.json.decode(answer.body)
