"""A session is removed: nobody finds it from the first moment on, and its rows go piece by piece, so that no append waits.

What a process leaves that is killed meanwhile is found by its number, which belongs to no session: see `vacuum`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from jaato.storage.blobs import Blobs
from jaato.storage.guard import Guard
from jaato.storage.schema import SEQ_BITS

PIECE = 64
"""Rows, or files, that go in one transaction."""
ABANDONED_S = 86_400.0
UNUSED = (
    "INSERT OR IGNORE INTO unused_blob SELECT digest FROM blob AS mine WHERE session = ?1 AND digest IN (SELECT digest "
    "FROM blob WHERE session = ?1 LIMIT ?2) AND NOT EXISTS (SELECT 1 FROM blob WHERE digest = mine.digest AND session != ?1)"
)
BLOBS = (
    "DELETE FROM blob WHERE session = ?1 AND digest IN (SELECT digest FROM blob WHERE session = ?1 LIMIT ?2)"
)
EVENTS = (
    "DELETE FROM event WHERE position IN "
    "(SELECT position FROM event WHERE position > ? AND position < ? ORDER BY position DESC LIMIT ?)"
)
"""The newest first: whoever reads on finds the end, and no gap."""
SWEPT = (
    "SELECT digest, EXISTS (SELECT 1 FROM blob WHERE digest = unused_blob.digest) FROM unused_blob LIMIT ?"
)


def remove_session(
    guard: Guard,
    number: int,
    forget: Callable[[], None],
    written: Callable[[sqlite3.Connection, int], None],
) -> None:
    """Remove the session of this number, its events and its claims to blobs. What `forget` forgets goes with it or
    not at all, and `written` is told of every piece."""
    with guard as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM session WHERE number = ?", (number,))
        forget()
        connection.execute("COMMIT")
    whole = (number << SEQ_BITS, (number + 1) << SEQ_BITS)
    while True:
        with guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(UNUSED, (number, PIECE))
            gone = connection.execute(BLOBS, (number, PIECE)).rowcount
            gone += connection.execute(EVENTS, (*whole, PIECE)).rowcount
            connection.execute("COMMIT")
            written(connection, 0)
        if not gone:
            return
        time.sleep(0)  # whoever waits for the guard has it before the next piece


def sweep(guard: Guard, blobs: Blobs) -> None:
    """Remove the files of blobs nobody refers to; the write lock keeps others from referring to them."""
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
    for path in blobs.abandoned(time.time() - ABANDONED_S):
        path.unlink(missing_ok=True)
