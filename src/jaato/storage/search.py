"""Full-text search: an index in a file of its own, brought up to date when somebody searches; appending knows nothing of it.

The index holds words and places, no text. It can be deleted at any time, and is made anew where it does not fit the log.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from jaato.abc.store import Damaged, Hit, Hits, SessionRow
from jaato.errors import StoreError
from jaato.storage.database import open_to_read
from jaato.storage.events import decoded, rows_after
from jaato.storage.faults import database_fault
from jaato.storage.index_file import damage, empty, index_path, open_index, remove, transaction
from jaato.storage.listing import list_sessions
from jaato.storage.schema import SEQ_BITS, STEPS
from jaato.storage.words import snippet, terms_of, text_of

INDEX_BYTES = 32 << 20
"""How much of the log one search takes into the index; the rest is for the next one."""
BATCH_BYTES = 1 << 20
PATIENCE_S = 10.0
STEPS_BETWEEN_LOOKS = 100_000

LOGS = (
    f"SELECT number, id, (SELECT position FROM event WHERE position > number << {SEQ_BITS} "  # noqa: S608 a number of ours
    f"AND position < (number + 1) << {SEQ_BITS} ORDER BY position DESC LIMIT 1) "
    "FROM session ORDER BY touched_at DESC"
)
ADD = "INSERT INTO word (rowid, text) VALUES (?, ?)"
REMOVE = "INSERT INTO word (word, rowid, text) VALUES ('delete', ?, ?)"
REACHED = "SELECT seq FROM indexed WHERE session = ?"
NOTE = "INSERT OR REPLACE INTO indexed VALUES (?, ?, ?)"
SESSIONS = f"SELECT rowid >> {SEQ_BITS} FROM word WHERE word MATCH ?"  # noqa: S608 a number of ours
PLACE = "SELECT rowid FROM word WHERE word MATCH ? AND rowid > ? AND rowid < ? ORDER BY rowid DESC LIMIT 1"


class Search:
    """The index of one store; `path` is the store's, `read_only` says that the index must be made somewhere else."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._path = path
        self._place = None if read_only else index_path(path)
        self._lock = threading.Lock()
        self._index: sqlite3.Connection | None = None
        self._log: sqlite3.Connection | None = None

    def search(self, query: str, workspace: str | None, limit: int, before: str | None) -> Hits:
        """The sessions that have all words of a query, newest first. Raises `StoreError`, also for a search too wide."""
        terms = terms_of(query)
        if not terms:
            raise StoreError("Say a word to search for: letters or digits.")
        with self._open() as (index, log):
            complete = self._catch_up(index, log, INDEX_BYTES)
            deadline = time.monotonic() + PATIENCE_S
            index.set_progress_handler(lambda: time.monotonic() > deadline, STEPS_BETWEEN_LOOKS)
            try:
                having = " INTERSECT ".join([SESSIONS] * len(terms))
                numbers = {row[0] for row in index.execute(having, terms)}
                rows = list_sessions(log, workspace, limit, before, numbers)
                hits = [hit for row in rows if (hit := found(index, log, row, terms))]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                raise StoreError("That is found in too many places; say more, or longer, words.") from error
            finally:
                index.set_progress_handler(None, 0)
        return Hits(hits, complete)

    def forget(self, session_id: str) -> None:
        """Take the words of a session out of the index, before its log goes. Raises `StoreError`."""
        if self._place is None or not self._place.exists():
            return
        with self._open() as (index, log):
            row = index.execute("SELECT session, seq FROM indexed WHERE id = ?", (session_id,)).fetchone()
            if row is None:
                return
            texts = list(texts_of(log, session_id, row[0], 0, row[1]))
            with transaction(index):
                if any(text is None for _, text in texts):
                    empty(index)
                    return
                index.executemany(REMOVE, [(position, text) for position, text in texts if text])
                index.execute("DELETE FROM indexed WHERE session = ?", (row[0],))

    def tidy(self) -> None:
        """Make the index as small as it can be, and rid of what was deleted. Raises `StoreError`."""
        if self._place is None or not self._place.exists():
            return
        with self._open() as (index, _):
            index.execute("INSERT INTO word (word) VALUES ('optimize')")
            index.execute("VACUUM")

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            self._close()

    # --- the files -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _open(self) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
        """The index and the log, for one thread at a time; what is broken is opened anew the next time."""
        with self._lock:
            try:
                if self._log is None:
                    self._log = open_to_read(self._path, STEPS)
                if self._index is None:
                    self._index = open_index(self._place)
                yield self._index, self._log
            except sqlite3.Error as error:
                self._close()
                if "fts5" in str(error):
                    raise StoreError("The SQLite of this Python has no full-text search (FTS5).") from error
                if self._place is not None and damage(error):
                    remove(self._place)
                raise database_fault(error, self._place or self._path) from error

    def _close(self) -> None:
        for connection in (self._index, self._log):
            if connection is not None:
                connection.close()
        self._index = self._log = None

    # --- the index -----------------------------------------------------------------------------------------------

    def _catch_up(self, index: sqlite3.Connection, log: sqlite3.Connection, budget_bytes: int) -> bool:
        """Take in what was written since, the newest session first; False when more is left than may be done now."""
        known = {number: (name, seq) for number, name, seq in index.execute("SELECT * FROM indexed")}
        logs = [
            (number, name, (position or 0) & ((1 << SEQ_BITS) - 1))
            for number, name, position in log.execute(LOGS)
        ]
        if any(
            known[number][0] != name or known[number][1] > last
            for number, name, last in logs
            if number in known
        ):  # it is the index of another log
            with transaction(index):
                empty(index)
            known = {}
        batch = Batch(index)
        for number, name, last in logs:
            seq = known[number][1] if number in known else 0
            while seq < last:
                if batch.read_bytes > budget_bytes:
                    batch.write()
                    return False
                seq = batch.read(log, name, number, seq, last)
        batch.write()
        return True


