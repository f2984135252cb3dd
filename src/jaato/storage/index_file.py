"""The file of the search index: made, checked, and made anew where it is not what it should be."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from jaato.errors import StoreError
from jaato.storage.database import BUSY_TIMEOUT_S, connect
from jaato.storage.files import create_private, own_file
from jaato.storage.schema import statements, version_of
from jaato.storage.words import VERSION

TABLES = """
CREATE TABLE indexed (session INTEGER PRIMARY KEY, id TEXT NOT NULL, seq INTEGER NOT NULL);
CREATE VIRTUAL TABLE word USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2');
"""


def index_path(path: Path) -> Path:
    """Where the index of the store at `path` is."""
    return path.with_name(f"{path.stem}.search.db")


def open_index(place: Path | None) -> sqlite3.Connection:
    """The index at `place`, made if it is missing, damaged or of another version; without a place a passing one."""
    if place is None:
        connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        make(connection)
        return connection
    own_file(place)
    create_private(place)
    for _ in range(2):
        connection = connect(place, "mode=rw")
        try:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_mode = WAL")
            if version_of(connection) == VERSION:
                connection.execute("SELECT 1 FROM indexed, word LIMIT 1").fetchone()
                return connection
            if version_of(connection) == 0:
                make(connection)
                return connection
        except sqlite3.Error as error:
            if not damage(error):
                connection.close()
                raise
        connection.close()
        remove(place)
        create_private(place)
    raise StoreError(f"The index {place} is damaged; remove it, and it is made anew.")


def make(connection: sqlite3.Connection) -> None:
    """The tables of an index; two processes may want to make them at once."""
    with transaction(connection):
        if version_of(connection) == 0:
            for statement in statements(TABLES):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def empty(index: sqlite3.Connection) -> None:
    """Forget everything, in a transaction."""
    index.execute("INSERT INTO word (word) VALUES ('delete-all')")
    index.execute("DELETE FROM indexed")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of the body or nothing, and nobody else meanwhile."""
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_S * 1000)}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def damage(error: sqlite3.Error) -> bool:
    """Whether the file is broken, or not what it should be."""
    codes = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in codes


def remove(place: Path) -> None:
    """Remove an index with all that belongs to it."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        place.with_name(place.name + suffix).unlink(missing_ok=True)
