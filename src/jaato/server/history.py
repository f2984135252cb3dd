"""What a state does not hold, from the store: the earlier part of a conversation, and large results and images."""

from __future__ import annotations

from jaato.agent.masking import masked_log
from jaato.errors import ConfigError
from jaato.protocol.commands import BlobRequest, HistoryRequest
from jaato.protocol.events import Event
from jaato.protocol.events.state import Entry
from jaato.protocol.frames import Blob, History
from jaato.server.room import Room

MOST = 500
MOST_BYTES = 1 << 18
DIGEST_CHARS = 64
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


def piece_of(room: Room, asked: BlobRequest) -> Blob:
    """Bytes of a blob of this session, as it was kept: text without secrets. Raises `StoreError` for another's."""
    digest = asked.blob.removeprefix("result:")
    if len(digest) != DIGEST_CHARS or not digest.isalnum():
        raise ConfigError("A blob is named by its SHA-256 or its handle, as an event has it.")
    size_bytes = room.store.blob_size(room.session_id, digest)
    offset, limit = max(asked.offset, 0), min(max(asked.limit, 1), MOST_BYTES)
    return Blob(size_bytes, room.store.get_blob(room.session_id, digest, offset, limit), offset)
