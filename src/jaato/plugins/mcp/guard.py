"""Requests to a server behind a URL: what it refused is remembered, what it sends is bounded in size and in pace."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2

from jaato.errors import JaatoError
from jaato.plugins.mcp.oauth_data import plain

MAX_BODY_BYTES = 32 << 20
STREAM_BURST_BYTES = 64 << 20
STREAM_BYTES_A_SECOND = 4 << 20
"""What a stream may go on sending; a faster one has to wait."""
BURST_LINES = 10_000
LINES_A_SECOND = 2_000
"""The same for the lines of its events, each of which has to be looked at."""
BURST_STREAMS = 5
STREAMS_A_SECOND = 1.0
"""How often a stream is opened again that the server ends, whatever it says about waiting."""
HEARING_S = 5.0
"""How long calls wait, once, for the stream by which the server may ask: who asks before it is there is heard by nobody."""


class Pace:
    """So many at once, and so many a second from then on."""

    def __init__(self, burst: float, a_second: float) -> None:
        self._burst = burst
        self._a_second = a_second
        self._left = burst
        self._at = time.monotonic()

    def wait_s(self, taken: float) -> float:
        """How long to wait after, or before, taking so many."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._a_second) - taken
        self._at = now
        return max(0.0, -self._left / self._a_second)


class Guard(httpx2.AsyncBaseTransport):
    """Requests to one server. `said` is what was wrong with the last message's, in a sentence; `over` is set when no other
    can succeed, `forgot` when that is so because the server does not know the session any more."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, over: anyio.Event, *, older: bool) -> None:
        self._inner = inner
        self._older = older
        self._bytes = Pace(STREAM_BURST_BYTES, STREAM_BYTES_A_SECOND)
        self._lines = Pace(BURST_LINES, LINES_A_SECOND)
        self._streams = Pace(BURST_STREAMS, STREAMS_A_SECOND)
        self.over = over
        self.refused = 0
        self.said = ""
        self.forgot = False
        self._hearing: anyio.Event | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request."""
        request.headers["accept-encoding"] = "identity"
        if request.method == "GET":
            self._hearing = self._hearing or anyio.Event()
            await anyio.sleep(self._streams.wait_s(1))
        elif self._hearing is not None and not self._hearing.is_set() and b'"tools/call"' in request.content:
            with anyio.move_on_after(HEARING_S):
                await self._hearing.wait()
            self._hearing.set()
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            self.failed(error)
            raise
        finally:
            if request.method == "GET" and self._hearing is not None:
                self._hearing.set()
        if request.method == "POST" or self._older:
            self._answered(request, response)
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            await response.aclose()
            self.failed(httpx2.RemoteProtocolError("the answer is compressed, which was not asked for"))
            raise httpx2.RemoteProtocolError("the answer is compressed, which was not asked for")
        endless = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = Bounded(response.stream, self, endless=endless)
        return response

    def _answered(self, request: httpx2.Request, response: httpx2.Response) -> None:
        """Remember how a message was answered. That streams are refused is common, and says nothing."""
        status = response.status_code
        self.said = ""
        if status < 400:
            return
        self.refused = status
        self.said = f"It answered HTTP {status} {plain(response.reason_phrase)}".strip() + "."
        if status == 404 and "mcp-session-id" in request.headers:
            self.forget()
        elif self._older and status != 401:
            self.over.set()  # the SDK sends nothing more, and tells nobody

    def forget(self) -> None:
        """The server does not know the session."""
        self.forgot = True
        self.over.set()

    def failed(self, error: Exception) -> None:
        """Remember what went wrong on the way."""
        known = isinstance(error, JaatoError)
        why = (plain(str(error)) or type(error).__name__).rstrip(".")
        self.said = str(error) if known else f"Its connection failed: {why}."

    async def pace(self, chunk: bytes) -> None:
        """Wait as long as a stream that has sent this may be made to wait."""
        lines = max(chunk.count(b"\n"), chunk.count(b"\r"))
        wait_s = max(self._bytes.wait_s(len(chunk)), self._lines.wait_s(lines))
        if wait_s > 0:
            await anyio.sleep(wait_s)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


class Bounded(httpx2.AsyncByteStream):
    """A body that ends, or is no faster than it can be taken."""

    def __init__(self, inner: Any, guard: Guard, *, endless: bool) -> None:
        self._inner = inner
        self._guard = guard
        self._endless = endless

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        try:
            async for chunk in self._inner:
                total += len(chunk)
                if self._endless:
                    await self._guard.pace(chunk)
                elif total > MAX_BODY_BYTES:
                    raise httpx2.StreamError(f"the answer is larger than {MAX_BODY_BYTES >> 20} MB")
                yield chunk
        except httpx2.TransportError as error:
            self._guard.failed(error)
            raise

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._inner.aclose()


class Client(httpx2.AsyncClient):
    """A client whose transport hears of messages that could not be sent, a login that failed among the reasons: the SDK
    sends nothing more then, and tells nobody."""

    def __init__(self, guard: Guard, **options: Any) -> None:
        super().__init__(transport=guard, trust_env=False, **options)
        self._guard = guard

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send one request."""
        try:
            return await super().send(request, **options)
        except Exception as error:
            if not isinstance(error, httpx2.TransportError):
                self._guard.failed(error)
            if request.method == "POST":
                self._guard.over.set()
            raise
