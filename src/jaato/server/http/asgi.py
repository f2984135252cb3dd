"""What the ASGI applications of the server share: types, refusals, headers, and request bodies with a size limit and deadline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, cast

import anyio

from jaato.tools.pipeline import LoopNeeded, run_without_loop

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 8_000_000
BODY_S = 30.0


class Refused(Exception):
    """Refuses a request with an HTTP status and a message."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


def values(scope: Scope, name: bytes) -> list[str]:
    """The values of all headers of a name."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def header(scope: Scope, name: bytes) -> str | None:
    """The value of a header that is present exactly once."""
    found = values(scope, name)
    return found[0] if len(found) == 1 else None


def bearer(given: list[str]) -> str:
    """The token in the `Authorization` headers of a request; empty without one, or with several headers."""
    kind, _, token = (given[0] if len(given) == 1 else "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def receive_now(receive: Receive) -> Message | None:
    """The next message if it is there already; None if that has to be awaited."""
    try:
        return run_without_loop(cast("Coroutine[Any, Any, Message]", receive()))
    except LoopNeeded:
        return None


def is_whole(message: Message) -> bool:
    """Whether a message has the end of the body."""
    return message["type"] == "http.request" and "body" in message and not message.get("more_body", False)


def accepts_gzip(header: bytes | None) -> bool:
    """Whether an `Accept-Encoding` accepts gzip (RFC 9110, 12.5.3)."""
    if header is None or (b"gzip" not in header and b"*" not in header):
        return False
    found: dict[bytes, bool] = {}
    for part in header.lower().split(b","):
        coding, _, rest = part.partition(b";")
        quality = rest.strip().removeprefix(b"q=").strip() or b"1"
        found[coding.strip()] = quality.strip(b"0.") != b""
    return found.get(b"gzip", found.get(b"*", False))


async def body_of(scope: Scope, receive: Receive) -> bytes | None:
    """The complete body; None if the client disconnected. Raises `Refused` if it is too large or misses the deadline."""
    declared = header(scope, b"content-length")
    too_large = Refused(
        413, f"The body of a request has at most {MAX_BODY_BYTES:,} bytes.", connection="close"
    )
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
    raise Refused(408, f"The body was not complete within {BODY_S:g} s.", connection="close")


def replay_body(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body first."""
    given = False

    async def next_message() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message
