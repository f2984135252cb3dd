"""Opens the database of a store: checks it, migrates it, sets WAL mode; one thread at a time uses a connection."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple
from urllib.parse import quote

from jaato.errors import StoreError, StoreReadOnly
from jaato.storage.errors import database_error, file_error, foreign_file_error, make_damaged_error
from jaato.storage.private_files import (
    check_own_file,
    create_private,
    is_writable,
    make_private,
    private_directory,
)
from jaato.storage.schema import APPLICATION_ID, STEPS, migrate, version_of
from jaato.storage.session_table import ROW


class ConnectionGuard:
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
            raise database_error(error, self._path) from error

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # the original error is raised; SQLite has rolled back by itself


BUSY_TIMEOUT_S = 5.0

Durability = Literal["normal", "full"]


class Database(NamedTuple):
    """An open database; `refusal` says why it cannot be written, or is empty."""

    connection: sqlite3.Connection
    refusal: str


def open_database(
    path: Path, *, durability: Durability = "normal", read_only: bool = False, steps: Sequence[str] = STEPS
) -> Database:
    """Open the database at `path`, made if missing; nothing is changed in one that is not ours.

    One that cannot be written, or that a newer jaato made, is opened for reading. Raises `StoreError`.
    """
    for suffix in ("", "-wal", "-shm", "-journal"):
        check_own_file(path.with_name(path.name + suffix))
    try:
        refusal = "it was opened for reading only" if read_only else check(path)
        if refusal:
            check_header(path)
            return Database(open_to_read(path, steps), refusal)
        connection = connect(path, "mode=rw")
    except OSError as error:
        raise file_error(error, path) from error
    except sqlite3.Error as error:
        raise database_error(error, path) from error
    with closing_on_error(connection, path):
        if version_of(connection) > len(steps):
            newer = f"a newer jaato made it (version {version_of(connection)}, this one knows {len(steps)})"
            connection.close()
            return Database(
                open_to_read(path, steps), f"{newer}; install that jaato to go on with its sessions"
            )
        prepare(connection, path, durability, steps)
    return Database(connection, "")


@contextmanager
def closing_on_error(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """A context that closes the connection when it is left by an error, which is raised as `StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        connection.close()
        raise database_error(error, path) from error
    except StoreError:
        connection.close()
        raise


def check(path: Path) -> str:
    """Make the file if it is missing, see that it is ours; returns why it cannot be written, if so."""
    if not path.exists():
        private_directory(path.parent)
        create_private(path)
    elif not is_writable(path):
        return "it or its directory cannot be written by you; check their permissions"
    else:
        check_header(path)
        make_private(path)
    return ""


def check_header(path: Path) -> None:
    """Refuse a file that is no database of ours; an empty one is taken.

    SQLite reads it, not this process: closing a descriptor of a database that is open here would end all locks of this
    process on it (POSIX), and another process would take itself for the last one.
    """
    if not path.exists():
        raise StoreError(f"{path} does not exist, so there are no sessions to read yet.")
    if not path.stat().st_size:
        return
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    try:
        with closing(connect(path, "mode=ro&immutable=1")) as connection:
            # a file that another process makes, or folds its log into, is still shorter than its header says
            connection.execute("PRAGMA writable_schema = ON")
            application = connection.execute("PRAGMA application_id").fetchone()[0]
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        raise foreign_file_error(path, "it is not an SQLite database, or its header is damaged") from None
    if application != APPLICATION_ID:
        raise foreign_file_error(path, "it is an SQLite database of another program")


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection that leaves transactions to us and may be used from any thread, one at a time."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?{mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
    )


def open_to_read(path: Path, steps: Sequence[str]) -> sqlite3.Connection:
    """A connection that cannot write; where the disk refuses writes, one that takes no locks either.

    A file that can be written is opened so: readers who cannot take locks would leave files behind or miss a
    writer. One that cannot, and has no write-ahead log beside it, is complete and `immutable`.
    """
    log = path.with_name(path.name + "-wal")
    if is_writable(path):
        mode = "mode=rw"
    elif log.exists() and log.stat().st_size:
        mode = "mode=ro"
    else:
        mode = "mode=ro&immutable=1"
    connection = connect(path, mode)
    with closing_on_error(connection, path):
        connection.execute("PRAGMA query_only = ON")
        version = version_of(connection)
        if version < 1:
            raise StoreReadOnly(f"{path} is empty, so there are no sessions to read yet.")
        check_tables(connection, path, version, len(steps))
    return connection


def check_tables(connection: sqlite3.Connection, path: Path, version: int, known: int) -> None:
    """See that the tables are those this code reads, whichever version they have; raises `StoreError`."""
    try:
        connection.execute(f"{ROW} LIMIT 1").fetchone()
        connection.execute("SELECT position, timestamp, data FROM event LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        if version < known:
            raise StoreReadOnly(
                f"{path} was made by an older jaato. Open it for writing, to bring it up to date."
            ) from error
        if version > known:
            why = f"a newer jaato made it (version {version}); install that jaato to read it"
            raise StoreReadOnly(f"{path}: {why}.") from error
        raise make_damaged_error(path, str(error)) from error


def prepare(connection: sqlite3.Connection, path: Path, durability: Durability, steps: Sequence[str]) -> None:
    """Set an open database up for writing, with the newest tables."""
    if version_of(connection) < len(steps):
        migrate(connection, path, steps)
    check_tables(connection, path, len(steps), len(steps))
    set_wal_mode(connection)
    connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA secure_delete = ON")


def set_wal_mode(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; another process that does the same at this moment makes it wait."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


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

        That never ends under continuous writes, so an overgrown log is folded here and now; and writing waits for a thread
        that does not keep up.
        """
        self._unfolded_bytes += size_bytes + COMMIT_BYTES
        if self._thread is not None and self._thread.is_alive():
            if self._unfolded_bytes < OVERGROWN_BYTES // 2:
                return
            self._thread.join()
        if self._unfolded_bytes < CHECKPOINT_BYTES:
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
