"""What is heard of one call while it is under way: whether it has begun, what it says, and how that is streamed."""

from __future__ import annotations

import asyncio
from collections import deque

from jaato.protocol.codec import encode
from jaato.protocol.events import Event, ToolCallEnd, ToolCallStart, ToolOutput
from jaato.server.registry.requests import Form
from jaato.server.registry.responses import Answer

BEAT_S = 15.0
"""How long nothing may be said before something is, so that nobody on the way takes the line for dead."""
KEPT_CHARS = 256_000
"""Characters kept for a client that does not read; what is older is dropped, and the tool waits for nobody."""


class Heard:
    """The ear of one call. Output is kept where somebody `listens`, up to a bound."""

    def __init__(self, *, listens: bool = False) -> None:
        self.begun = False
        self.text = False
        """Whether the tool gave a text, which may look like data."""
        self.apart = False
        """Whether its result is kept apart from its end, which does not say then whether it is a text."""
        self.end_seq = 0
        """Where the end is in the log; 0 while there is none."""
        self._listens = listens
        self._texts: deque[str] = deque()
        self._chars = self._dropped = self._offset = 0
        self._news = asyncio.Event()

    def hear(self, event: Event) -> None:
        """Take in what the session says of the call."""
        match event:
            case ToolCallStart():
                self.begun = True
                self._news.set()
            case ToolCallEnd():
                self.end_seq = event.seq
                self.apart = event.result.handle is not None
            case ToolOutput() if self._listens:
                self._said(event)

    def _said(self, event: ToolOutput) -> None:
        self._dropped += max(0, event.offset - self._offset)
        self._offset = event.offset + len(event.text)
        self._texts.append(event.text)
        self._chars += len(event.text)
        while self._chars > KEPT_CHARS:
            oldest = self._texts.popleft()
            surplus = min(len(oldest), self._chars - KEPT_CHARS)
            if surplus < len(oldest):
                self._texts.appendleft(oldest[surplus:])
            self._chars -= surplus
            self._dropped += surplus
        self._news.set()

    def wake(self, _over: object = None) -> None:
        """There is nothing more to wait for."""
        self._news.set()

    async def news(self) -> None:
        """Wait until something is there to be taken, the call has begun or is over."""
        await self._news.wait()
        self._news.clear()

    def take(self) -> tuple[str, int]:
        """What was said since the last time, and how many characters before it were dropped."""
        taken = "".join(self._texts), self._dropped
        self._texts.clear()
        self._chars = self._dropped = 0
        return taken


class Streamed:
    """What a call says and then its answer, piece by piece. Who stops listening closes it, and cancels the call where it is
    not to be done once."""

    def __init__(self, form: Form, heard: Heard, call: asyncio.Future[Answer]) -> None:
        self._form = form
        self._heard = heard
        self._call = call
        self._over = False

    def __aiter__(self) -> Streamed:
        return self

    async def __anext__(self) -> bytes:
        while not self._over:
            self._over = self._call.done()
            piece = said(self._form, self._heard)
            if self._over:
                return piece + result(self._form, self._call.result().body)
            if piece:
                return piece
            try:
                async with asyncio.timeout(BEAT_S):
                    await self._heard.news()
            except TimeoutError:
                return BEATS[self._form]
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Nobody listens any more."""
        self._over = True
        if not self._call.done():
            self._call.cancel()
            await asyncio.wait((self._call,))


def said(form: Form, heard: Heard) -> bytes:
    """What was said since the last time, if anything was."""
    text, dropped = heard.take()
    if not text and not dropped:
        return b""
    told: dict[str, object] = {"text": text, "dropped": dropped} if dropped else {"text": text}
    if form == "sse":
        return b"event: output\ndata: %b\n\n" % encode(told)
    return encode({"type": "output", **told}) + b"\n"


def result(form: Form, body: bytes) -> bytes:
    """The last word of a stream: the result, whole."""
    if form == "sse":
        return b"event: result\ndata: %b\n\n" % body
    return b'{"type":"result","result":%b}\n' % body


BEATS: dict[Form, bytes] = {"sse": b": still at work\n\n", "ndjson": b'{"type":"output","text":""}\n'}
"""What says nothing: a comment, and where there are none a text without a character."""
