"""How far one watcher of a session is. It holds no event: a watcher that cannot keep up costs a number."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

import msgspec

from jaato.protocol.codec import encode
from jaato.protocol.events import (
    AgentOutput,
    AgentStatusChanged,
    CommandList,
    Event,
    MemoryList,
    SessionInfo,
    ToolOutput,
)
from jaato.protocol.events.state import State

BEHIND = 1_000
"""Durable events a watcher that comes back may have missed and still be sent one by one."""
AT_ONCE = 256
AT_ONCE_BYTES = 256 << 10
"""Events sent in one go to a watcher that is behind."""
IN_LOG, PASSING, AROUND = 1, 2, 4
"""Kinds of events: those every client is sent, those that only say how something goes on, and what surrounds a session."""


def kind_of(event: Event) -> int:
    """Of which kind an event is. That a turn has broken off is sent to all, for no event of the log will say so."""
    if event.durable or (isinstance(event, AgentStatusChanged) and event.reason and event.status == "error"):
        return IN_LOG
    return AROUND if isinstance(event, SessionInfo | CommandList | MemoryList) else PASSING


class Wire(Protocol):
    """The way to one client."""

    @property
    def ready(self) -> bool:
        """Whether it takes more now."""
        ...

    def write(self, frame: bytes) -> None:
        """Send one finished frame."""
        ...


class EventSource(Protocol):
    """Where a watcher's events come from: the newest of a session, those in the store, and its state as it is now."""

    ring: EventBuffer
    state: State

    def stored(self, after_seq: int) -> Iterator[tuple[bytes, int]]:
        """Frames of the durable events after this one, with their numbers."""
        ...

    def snapshot_frame(self) -> bytes:
        """The whole state as it is now."""
        ...

    def live_frame(self) -> bytes:
        """What no log holds, as it is now."""
        ...


class Subscription:
    """One watcher of a room. `seq` is the last durable event that was sent, None while nothing was."""

    __slots__ = ("_place", "_room", "_seq", "_wire", "info", "snapshots", "wants")

    def __init__(
        self, room: EventSource, wire: Wire, after_seq: int | None, *, deltas: bool = True, info: bool = True
    ) -> None:
        self._room = room
        self._wire = wire
        self._seq = after_seq
        self._place = -1
        """The next event of the ring; -1 while the store is read."""
        self.snapshots = 0
        self.want(deltas=deltas, info=info)

    def want(self, *, deltas: bool, info: bool) -> None:
        """Which kinds of events are sent from now on."""
        self.info = info
        self.wants = IN_LOG | PASSING * deltas | AROUND * (deltas and info)

    def heard(self, frame: bytes, kind: int) -> None:
        """Something has happened: the common case, of a watcher who is up to date."""
        if self._place == self._room.ring.end - 1 and self._wire.ready:
            self._place += 1
            if kind & self.wants:
                self._wire.write(frame)

    def send_pending(self) -> None:
        """Send what is due, as much as the wire takes."""
        while self._wire.ready and not self._up_to_date():
            if self._place < 0:
                self._from_store()
            elif self._place < self._room.ring.start:
                self._snapshot()
            else:
                self._from_ring()

    def _up_to_date(self) -> bool:
        return self._place == self._room.ring.end

    def _from_store(self) -> None:
        """What a watcher that came back has missed; then what no log holds; then the ring."""
        room = self._room
        if self._seq is None or not 0 <= room.state.seq - self._seq <= BEHIND:
            self._snapshot()
            return
        for frame, seq in room.stored(self._seq):
            self._wire.write(frame)
            self._seq = seq
            if not self._wire.ready:
                return
        if self.info:
            self._wire.write(room.live_frame())
        self._place = room.ring.end

    def _from_ring(self) -> None:
        items = self._room.ring.since(self._place, AT_ONCE, AT_ONCE_BYTES)
        self._place += len(items)
        wanted = [item for item in items if kind_of(item[0]) & self.wants]
        for frame in coalesce(wanted):
            self._wire.write(frame)

    def _snapshot(self) -> None:
        self.snapshots += 1
        self._wire.write(self._room.snapshot_frame())
        self._place = self._room.ring.end


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


class EventBuffer:
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


def coalesce(items: Sequence[tuple[Event, bytes]]) -> Iterator[bytes]:
    """The frames of events in a row, text that was streamed in pieces put together."""
    held: AgentOutput | ToolOutput | None = None
    texts: list[str] = []
    chars = 0
    for event, frame in items:
        if held is not None and chars < JOINED_CHARS and is_continuation(held, chars, event):
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


def is_continuation(held: AgentOutput | ToolOutput, chars: int, event: Event) -> bool:
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
