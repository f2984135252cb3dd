"""The tables of the store, and the migrations that lead from each version to the next."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from jaato.errors import StoreError
from jaato.protocol.events import now
from jaato.storage.private_files import FILE_MODE

APPLICATION_ID = 0x6A61746F
"""`jato` in ASCII, in the header of every database of ours."""

SEQ_BITS = 32
"""An event's `position`: its session's number and, in these low bits, its seq; one tree, no index."""

SCHEMA_1 = """
CREATE TABLE session (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workspace TEXT NOT NULL,
    name TEXT,
    description TEXT,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    created_at TEXT NOT NULL,
    touched_at TEXT NOT NULL
);
CREATE INDEX session_touched ON session (touched_at);
CREATE INDEX session_workspace ON session (workspace, touched_at);
CREATE INDEX session_name ON session (name);
CREATE TABLE event (
    position INTEGER PRIMARY KEY,
    timestamp TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE TABLE blob (
    session INTEGER NOT NULL,
    digest TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    PRIMARY KEY (session, digest)
) WITHOUT ROWID;
CREATE INDEX blob_digest ON blob (digest);
CREATE TABLE unused_blob (digest TEXT PRIMARY KEY) WITHOUT ROWID;
"""

SCHEMA_2 = """
CREATE TABLE lease (
    fence INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL UNIQUE,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    what TEXT NOT NULL,
    since TEXT NOT NULL
);
"""
"""Who writes which session. A fence is never given twice, so an append that names one is from its holder or too late."""

STEPS: tuple[str, ...] = (SCHEMA_1, SCHEMA_2)
"""`STEPS[n]` leads from version n to n + 1; only ever appended to."""


def version_of(connection: sqlite3.Connection) -> int:
    """The schema version of an open database; 0 for an empty one."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def migrate(connection: sqlite3.Connection, path: Path, steps: Sequence[str] = STEPS) -> Path | None:
    """Bring a database to the newest version in one transaction; returns the backup made before, if any.

    An empty database needs none. On any failure the database is as it was and the backup stays.
    """
    backup = None
    # in this order: another process may make the store between the two
    if has_tables(connection) and version_of(connection) < len(steps):
        backup = back_up(connection, path)
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in steps[version_of(connection) :]:
            for statement in statements(step):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {max(len(steps), version_of(connection))}")
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if backup is None:
            raise
        raise StoreError(
            f"{path} could not be brought to version {len(steps)} ({error}). "
            f"It is as it was, and {backup} is a copy."
        ) from error
    return backup


def statements(script: str) -> list[str]:
    """The statements of a script, one by one: `executescript` would commit in between."""
    found, rest = [], ""
    for line in script.splitlines():
        rest += line + "\n"
        if sqlite3.complete_statement(rest):
            found.append(rest.strip())
            rest = ""
    return found


def has_tables(connection: sqlite3.Connection) -> bool:
    """Whether anything is in the database."""
    return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None


def back_up(connection: sqlite3.Connection, path: Path) -> Path:
    """Copy a database beside itself, 0600, under a name that says its version and the time."""
    stamp = now().replace(":", "").replace("-", "")
    target = path.with_name(f"{path.name}.v{version_of(connection)}-{stamp}.backup")
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE))
    with contextlib.closing(sqlite3.connect(target)) as copy:
        connection.backup(copy)
    return target
