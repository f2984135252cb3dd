"""The registry's door as an ASGI application: at an address of its own, or mounted beside others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from typing import Any, cast

import anyio
import msgspec

from jaato.server.auth.admission import KEY
from jaato.server.http.asgi import BODY_S, Receive, Refused, Scope, Send
from jaato.server.registry.keys import peer_of
from jaato.server.registry.requests import EVERYTHING, Pending, Request, Who, request_id
from jaato.server.registry.responses import REFUSALS, Answer, Stream, identified, turned_away, unanswered
from jaato.server.registry.routes import RegistryDoor

LINGER_S = 5.0
WATCHED_AFTER_S = 0.005
"""How long work may take before it is watched whether its client has gone: most is over before."""
LAST = frozenset((408, 413))
"""What is said of a body that is not read to its end: nothing else on the connection is."""


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
            request.told, request.spend = entered.entrance.told, entered.entrance.spend
        answer = self._door.at_once(request, who_of(scope))
        if isinstance(answer, Pending):
            body = await self._body(answer, receive)
            found = body if isinstance(body, Answer) else await self._worked(answer, body, receive)
            if found is None:
                return  # the client has gone
            answer = found
        if answer.status >= 400:
            REFUSALS.note(request, answer, peer_of(scope))
        if answer.stream is not None:
            whole = scope.get("http_version") == "1.0"  # which knows no chunks
            await poured(answer, request, answer.stream, receive, send, whole=whole)
            return
        last = [(b"connection", b"close")] if answer.status in LAST else []
        length = [] if answer.status in (204, 304) else [(b"content-length", str(len(answer.body)).encode())]
        start = {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [*answer.headers, *request.told, *length, *last],
        }
        await send(start)
        body = b"" if request.method == b"HEAD" else answer.body
        await send({"type": "http.response.body", "body": body, "more_body": bool(last)})
        if last:
            await heard_out(receive)
            await send({"type": "http.response.body", "body": b""})

    async def _body(self, pending: Pending, receive: Receive) -> bytes | Answer | None:
        """The body; the answer to one that is too large or too slow; None when the client has gone."""
        parts: list[bytes] = []
        size = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(BODY_S):
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
                        return b"".join(parts)
        return self._door.too_slow(pending.request)

    async def _worked(self, pending: Pending, body: bytes | None, receive: Receive) -> Answer | None:
        """The answer; None when the client goes before there is one, whose work is cancelled then."""
        if body is None:
            return None
        try:
            return await while_there(self._door.work(pending, body), receive)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return unanswered(pending.request, None)
        except Exception as error:  # noqa: BLE001 whoever asks is answered all the same
            return unanswered(pending.request, error)


async def while_there(work: Coroutine[Any, Any, Answer], receive: Receive) -> Answer | None:
    """What some work gives; None when the client goes before, and the work is cancelled then."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    watching: list[asyncio.Task[None]] = []
    gone = False

    async def watch() -> None:
        nonlocal gone
        await receive()
        gone = True
        task.cancel()

    later = loop.call_later(WATCHED_AFTER_S, lambda: watching.append(loop.create_task(watch())))
    try:
        answer = await work
    except asyncio.CancelledError:
        if not gone or task.uncancel():
            raise
        return None
    finally:
        later.cancel()
        for one in watching:
            one.cancel()
    if gone:
        task.uncancel()
        return None
    return answer


async def poured(
    answer: Answer, request: Request, stream: Stream, receive: Receive, send: Send, *, whole: bool
) -> None:
    """Send what comes as it comes, or in one piece, while the client is there; the server below waits where it does not
    read, and leaves it in the end."""

    async def pour() -> None:
        headers = [*answer.headers, *request.told]
        if whole:
            body = b"".join([piece async for piece in stream])
            headers.append((b"content-length", str(len(body)).encode()))
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        async for piece in stream:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with aclosing(stream):
        work, gone = asyncio.ensure_future(pour()), asyncio.ensure_future(receive())
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            problem = work.exception() if work.done() and not work.cancelled() else None
            if problem is not None:
                raise problem
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.wait((work, gone))


async def heard_out(receive: Receive) -> None:
    """Let a client say the rest for a while: where it is cut off in the middle, it does not read what it was told."""
    with anyio.move_on_after(LINGER_S):
        while (await receive()).get("more_body", False):
            pass


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


def refused(scope: Scope, problem: Refused, door: RegistryDoor | None = None) -> Any:
    """A refusal of the gate's in the contract's words, counted by a door of its own: a whole result where a call was meant."""
    request = request_of(scope)
    if door is not None:
        answer = door.turn_away(request, problem)
    else:
        answer = identified(turned_away(request, problem), request_id(request.header(b"x-request-id")))
    problem.headers.setdefault("x-request-id", answer.headers[-1][1].decode("ascii"))
    REFUSALS.note(request, answer, peer_of(scope))
    return msgspec.json.decode(answer.body)
