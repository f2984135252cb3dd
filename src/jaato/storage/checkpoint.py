"""Checkpoints the write-ahead log once it is long, in a thread beside the one that writes."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

from jaato.storage.database import connect

CHECKPOINT_BYTES = 4 << 20
"""How much is written before the log is folded."""
OVERGROWN_BYTES = 32 << 20
COMMIT_BYTES = 4096
FOLD = "PRAGMA wal_checkpoint(PASSIVE)"
EMPTY = "PRAGMA wal_checkpoint(TRUNCATE)"


class Checkpoint:
    """Counts what is written to one database and folds its log in time; call it under the connection's guard.

    It folds on one connection of its own: SQLite keeps the descriptor of each that is closed beside another.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unfolded_bytes = 0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._own: sqlite3.Connection | None = None

    def count_commit(self, connection: sqlite3.Connection, size_bytes: int) -> None:
        """Take note of a commit; a long log is folded on a thread of its own.

        That never ends while somebody writes without a pause, so an overgrown log is folded here and now.
        """
        self._unfolded_bytes += size_bytes + COMMIT_BYTES
        if self._unfolded_bytes < CHECKPOINT_BYTES or (self._thread and self._thread.is_alive()):
            return
        self._unfolded_bytes = 0
        if log_bytes(self._path) > OVERGROWN_BYTES:
            quietly(connection, FOLD)
            return
        thread = threading.Thread(target=self._fold, args=(FOLD,), name="jaato-checkpoint")
        try:
            thread.start()
        except RuntimeError:  # no more threads
            quietly(connection, FOLD)
        else:
            self._thread = thread

    def truncate(self) -> None:
        """Truncate the write-ahead log, so that nothing deleted stays in it; most of it without blocking others."""
        self._fold(FOLD, EMPTY)

    def finish(self) -> None:
        """Wait for a folding that is under way; there is no other after it."""
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            if self._own is not None:
                self._own.close()
                self._own = None

    def _fold(self, *checkpoints: str) -> None:
        with self._lock:
            if self._own is None:
                try:
                    self._own = connect(self._path, "mode=rw")
                except sqlite3.Error:
                    return
            for checkpoint in checkpoints:
                quietly(self._own, checkpoint)


def quietly(connection: sqlite3.Connection, checkpoint: str) -> None:
    """Fold the log; what cannot be done now is done the next time, and nothing is lost meanwhile."""
    try:
        connection.execute(checkpoint).fetchall()
    except sqlite3.Error:
        pass


def log_bytes(path: Path) -> int:
    """The size of the write-ahead log."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except OSError:
        return 0
