"""Deletes sessions and vacuums the store: rows go in small transactions, then unused blobs, stray files and free pages.

A deleted session is in no list from the first moment on. What a process leaves that is killed meanwhile belongs to the
number of no session, and goes with the next vacuum."""

from __future__ import annotations

import datetime
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from jaato.abc.store import Retention, SessionRow
from jaato.storage.blobs import DIGEST, Blobs
from jaato.storage.database import ConnectionGuard
from jaato.storage.leases import Leases
from jaato.storage.schema import SEQ_BITS
from jaato.storage.session_table import list_sessions

PIECE = 64
"""Rows, or files, that go in one transaction."""
ABANDONED_S = 86_400.0
UNUSED = (
    "INSERT OR IGNORE INTO unused_blob SELECT digest FROM blob AS mine WHERE session = :session AND digest IN "
    "(SELECT digest FROM blob WHERE session = :session LIMIT :piece) "
    "AND NOT EXISTS (SELECT 1 FROM blob WHERE digest = mine.digest AND session != :session)"
)
BLOBS = (
    "DELETE FROM blob WHERE session = :session AND digest IN "
    "(SELECT digest FROM blob WHERE session = :session LIMIT :piece)"
)
EVENTS = (
    "DELETE FROM event WHERE position IN "
    "(SELECT position FROM event WHERE position > ? AND position < ? ORDER BY position DESC LIMIT ?)"
)
"""Delete the newest first: a concurrent reader finds an earlier end, and no gap."""
SWEPT = (
    "SELECT digest, EXISTS (SELECT 1 FROM blob WHERE digest = unused_blob.digest) FROM unused_blob LIMIT ?"
)


def remove_session(
    guard: ConnectionGuard,
    number: int,
    forget: Callable[[], None],
    written: Callable[[sqlite3.Connection, int], None],
) -> None:
    """Remove the session of this number, its events and its claims to blobs. What `forget` deletes is in the same transaction,
    and `written` is called for every piece."""
    with guard as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM session WHERE number = ?", (number,))
        forget()
        connection.execute("COMMIT")
    whole = (number << SEQ_BITS, (number + 1) << SEQ_BITS)
    piece = {"session": number, "piece": PIECE}
    while True:
        with guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(UNUSED, piece)
            gone = connection.execute(BLOBS, piece).rowcount
            gone += connection.execute(EVENTS, (*whole, PIECE)).rowcount
            connection.execute("COMMIT")
            written(connection, 0)
        if not gone:
            return
        time.sleep(0)  # let waiting threads have the guard before the next piece


def delete_unused_blobs(guard: ConnectionGuard, blobs: Blobs) -> None:
    """Delete the files of blobs that no session refers to; the write lock keeps others from referring to them."""
    while True:
        with guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            rows = connection.execute(SWEPT, (PIECE,)).fetchall()
            for digest, used in rows:
                if not used:
                    blobs.remove(digest)
                connection.execute("DELETE FROM unused_blob WHERE digest = ?", (digest,))
            connection.execute("COMMIT")
        if len(rows) < PIECE:
            break
    for path in blobs.find_abandoned(time.time() - ABANDONED_S):
        path.unlink(missing_ok=True)


PAGE = 500
LOG_SIZE = (
    "SELECT max(position), sum(size) FROM (SELECT position, length(data) AS size FROM event "
    "WHERE position > ? AND position < ? ORDER BY position LIMIT ?)"
)
BLOB_SIZE = "SELECT coalesce(sum(size_bytes), 0) FROM blob WHERE session = ?"
NEXT = "SELECT position FROM event WHERE position >= ? ORDER BY position LIMIT 1"


def sessions_beyond(guard: ConnectionGuard, kept: Retention, now: datetime.datetime) -> list[SessionRow]:
    """The sessions beyond what is kept, the newest first. A time that cannot be read is taken for a recent one."""
    if kept.days is None and kept.sessions is None and kept.size_bytes is None:
        return []
    found: list[SessionRow] = []
    size_bytes = 0
    for place, row in enumerate(all_sessions(guard)):
        size_bytes += 0 if kept.size_bytes is None else count_stored_bytes(guard, row.id)
        old = kept.days is not None and age_days(row.updated_at, now) > kept.days
        many = kept.sessions is not None and place >= kept.sessions
        if old or many or (kept.size_bytes is not None and size_bytes > kept.size_bytes):
            found.append(row)
    return found


def all_sessions(guard: ConnectionGuard) -> Iterator[SessionRow]:
    """Every session, the newest first, page by page."""
    before = None
    while True:
        with guard as connection:
            page = list_sessions(connection, None, PAGE, before)
        yield from page
        if len(page) < PAGE:
            return
        before = page[-1].cursor


def count_stored_bytes(guard: ConnectionGuard, session_id: str) -> int:
    """The size of a session's log and results; writers get the guard between two pieces of it."""
    with guard as connection:
        (number,) = connection.execute(
            "SELECT number FROM session WHERE id = ?", (session_id,)
        ).fetchone() or (0,)
        size_bytes = int(connection.execute(BLOB_SIZE, (number,)).fetchone()[0])
    at, end = number << SEQ_BITS, (number + 1) << SEQ_BITS
    while True:
        with guard as connection:
            last, piece = connection.execute(LOG_SIZE, (at, end, PAGE)).fetchone()
        if last is None:
            return size_bytes
        at = last
        size_bytes += int(piece)


def age_days(timestamp: str, now: datetime.datetime) -> float:
    """How long ago that was; 0 for what is no time."""
    try:
        return (now - datetime.datetime.fromisoformat(timestamp)).total_seconds() / 86_400
    except (ValueError, TypeError):
        return 0.0


def clear_drafts(guard: ConnectionGuard) -> None:
    """Delete the drafts that killed processes left; only while no session is held, as one may be a draft at work."""
    at = 0
    while True:
        with guard as connection:
            row = connection.execute(NEXT, (at,)).fetchone()
            if row is None:
                return
            number = row[0] >> SEQ_BITS
            whole = connection.execute("SELECT 1 FROM session WHERE number = ?", (number,)).fetchone()
            if not whole:
                from jaato.storage.fork import delete_draft  # few stores have one

                delete_draft(connection, number)
        at = (number + 1) << SEQ_BITS


def stray_blobs(connection: sqlite3.Connection, directory: Path, older_than: float) -> Iterator[Path]:
    """The files of blobs that no session refers to, last changed before this time (seconds since 1970)."""
    for path in directory.glob("[0-9a-f][0-9a-f]/*"):
        if not DIGEST.fullmatch(path.name) or path.is_symlink() or path.stat().st_mtime >= older_than:
            continue
        if not connection.execute("SELECT 1 FROM blob WHERE digest = ? LIMIT 1", (path.name,)).fetchone():
            yield path


def shrink(guard: ConnectionGuard, leases: Leases) -> str:
    """Give the space of what was removed back to the disk; returns why not, if not."""
    if held := leases.list_held():
        return f"The file keeps its size while sessions are open: {held[0]} has {held[0].session_id}."
    with guard as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return ""