class Batch:
    """Events to be indexed, of several sessions in one commit. `read_bytes` counts all there have been."""

    def __init__(self, index: sqlite3.Connection) -> None:
        self._index = index
        self._logs: list[tuple[str, int, int, int]] = []
        self._texts: list[tuple[int, str]] = []
        self._bytes = 0
        self.read_bytes = 0

    def read(self, log: sqlite3.Connection, session_id: str, number: int, seq: int, last: int) -> int:
        """Take the next events of a session; returns the number of the last of them."""
        start = number << SEQ_BITS
        rows = rows_after(log, start, seq, last)
        until = rows[-1][0] if rows else last
        self._logs.append((session_id, number, seq, until))
        for at, data in rows:
            if text := text_of_row(session_id, at, data):
                self._texts.append((start + at, text))
        size_bytes = sum([len(data) for _, data in rows])
        self.read_bytes += size_bytes
        self._bytes += size_bytes
        if self._bytes > BATCH_BYTES:
            self.write()
        return until

    def write(self) -> None:
        """Commit what there is. What another process has indexed meanwhile is left to it."""
        index = self._index
        with transaction(index):
            first = {number: seq for _, number, seq, _ in reversed(self._logs)}
            fresh = {
                number
                for number, seq in first.items()
                if seq == (index.execute(REACHED, (number,)).fetchone() or (0,))[0]
            }
            index.executemany(ADD, [row for row in self._texts if row[0] >> SEQ_BITS in fresh])
            index.executemany(
                NOTE, [(number, name, until) for name, number, _, until in self._logs if number in fresh]
            )
        self._logs.clear()
        self._texts.clear()
        self._bytes = 0


def texts_of(
    log: sqlite3.Connection, session_id: str, number: int, after: int, last: int
) -> Iterator[tuple[int, str | None]]:
    """The places of events and what was indexed for them; None where that cannot be known any more."""
    while after < last:
        rows = rows_after(log, number << SEQ_BITS, after, last)
        if not rows:
            return
        for at, data in rows:
            yield (number << SEQ_BITS) + at, text_of_row(session_id, at, data)
        after = rows[-1][0]


def text_of_row(session_id: str, seq: int, data: bytes | str) -> str | None:
    """What of a stored event can be searched; None for a damaged one."""
    event = decoded(session_id, seq, data)
    return None if isinstance(event, Damaged) else text_of(event)


def found(
    index: sqlite3.Connection, log: sqlite3.Connection, row: SessionRow, terms: list[str]
) -> Hit | None:
    """Where the terms stand in a session: all of them in one event if there is one, else the first of them."""
    (number,) = log.execute("SELECT number FROM session WHERE id = ?", (row.id,)).fetchone() or (0,)
    start = number << SEQ_BITS
    for wanted in (" ".join(terms), *terms):
        place = index.execute(PLACE, (wanted, start, start + (1 << SEQ_BITS))).fetchone()
        if place is None:
            continue
        seq = place[0] - start
        for _, data in rows_after(log, start, seq - 1, seq):
            return Hit(row, seq, snippet(text_of_row(row.id, seq, data) or "", terms))
    return None
