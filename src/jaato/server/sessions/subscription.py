"""How far one watcher of a session is. It holds no event: a watcher that cannot keep up costs a number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from jaato.protocol.events import AgentStatusChanged, CommandList, Event, MemoryList, SessionInfo
from jaato.protocol.events.state import State
from jaato.server.sessions.event_buffer import Ring, joined

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

    ring: Ring
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


class Feed:
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

    def go_on(self) -> None:
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
        for frame in joined(wanted):
            self._wire.write(frame)

    def _snapshot(self) -> None:
        self.snapshots += 1
        self._wire.write(self._room.snapshot_frame())
        self._place = self._room.ring.end
