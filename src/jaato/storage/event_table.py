"""The table of events: encodes and inserts rows, reads them in chunks, and reports damaged ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

import msgspec

from jaato.abc.store import MISSING, Damaged, InvalidEvent
from jaato.errors import SessionNotFound, StoreError
from jaato.protocol.codec import decode_event, encode
from jaato.protocol.events import AgentCreated, Event, SessionUpdated
from jaato.storage.database import ConnectionGuard
from jaato.storage.errors import is_damage
from jaato.storage.schema import SEQ_BITS
from jaato.storage.session_table import TENTH, tenth_of_second

CHUNK_EVENTS = 256
CHUNK_BYTES = 1 << 20

INSERT = "INSERT INTO event SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM event WHERE position = ? - 1)"
"""An event goes in only after its predecessor, so that a log has no gap and is not deleted by now. Its position is the
first and the last value: a numbered parameter is a DeprecationWarning before Python 3.12.4."""
INSERT_NEXT = "INSERT INTO event VALUES (?, ?, ?)"
"""One whose predecessor has gone in before it, in the same transaction."""

AT_ONCE = 8
"""Events that go in with one statement, which is a commit of its own."""
ROWS = [", ".join(["(?, ?, ?)"] * count) for count in range(1, AT_ONCE + 1)]
INSERTS = [
    f"INSERT INTO event SELECT * FROM (VALUES {places}) "  # noqa: S608 nothing but question marks
    "WHERE EXISTS (SELECT 1 FROM lease WHERE fence = ?)"
    for places in ROWS
]
"""By number of events: they go in while the lease they are written under is the session's. Nothing else is read from the
table they go into, or SQLite would first put them into a temporary one."""
LEASED = "SELECT 1 FROM lease WHERE fence = ?"
UNLEASED = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM lease WHERE session = ?)"

LISTED = frozenset((SessionUpdated, AgentCreated))
"""Events that are seen in the list of sessions."""
SEQ_LIMIT = 1 << SEQ_BITS
MAX_EVENT_BYTES = 64 << 20
READ = (
    f"SELECT position, CASE WHEN length(data) <= {MAX_EVENT_BYTES} THEN data END, length(data) "  # noqa: S608 a number of ours
    "FROM event WHERE position > ? AND position <= ? ORDER BY position"
)
UPDATE = (
    "UPDATE session SET name = coalesce(?, name), description = coalesce(?, description), "
    "provider = coalesce(?, provider), model = coalesce(?, model) WHERE number = ?"
)
TOUCH = "UPDATE session SET touched_at = max(touched_at, ?) WHERE number = ?"

Row = tuple[int, str, bytes]
"""An event to be stored: seq, timestamp, JSON."""


class WriteHandle(msgspec.Struct):
    """What this process knows of a session it writes to."""

    number: int
    touched_at: str
    fence: int = 0
    last_seq: int = 0
    """The last event that was written under this lease, under which no other process writes or deletes any; 0 before the first."""


def encode_rows(events: Sequence[Event], first_seq: int) -> list[Row]:
    """Events as rows (seq, timestamp, bytes); raises `InvalidEvent` for one that cannot be stored."""
    rows: list[Row] = []
    session_id = events[0].session_id
    for seq, event in enumerate(events, first_seq):
        if event.seq != seq or event.session_id != session_id or not event.durable or not 0 < seq < SEQ_LIMIT:
            raise InvalidEvent(
                f"Event {event.seq} ({type(event).__name__}) of session {event.session_id} cannot be stored: "
                f"event {seq} of session {session_id} is next, and only durable events are kept.",
                len(rows),
            )
        try:
            data = encode(event)
            if len(data) > MAX_EVENT_BYTES:
                raise ValueError(
                    f"it would have {len(data):,} bytes, and at most {MAX_EVENT_BYTES >> 20} MB are read"
                )
            rows.append((seq, event.timestamp, data))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            kind = type(event).__name__
            raise InvalidEvent(
                f"Event {seq} ({kind}) cannot be written as JSON: {error}.", len(rows)
            ) from error
    return rows


def decode_event_row(session_id: str, seq: int, data: bytes | str) -> Event | Damaged:
    """One event, or what is wrong with it."""
    if isinstance(data, str):
        return Damaged(session_id, seq, data)
    try:
        event = decode_event(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Damaged(session_id, seq, f"it cannot be read: {error}")
    if event.seq != seq or event.session_id != session_id:
        return Damaged(session_id, seq, f"it says it is event {event.seq} of session {event.session_id}")
    return event


def row_values(log: WriteHandle, row: Row) -> tuple[int, str, bytearray]:
    """A row as it is stored. Of bytes, SQLite's module asks each time whether they want to be something else."""
    return (log.number << SEQ_BITS) + row[0], row[1], bytearray(row[2])


