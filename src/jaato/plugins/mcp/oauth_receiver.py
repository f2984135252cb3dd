"""The place on this machine to which a browser brings the answer of a login: one port, one state, one use."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl

import anyio
from anyio.abc import SocketAttribute, SocketStream

from jaato.tools.address import AddressRefused, parse_url

PATH = "/callback"
MAX_HEAD_BYTES = 16_384
HEAD_WITHIN_S = 10.0
MAX_CONNECTIONS = 16
MAX_WRONG = 50
KEPT = frozenset(("code", "state", "iss", "error", "error_description"))
THANKS = "The answer has reached jaato. You can close this page and go back."
WRONG = "This is not the answer jaato is waiting for."
GONE = "There is nothing here."


class Receiver:
    """Waits for one answer that carries the state of this login; all others are turned away and counted."""

    def __init__(self, host: str, port: int, path: str, state: str) -> None:
        self.authority = f"{host}:{port}"
        self.path = path
        self.redirect_uri = f"http://{self.authority}{path}"
        self._state = state
        self._wrong = 0
        self._answer: dict[str, str] | None = None
        self._done = anyio.Event()
        self._places = anyio.Semaphore(MAX_CONNECTIONS)

    async def answer(self) -> dict[str, str] | None:
        """The parameters of the answer, None when wrong ones keep coming."""
        await self._done.wait()
        return self._answer

    def take(self, query: str) -> bool:
        """Accept the query of a redirect if it is the awaited one; whether it was."""
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=50, errors="strict")
        except (ValueError, UnicodeError):
            pairs = []
        given = dict(pairs)
        once = len(given) == len(pairs) and all(len(value) <= 8_192 for value in given.values())
        right = once and hmac.compare_digest(given.get("state", "").encode(), self._state.encode())
        if not right or self._answer is not None:
            self._wrong += 1
            return False
        self._answer = {name: value for name, value in given.items() if name in KEPT}
        return True

    def settle(self) -> None:
        """End the waiting if there is an answer, or no hope of one."""
        if self._answer is not None or self._wrong >= MAX_WRONG:
            self._done.set()

    def paste(self, text: str) -> bool:
        """Accept the address a person copied from the browser; whether it was the awaited one."""
        try:
            url = parse_url(text.strip())
        except AddressRefused:
            return False
        taken = url.target.partition("?")[0] == self.path and self.take(url.target.partition("?")[2])
        self.settle()
        return taken

    async def serve(self, stream: SocketStream) -> None:
        """Answer one request of a browser."""
        async with stream, self._places:
            try:
                with anyio.fail_after(HEAD_WITHIN_S):
                    head = await head_of(stream)
                    await stream.send(self._page(head))
            except (TimeoutError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            finally:
                self.settle()  # only now, so that the page is sent before the receiver goes

    def _page(self, head: bytes) -> bytes:
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        hosts = [line.partition(":")[2].strip() for line in lines[1:] if line.lower().startswith("host:")]
        if len(words) != 3 or words[0] != "GET" or hosts != [self.authority]:
            return page("400 Bad Request", GONE)  # a name that was bent to this address asks for another host
        path, _, query = words[1].partition("?")
        if path != self.path:
            return page("404 Not Found", GONE)
        return page("200 OK", THANKS) if self.take(query) else page("400 Bad Request", WRONG)


async def head_of(stream: SocketStream) -> bytes:
    """The head of a request, or what there is of it."""
    data = b""
    while b"\r\n\r\n" not in data and len(data) < MAX_HEAD_BYTES:
        try:
            data += await stream.receive(4_096)
        except anyio.EndOfStream:
            break
    return data if b"\r\n\r\n" in data else b""


def page(status: str, text: str) -> bytes:
    """A page of plain text that holds nothing of the request."""
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
        "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


@asynccontextmanager
async def receiver(
    state: str, port: int = 0, *, only: bool = False, host: str = "127.0.0.1", path: str = PATH
) -> AsyncIterator[Receiver]:
    """A receiver at work on 127.0.0.1, which may be called `host`: at `port`, or at any free one unless `only` that
    will do. Raises OSError."""
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    except OSError:
        if only or port == 0:
            raise
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    failure: Exception | None = None
    async with listener:
        at = listener.extra(SocketAttribute.local_port)  # noqa: S610 - anyio's, not Django's
        found = Receiver(host, at, path, state)
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, found.serve)
            try:
                yield found
            except Exception as error:  # noqa: BLE001 - raised again below, outside the group that would wrap it
                failure = error
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
