"""One call of a registry: the request, its options, what is recorded while it runs, its outcome, and its output as a stream."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from jaato.errors import JaatoError
from jaato.protocol.arp import Invocation
from jaato.protocol.codec import encode
from jaato.protocol.events import Event, ToolCallEnd, ToolCallStart, ToolOutput
from jaato.protocol.messages import Problem, ToolResult
from jaato.server.registry.limits import ConcurrencyLimits
from jaato.server.registry.requests import Principal, StreamFormat
from jaato.server.registry.responses import Response
from jaato.tools.call import Call
from jaato.tools.tool import Tool

MAX_RESULT_BYTES = 8_000_000
KEEP_ALIVE_S = 15.0
"""The interval without output after which a keep-alive is sent, so that no proxy closes the connection."""
MAX_BUFFERED_CHARS = 256_000
"""Characters buffered for a client that does not read; older output is dropped, and the tool never waits."""
NOT_BEGUN = Problem(code="cancelled", message="Cancelled before it began; nothing was done.")
UNKNOWN = (
    "The call has begun and may have been carried out, but how it ended is not recorded. "
    "Look at what it was to do before it is made again."
)
KEEP_ALIVES: dict[StreamFormat, bytes] = {
    "sse": b": still at work\n\n",
    "ndjson": b'{"type":"output","text":""}\n',
}

ReadResult = Callable[[str, int, int], bytes]
"""Reads a stored result: `read(handle, offset, limit)`."""


class TooLarge(JaatoError):
    """The result is too large to be sent."""

    code = "tool.result_too_large"


class OutcomeUnknown(JaatoError):
    """The call may have been executed, and its end is not in the log."""

    code = "tool.outcome_unknown"


class CallRequest(Struct, frozen=True):
    """A call as requested: the caller, the tool, the invocation, the ids of its origin, and a timeout."""

    who: Principal
    tool: Tool
    invocation: Invocation
    origin: dict[str, str]
    within_s: float | None = None

    def digest(self) -> str:
        """A digest of the request; it does not depend on the formatting of the JSON."""
        return digest_of([self.tool.name, self.tool.version, self.invocation])


def digest_of(value: object) -> str:
    """A digest of a value as JSON with sorted keys."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:32]


class CallListener:
    """Records the events of one call: whether it has started, where its end is in the log, and its output if `streams`."""

    def __init__(self, *, streams: bool = False) -> None:
        self.begun = False
        self.is_text = False
        """Whether the tool returned a text, which may look like data."""
        self.is_stored = False
        """Whether the result is stored apart from the event of its end, which then does not say whether it is a text."""
        self.end_seq = 0
        """The sequence number of the end in the log; 0 before it is known."""
        self._streams = streams
        self._texts: deque[str] = deque()
        self._chars = self._dropped = self._offset = 0
        self._changed = asyncio.Event()

    def record(self, event: Event) -> None:
        """Record an event of the call."""
        match event:
            case ToolCallStart():
                self.begun = True
                self._changed.set()
            case ToolCallEnd():
                self.end_seq = event.seq
                self.is_stored = event.result.handle is not None
            case ToolOutput() if self._streams:
                self._buffer(event)

    def _buffer(self, event: ToolOutput) -> None:
        self._dropped += max(0, event.offset - self._offset)
        self._offset = event.offset + len(event.text)
        self._texts.append(event.text)
        self._chars += len(event.text)
        while self._chars > MAX_BUFFERED_CHARS:
            oldest = self._texts.popleft()
            surplus = min(len(oldest), self._chars - MAX_BUFFERED_CHARS)
            if surplus < len(oldest):
                self._texts.appendleft(oldest[surplus:])
            self._chars -= surplus
            self._dropped += surplus
        self._changed.set()

    def wake(self, _task: object = None) -> None:
        """End a `wait`: the call is over."""
        self._changed.set()

    async def wait(self) -> None:
        """Wait until there is output, or the call has started or ended."""
        await self._changed.wait()
        self._changed.clear()

    def take_output(self) -> tuple[str, int]:
        """The output since the last time, and the number of characters dropped before it."""
        taken = "".join(self._texts), self._dropped
        self._texts.clear()
        self._chars = self._dropped = 0
        return taken


