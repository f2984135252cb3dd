"""The position of one subscriber in a session's events. It holds no event: a slow consumer buffers nothing."""

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

MAX_REPLAYED = 1_000
"""The most stored events that a reconnecting subscriber is sent one by one; beyond that it gets a snapshot."""
BATCH_EVENTS = 256
BATCH_BYTES = 256 << 10
"""The most events, and bytes, sent in one batch to a subscriber that is behind."""
DURABLE, TRANSIENT, INFO = 1, 2, 4
"""Kinds of events: for every client; deltas and status that are in no log; information about the session."""


def kind_of(event: Event) -> int:
    """The kind of an event. A failed turn is sent to all, since no event of the log reports it."""
    if event.durable or (isinstance(event, AgentStatusChanged) and event.reason and event.status == "error"):
        return DURABLE
    return INFO if isinstance(event, SessionInfo | CommandList | MemoryList) else TRANSIENT


class Wire(Protocol):
    """The connection to one client."""

    @property
    def ready(self) -> bool:
        """Whether it accepts frames now."""
        ...

    def write(self, frame: bytes) -> None:
        """Send one finished frame."""
        ...


class EventSource(Protocol):
    """Where a subscription reads: the recent events of a session, those in the store, and its current state."""

    ring: EventBuffer
    state: State

    def stored_frames(self, after_seq: int) -> Iterator[tuple[bytes, int]]:
        """Frames of the durable events after this one, with their numbers."""
        ...

    def snapshot_frame(self) -> bytes:
        """The whole state as it is now."""
        ...

    def live_frame(self) -> bytes:
        """What no log holds, as it is now."""
        ...


class Subscription:
    """One subscriber of a room. `seq` is the last durable event that was sent, None before the first."""

    __slots__ = ("_cursor", "_room", "_seq", "_wire", "info", "snapshots", "wants")

    def __init__(
        self, room: EventSource, wire: Wire, after_seq: int | None, *, deltas: bool = True, info: bool = True
    ) -> None:
        self._room = room
        self._wire = wire
        self._seq = after_seq
        self._cursor = -1
        """The next event of the ring; -1 while the store is read."""
        self.snapshots = 0
        self.select_kinds(deltas=deltas, info=info)

    def select_kinds(self, *, deltas: bool, info: bool) -> None:
        """Select the kinds of events that are sent from now on."""
        self.info = info
        self.wants = DURABLE | TRANSIENT * deltas | INFO * (deltas and info)

    def send_now(self, frame: bytes, kind: int) -> None:
        """Send a new event to an up-to-date subscriber: the common case."""
        if self._cursor == self._room.ring.end - 1 and self._wire.ready:
            self._cursor += 1
            if kind & self.wants:
                self._wire.write(frame)

    def send_pending(self) -> None:
        """Send what the subscriber has missed, as much as the wire takes."""
        while self._wire.ready and not self._is_up_to_date():
            if self._cursor < 0:
                self._send_stored()
            elif self._cursor < self._room.ring.start:
                self._send_snapshot()
            else:
                self._send_buffered()

    def _is_up_to_date(self) -> bool:
        return self._cursor == self._room.ring.end

    def _send_stored(self) -> None:
        """Send the stored events since the last one sent, then the live state, then continue with the buffer."""
        room = self._room
        if self._seq is None or not 0 <= room.state.seq - self._seq <= MAX_REPLAYED:
            self._send_snapshot()
            return
        for frame, seq in room.stored_frames(self._seq):
            self._wire.write(frame)
            self._seq = seq
            if not self._wire.ready:
                return
        if self.info:
            self._wire.write(room.live_frame())
        self._cursor = room.ring.end

    def _send_buffered(self) -> None:
        items = self._room.ring.since(self._cursor, BATCH_EVENTS, BATCH_BYTES)
        self._cursor += len(items)
        wanted = [item for item in items if kind_of(item[0]) & self.wants]
        for frame in coalesce(wanted):
            self._wire.write(frame)

    def _send_snapshot(self) -> None:
        self.snapshots += 1
        self._wire.write(self._room.snapshot_frame())
        self._cursor = self._room.ring.end


KEPT_EVENTS = 2_000
KEPT_BYTES = 4 << 20
MAX_MERGED_CHARS = 64_000
"""The most characters of streamed text that are merged into one event for a slow consumer."""


def encode_frame(payload: bytes) -> bytes:
    """A WebSocket text frame of a server (RFC 6455, section 5.2): not masked, not compressed, whole."""
    size = len(payload)
    if size < 126:
        return bytes((0x81, size)) + payload
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2, "big") + payload
    return b"\x81\x7f" + size.to_bytes(8, "big") + payload


class EventBuffer:
    """A ring of numbered events. `start` is the first it still has, `end` the next to come."""

    def __init__(self, kept_events: int = KEPT_EVENTS, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_events = kept_events
        self._kept_bytes = kept_bytes
        self._items: deque[tuple[Event, bytes]] = deque()
        self._bytes = 0
        self.start = self.end = 0

    def add(self, event: Event) -> bytes:
        """Append an event; gives its frame."""
        frame = encode_frame(encode(event))
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
        """Drop all events, since there are no subscribers."""
        self._items.clear()
        self._bytes = 0
        self.start = self.end

    def since(self, number: int, most: int, most_bytes: int) -> Sequence[tuple[Event, bytes]]:
        """At least one event and at most `most` of them from this number on."""
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
    """The frames of consecutive events, with the pieces of streamed text merged."""
    held: AgentOutput | ToolOutput | None = None
    texts: list[str] = []
    chars = 0
    for event, frame in items:
        if held is not None and chars < MAX_MERGED_CHARS and is_continuation(held, chars, event):
            texts.append(event.text)  # type: ignore[union-attr]
            chars += len(event.text)  # type: ignore[union-attr]
            continue
        if held is not None:
            yield merge_frames(held, texts)
            held = None
        if isinstance(event, AgentOutput | ToolOutput):
            held, texts, chars = event, [event.text], len(event.text)
        else:
            yield frame
    if held is not None:
        yield merge_frames(held, texts)


def is_continuation(held: AgentOutput | ToolOutput, chars: int, event: Event) -> bool:
    """Whether an event is the next piece of the same text."""
    match held, event:
        case AgentOutput(), AgentOutput():
            same = (held.agent_id, held.source) == (event.agent_id, event.source) and event.mode == "append"
            return same and event.offset == held.offset + chars
        case ToolOutput(), ToolOutput():
            return held.call_id == event.call_id and event.offset == held.offset + chars
    return False


def merge_frames(held: AgentOutput | ToolOutput, texts: list[str]) -> bytes:
    """Merge the pieces into one frame."""
    return encode_frame(
        encode(msgspec.structs.replace(held, text="".join(texts)) if len(texts) > 1 else held)
    )