def size_of(rows: list[Row]) -> int:
    """The bytes of the events themselves."""
    return sum([len(row[2]) for row in rows])


def changes_session_row(events: Sequence[Event], log: WriteHandle) -> bool:
    """Whether events are seen in the list of sessions, so that their session's row has to be written too."""
    touched = tenth_of_second(log.touched_at)
    for event in events:  # noqa: SIM110 a generator costs as much again
        if type(event) in LISTED or event.timestamp[:TENTH] > touched:
            return True
    return False


def insert_events(connection: sqlite3.Connection, log: WriteHandle, rows: list[Row]) -> bool:
    """Insert at most `AT_ONCE` rows that follow the last one in one statement that is a commit; False if the lease was lost."""
    values: list[int | str | bytearray] = []
    start = log.number << SEQ_BITS
    for seq, timestamp, data in rows:
        values += (start + seq, timestamp, bytearray(data))
    values.append(log.fence)
    return connection.execute(INSERTS[len(rows) - 1], values).rowcount == len(rows)


def write_events(
    connection: sqlite3.Connection, log: WriteHandle, rows: list[Row], events: Sequence[Event]
) -> bool:
    """In a transaction, insert rows and bring the session's own row up to date; False if there is a gap, or the lease
    is not the session's any more; without a lease, if another holds one."""
    right = (LEASED, log.fence) if log.fence else (UNLEASED, events[0].session_id if events else "")
    if not connection.execute(right[0], right[1:]).fetchone():
        return False
    values = [row_values(log, row) for row in rows]
    if values and connection.execute(INSERT, (*values[0], values[0][0])).rowcount != 1:
        return False
    if len(values) > 1:
        connection.executemany(INSERT_NEXT, values[1:])
    for event in events:
        match event:
            case SessionUpdated():
                shown = (event.name, event.description, event.provider, event.model)
            case AgentCreated(parent_agent_id=None):
                shown = (None, None, event.provider, event.model)
            case _:
                continue
        connection.execute(UPDATE, (*shown, log.number))
    latest = max([event.timestamp for event in events])
    if tenth_of_second(latest) > tenth_of_second(log.touched_at):
        connection.execute(TOUCH, (latest, log.number))
        log.touched_at = latest
    return True


def read_events(
    guard: ConnectionGuard, session_id: str, start: int, after: int, last: int
) -> Iterator[Event | Damaged]:
    """The events numbered over `after` up to `last` of the session whose positions begin at `start`."""
    while after < last:
        for seq, data in read_chunk(guard, start, after, last):
            for missing in range(after + 1, seq):
                yield Damaged(session_id, missing, MISSING)
            yield decode_event_row(session_id, seq, data)
            after = seq


def read_chunk(guard: ConnectionGuard, start: int, after: int, last: int) -> list[tuple[int, bytes | str]]:
    """Some of the next events, at least one; where the file is broken, each by itself or why it is lost."""
    try:
        with guard as connection:
            rows = rows_after(connection, start, after, last)
    except StoreError as error:
        if not is_damage(error):
            raise
        return [read_one(guard, start, seq) for seq in range(after + 1, min(after + CHUNK_EVENTS, last) + 1)]
    if not rows:
        raise SessionNotFound("The session was deleted while it was read.")
    return rows


def rows_after(
    connection: sqlite3.Connection, start: int, after: int, last: int
) -> list[tuple[int, bytes | str]]:
    """The next rows, bounded in number and bytes, as (seq, JSON or what is wrong)."""
    rows: list[tuple[int, bytes | str]] = []
    size = 0
    cursor = connection.execute(READ, (start + after, start + last))
    try:
        for at, data, length in cursor:
            rows.append((at - start, check_bytes(data, length)))
            size += len(rows[-1][1])
            if len(rows) == CHUNK_EVENTS or size > CHUNK_BYTES:
                break
    finally:
        cursor.close()
    return rows


def read_one(guard: ConnectionGuard, start: int, seq: int) -> tuple[int, bytes | str]:
    """One row by itself, as (seq, JSON or what is wrong)."""
    try:
        with guard as connection:
            row = connection.execute(READ, (start + seq - 1, start + seq)).fetchone()
    except StoreError as error:
        return seq, str(error)
    return seq, check_bytes(*row[1:]) if row else MISSING


def check_bytes(data: object, length: int | None) -> bytes | str:
    """What is stored, or that it is no bytes: SQLite lets any value stand in any column. A too long value was not read."""
    if data is None and length is not None:
        return f"it has {length:,} bytes, more than the {MAX_EVENT_BYTES >> 20} MB that are read"
    return data if isinstance(data, bytes) else f"it is not bytes but {type(data).__name__}"
