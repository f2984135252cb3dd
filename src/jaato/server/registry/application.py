"""The registry's door as an ASGI application, to be mounted beside others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any, TypeVar, cast

import anyio
import msgspec

from jaato.server.admission import KEY
from jaato.server.asgi import BODY_S, Receive, Refused, Scope, Send
from jaato.server.registry.answers import Answer, Stream
from jaato.server.registry.door import RegistryDoor, turned_away
from jaato.server.registry.request import EVERYTHING, Pending, Request, Who, request_id

T = TypeVar("T")


class Application:
    """Answers what a `Gate` before it has let in."""

    def __init__(self, door: RegistryDoor) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = request_of(scope)
        entered = scope.get("state", {}).get(KEY)
        if entered is not None and entered.entrance is not None:
            request.told = entered.entrance.told
        answer = self._door.at_once(request, who_of(scope))
        if isinstance(answer, Pending):
            found = await self._answered(answer, receive)
            if found is None:
                return  # the client has gone
            answer = found
        if answer.stream is not None:
            await pour(answer, answer.stream, receive, send)
            return
        head = request.method == b"HEAD"
        length = [] if answer.status == 304 else [(b"content-length", str(len(answer.body)).encode())]
        start = {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [*answer.headers, *request.told, *length],
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
        return await while_there(self._door.work(pending, body), receive)


async def while_there(work: Coroutine[Any, Any, T], receive: Receive) -> T | None:
    """What some work gives; None when the client has gone, and the work is cancelled then."""
    doing, watching = asyncio.create_task(work), asyncio.create_task(gone(receive))
    try:
        await asyncio.wait((doing, watching), return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        for task in (doing, watching):
            task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((doing, watching))


async def gone(receive: Receive) -> None:
    """Wait until the client has gone; what it says before is nothing that was asked for."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def pour(answer: Answer, stream: Stream, receive: Receive, send: Send) -> None:
    """Send what comes as it comes, while the client is there; the server below waits where it does not read."""

    async def sent() -> None:
        async with aclosing(stream) as pieces:
            await send(
                {"type": "http.response.start", "status": answer.status, "headers": [*answer.headers]}
            )
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    await while_there(sent(), receive)


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
    if held is not None and held.entrance is not None:
        return cast("Who", held.entrance.who)
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