@dataclass(frozen=True, slots=True)
class CallOptions:
    """Options of a call: its listener, the concurrency limits it is queued by, and `claim`, which is called before it starts
    with the session, the id of the call and the sequence number of the last event."""

    listener: CallListener
    limits: ConcurrencyLimits | None = None
    claim: Callable[[str, str, int], None] | None = None


class RunningCall(Struct, eq=False):
    """A call that is running and the task it runs in, its listener, and its end once recorded. `stopped`: it was cancelled."""

    task: asyncio.Task[Any] | None
    call: Call
    listener: CallListener | None = None
    end: ToolCallEnd | None = None
    stopped: bool = False


class CallOutcome(NamedTuple):
    """How a call ended: its value or its problem, and its duration. `begun`: the tool was run."""

    value: Any
    problem: Problem | None
    latency_ms: float
    begun: bool = True


def outcome_of(end: ToolCallEnd, read: ReadResult, *, text: bool) -> CallOutcome:
    """The outcome of a call by its end in the log; see `value_of`. Raises `TooLarge`, `StoreError`."""
    problem = end.result.error
    value = None if problem is not None else value_of(end.result, read, text=text)
    return CallOutcome(value, problem, int(end.duration_s * 1e6 + 0.5) / 1e3, has_begun(end))


def has_begun(end: ToolCallEnd) -> bool:
    """Whether the tool was run, as far as the end of the call shows. The end of a cancelled call has no permission; it has
    the origin if there is no start that has it, and the arguments if the tool was run all the same."""
    problem = end.result.error
    if problem is not None and problem.code == NOT_BEGUN.code:
        return end.origin is None or end.arguments is not None
    return end.permission is not None


def value_of(result: ToolResult, read: ReadResult, *, text: bool) -> Any:
    """The data of a result, else its text, complete; a stored result is not decoded if it is a `text`.

    Raises `TooLarge`, `StoreError`.
    """
    if result.structured is not None:
        return result.structured
    texts = result.texts
    if not texts:
        return [msgspec.to_builtins(part) for part in result.content] or None
    if result.handle is None:
        return "\n".join(texts)
    data = read(result.handle, 0, MAX_RESULT_BYTES + 1)
    if len(data) > MAX_RESULT_BYTES:
        raise TooLarge(
            f"The tool has run, and its result has more than {MAX_RESULT_BYTES:,} bytes, which are not sent. "
            "Ask for less at once."
        )
    try:
        return data.decode() if text else msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data.decode("utf-8", "replace")


class CallStream:
    """The output of a call and then its result, as chunks of a streamed response. Closing it cancels the call, unless that
    has an idempotency key."""

    def __init__(self, form: StreamFormat, listener: CallListener, call: asyncio.Future[Response]) -> None:
        self._form = form
        self._listener = listener
        self._call = call
        self._over = False

    def __aiter__(self) -> CallStream:
        return self

    async def __anext__(self) -> bytes:
        while not self._over:
            self._over = self._call.done()
            chunk = output_chunk(self._form, *self._listener.take_output())
            if self._over:
                return chunk + result_chunk(self._form, self._call.result().body)
            if chunk:
                return chunk
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    await self._listener.wait()
            except TimeoutError:
                return KEEP_ALIVES[self._form]
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the stream: the client has disconnected."""
        self._over = True
        if not self._call.done():
            self._call.cancel()
            await asyncio.wait((self._call,))


def output_chunk(form: StreamFormat, text: str, dropped: int) -> bytes:
    """An output event; nothing without output."""
    if not text and not dropped:
        return b""
    event: dict[str, object] = {"text": text, "dropped": dropped} if dropped else {"text": text}
    if form == "sse":
        return b"event: output\ndata: %b\n\n" % encode(event)
    return encode({"type": "output", **event}) + b"\n"


def result_chunk(form: StreamFormat, body: bytes) -> bytes:
    """The last event of a stream: the complete result."""
    if form == "sse":
        return b"event: result\ndata: %b\n\n" % body
    return b'{"type":"result","result":%b}\n' % body
