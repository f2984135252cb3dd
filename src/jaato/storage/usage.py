"""Reads what sessions have used from their stored logs: a stream in bounded memory, which skips and reports damaged records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from jaato.abc.store import MISSING, Damaged, UsageQuery, UsageRow
from jaato.errors import SessionNotFound
from jaato.protocol.codec import is_unicode
from jaato.protocol.usage import (
    BEGINNING,
    COUNTED,
    DECODER,
    AgentBegan,
    UsageRecord,
    get_history_time,
)
from jaato.storage.database import ConnectionGuard
from jaato.storage.event_table import read_chunk
from jaato.storage.schema import SEQ_BITS
from jaato.storage.session_table import tenth_of_second

PAGE = 200
"""Sessions looked up at once."""
LOGS = (
    "SELECT number, id, name, workspace, created_at, touched_at, (SELECT position FROM event "  # noqa: S608 a number of ours
    f"WHERE position > number << {SEQ_BITS} AND position < (number + 1) << {SEQ_BITS} "
    "ORDER BY position DESC LIMIT 1) FROM session "
    "WHERE (touched_at, number) > (:touched, :number) AND (:id IS NULL OR id = :id) "
    "AND (:workspace IS NULL OR workspace = :workspace) ORDER BY touched_at, number LIMIT :page"
)
LAST_SEQ = (1 << SEQ_BITS) - 1


class StoredLog(NamedTuple):
    """A session whose log is read, and the number of its last event."""

    number: int
    row: UsageRow
    last: int


def read_usage(guard: ConnectionGuard, query: UsageQuery) -> Iterator[tuple[UsageRow, UsageRecord | Damaged]]:
    """What sessions have used since `query.since`, session by session in the order of their logs.

    What a fork or an import has copied was used before the session was created, and is left out: the events at the beginning
    of its log that are older. After its first own event nothing is, even if the clock is set back, but a history that it was
    created with.
    """
    for log in list_stored_logs(guard, query):
        after = query.read_up_to.get(log.row.session_id, 0)
        history_time = get_history_time(log.row.created_at)
        try:
            is_own = after > 0 and log.row.session_id in query.own
            for record in read_log(guard, log, after):
                if isinstance(record, Damaged):
                    yield log.row, record
                    continue
                is_own = is_own or record.timestamp >= log.row.created_at
                if isinstance(record, AgentBegan) or (is_own and record.timestamp != history_time):
                    yield log.row, record
            if is_own:
                query.own.add(log.row.session_id)
        except SessionNotFound:
            continue  # it was deleted meanwhile
        query.read_up_to[log.row.session_id] = log.last


def list_stored_logs(guard: ConnectionGuard, query: UsageQuery) -> Iterator[StoredLog]:
    """The sessions that were used since then."""
    if not is_unicode(query.session_id or "") or not is_unicode(query.workspace or ""):
        return
    touched, number = tenth_of_second(query.since), -1
    wanted = {"id": query.session_id, "workspace": query.workspace, "page": PAGE}
    while True:
        with guard as connection:
            page = connection.execute(LOGS, {"touched": touched, "number": number, **wanted}).fetchall()
        for row in page:
            number, session_id, name, workspace, created_at, touched, position = row
            if session_id != query.except_session:
                last = (position or 0) & LAST_SEQ
                yield StoredLog(number, UsageRow(session_id, name, workspace, created_at), last)
        if len(page) < PAGE:
            return


def read_log(guard: ConnectionGuard, log: StoredLog, after: int) -> Iterator[UsageRecord | Damaged]:
    """The records of one log after an event."""
    session_id = log.row.session_id
    while after < log.last:
        for seq, data in read_chunk(guard, log.number << SEQ_BITS, after, log.last):
            for missing in range(after + 1, seq):
                yield Damaged(session_id, missing, MISSING)
            record = decode_usage(session_id, seq, data)
            if record is not None:
                yield record
            after = seq


def decode_usage(session_id: str, seq: int, data: bytes | str) -> UsageRecord | Damaged | None:
    """One stored event as far as it counts; None where it does not."""
    if isinstance(data, str):
        return Damaged(session_id, seq, data)
    if not data.startswith(COUNTED):
        return None if data.startswith(BEGINNING) else Damaged(session_id, seq, "it is no event")
    try:
        record = DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Damaged(session_id, seq, f"it cannot be read: {error}")
    if record.seq != seq or record.session_id != session_id:
        return Damaged(session_id, seq, f"it says it is event {record.seq} of session {record.session_id}")
    return record
