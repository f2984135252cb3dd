"""The newest events of a session as finished frames, which all its watchers share."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from jaato.protocol.codec import encode
from jaato.protocol.events import AgentOutput, Event, ToolOutput

KEPT_EVENTS = 2_000
KEPT_BYTES = 4 << 20
JOINED_CHARS = 64_000
"""How much streamed text is put into one event for a watcher that is behind."""


def framed(payload: bytes) -> bytes:
    """A WebSocket text frame of a server (RFC 6455, section 5.2): not masked, not compressed, whole."""
    size = len(payload)
    if size < 126:
        return bytes((0x81, size)) + payload
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2, "big") + payload
    return b"\x81\x7f" + size.to_bytes(8, "big") + payload


class Ring:
    """Events numbered from the first this ring has seen. `start` is the first it still has, `end` the next to come."""

    def __init__(self, kept_events: int = KEPT_EVENTS, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_events = kept_events
        self._kept_bytes = kept_bytes
        self._items: deque[tuple[Event, bytes]] = deque()
        self._bytes = 0
        self.start = self.end = 0

    def add(self, event: Event) -> bytes:
        """Keep one more; gives its frame."""
        frame = framed(encode(event))
        self._items.append((event, frame))
        self._bytes += len(frame)
        self.end += 1
        while len(self._items) > 1 and (
            len(self._items) > self._kept_events or self._bytes > self._kept_bytes
        ):
            self._bytes -= len(self._items.popleft()[1])
            self.start += 1
        return frame

    def clear(self) -> None:
        """Keep nothing: nobody watches."""
        self._items.clear()
        self._bytes = 0
        self.start = self.end

    def since(self, number: int, most: int, most_bytes: int) -> Sequence[tuple[Event, bytes]]:
        """At least one and at most so many from this number on."""
        first = number - self.start
        if first == len(self._items) - 1:
            return (self._items[-1],)
        found = []
        for item in islice(self._items, first, first + most):
            found.append(item)
            most_bytes -= len(item[1])
            if most_bytes <= 0:
                break
        return found


def joined(items: Sequence[tuple[Event, bytes]]) -> Iterator[bytes]:
    """The frames of events in a row, text that was streamed in pieces put together."""
    held: AgentOutput | ToolOutput | None = None
    texts: list[str] = []
    chars = 0
    for event, frame in items:
        if held is not None and chars < JOINED_CHARS and goes_on(held, chars, event):
            texts.append(event.text)  # type: ignore[union-attr]
            chars += len(event.text)  # type: ignore[union-attr]
            continue
        if held is not None:
            yield whole(held, texts)
            held = None
        if isinstance(event, AgentOutput | ToolOutput):
            held, texts, chars = event, [event.text], len(event.text)
        else:
            yield frame
    if held is not None:
        yield whole(held, texts)


def goes_on(held: AgentOutput | ToolOutput, chars: int, event: Event) -> bool:
    """Whether an event is the next piece of the same text."""
    match held, event:
        case AgentOutput(), AgentOutput():
            same = (held.agent_id, held.source) == (event.agent_id, event.source) and event.mode == "append"
            return same and event.offset == held.offset + chars
        case ToolOutput(), ToolOutput():
            return held.call_id == event.call_id and event.offset == held.offset + chars
    return False


def whole(held: AgentOutput | ToolOutput, texts: list[str]) -> bytes:
    """One frame of the pieces."""
    return framed(encode(msgspec.structs.replace(held, text="".join(texts)) if len(texts) > 1 else held))
