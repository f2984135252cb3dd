"""The part of a conversation that a state no longer holds, page by page from the store."""

from __future__ import annotations

from jaato.agent.masking import masked_log
from jaato.protocol.commands import HistoryRequest
from jaato.protocol.events import Event
from jaato.protocol.events.state import Entry
from jaato.protocol.frames import History
from jaato.server.room import Room

MOST = 500
READ = 4
"""Events read for each entry that is asked for, to begin with: not every event is one."""


def page_of(room: Room, asked: HistoryRequest) -> History:
    """The newest entries before an event, oldest first; work grows with what is asked for, not with the log."""
    limit = min(max(asked.limit, 1), MOST)
    end = (
        room.state.seq + 1 if asked.before_seq is None else min(max(asked.before_seq, 1), room.state.seq + 1)
    )
    found: list[Event] = []
    span = limit * READ
    start = end
    while start > 1 and len(found) < limit:
        start, before = max(1, start - span), start
        page = [event for event in between(room, start, before) if isinstance(event, Entry)]
        found = page + found
        span *= 2
    found = found[-limit:]
    more = bool(found) and (start > 1 or len(found) == limit)
    return History(found, found[0].seq if more and found[0].seq > 1 else None)


def between(room: Room, first: int, end: int) -> list[Event]:
    """The stored events from `first` to before `end`."""
    read: list[Event] = []
    for event in masked_log(room.store.read(room.session_id, first - 1), room.secrets):
        if isinstance(event, Event):
            if event.seq >= end:
                break
            read.append(event)
    return read
