"""One thread at a time at a connection, transactions that never stay open, faults in plain words."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from types import TracebackType

from jaato.storage.faults import database_fault


class Guard:
    """A context for every use of a connection: at its end the lock is free and no transaction open."""

    __slots__ = ("_connection", "_lock", "_path")

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._lock = threading.Lock()

    def __enter__(self) -> sqlite3.Connection:
        self._lock.acquire()
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                self._roll_back()
        finally:
            self._lock.release()
        if isinstance(error, sqlite3.Error):
            raise database_fault(error, self._path) from error

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # the fault that led here is the one to tell; SQLite has rolled back by itself
