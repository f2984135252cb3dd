"""Which calls were made under a key, so that none of them is made twice: where in the log each is to be found."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from jaato.errors import JaatoError
from jaato.storage.database import connect
from jaato.storage.errors import database_error, file_error
from jaato.storage.private_files import check_own_file, create_private, private_directory

NAME = "registry-repeats.db"
KEPT_S = 86_400.0
"""How long a key is remembered."""
KEPT_KEYS = 10_000
"""How many of one caller are remembered, the newest."""
PRUNED_EVERY = 256
TABLE = """
CREATE TABLE IF NOT EXISTS repeat (
    number INTEGER PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL, item INTEGER NOT NULL, digest TEXT NOT NULL,
    session_id TEXT NOT NULL, call_id TEXT NOT NULL, after_seq INTEGER NOT NULL, request_id TEXT NOT NULL,
    made_at REAL NOT NULL, end_seq INTEGER NOT NULL DEFAULT 0, text INTEGER NOT NULL DEFAULT 0,
    UNIQUE (scope, key, item)
)
"""
COLUMNS = "digest, session_id, call_id, after_seq, request_id, end_seq, text"


class Taken(JaatoError):
    """Another process makes the call of this key just now."""

    code = "request.idempotency_under_way"


class Key(NamedTuple):
    """A caller's key, and which call of a batch; the first where there is one."""

    scope: str
    key: str
    item: int = 0


class Made(NamedTuple):
    """A call that was to be made: the digest of its request, and where the log has it; `end_seq` is 0 while it is not known."""

    digest: str
    session_id: str
    call_id: str
    after_seq: int
    request_id: str
    end_seq: int = 0
    text: bool = False


class Repeats:
    """A file beside the store, made with the first key. What it says is a hint: whether a call was made, the log knows.
    Every method raises `StoreError`s."""

    def __init__(self, state_dir: Path, workspace: Path) -> None:
        self._path = state_dir / NAME
        self._workspace = workspace
        self._connection: sqlite3.Connection | None = None
        self._count = 0

    def scope(self, caller: str) -> str:
        """By what the keys of a caller are told from those of others."""
        return hashlib.sha256(f"{self._workspace}\0{caller}".encode()).hexdigest()[:32]

    def find(self, key: Key) -> Made | None:
        """The call that was made under this key in the last day, if any."""
        with self._open() as connection:
            row = connection.execute(
                f"SELECT {COLUMNS} FROM repeat WHERE scope = ? AND key = ? AND item = ? AND made_at > ?",  # noqa: S608
                (*key, time.time() - KEPT_S),
            ).fetchone()
        return None if row is None else Made(*row)._replace(text=bool(row[-1]))

    def digest(self, key: Key) -> str | None:
        """What was asked for under this key, whichever call of it was made."""
        with self._open() as connection:
            row = connection.execute(
                "SELECT digest FROM repeat WHERE scope = ? AND key = ? AND made_at > ? LIMIT 1",
                (key.scope, key.key, time.time() - KEPT_S),
            ).fetchone()
        return None if row is None else str(row[0])

    def claim(self, key: Key, made: Made, before: Made | None) -> None:
        """A call is about to be made under a key, whose `before` never began. Raises `Taken`."""
        with self._open() as connection:
            if before is not None:
                connection.execute("DELETE FROM repeat WHERE call_id = ?", (before.call_id,))
            if self._count % PRUNED_EVERY == 0:
                self._prune(connection, key.scope)
            connection.execute(
                "DELETE FROM repeat WHERE scope = ? AND key = ? AND item = ? AND made_at <= ?",
                (*key, time.time() - KEPT_S),
            )
            try:
                connection.execute(
                    f"INSERT INTO repeat (scope, key, item, made_at, {COLUMNS}) "  # noqa: S608 columns of ours
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*key, time.time(), *made),
                )
            except sqlite3.IntegrityError:
                raise Taken("Another process makes this call now.") from None
            self._count += 1

    def ended(self, made: Made, end_seq: int, *, text: bool) -> None:
        """Where the end of a call is."""
        with self._open() as connection:
            connection.execute(
                "UPDATE repeat SET end_seq = ?, text = ? WHERE call_id = ?", (end_seq, text, made.call_id)
            )

    def forget(self, made: Made) -> None:
        """A call was not begun: its key is free."""
        with self._open() as connection:
            connection.execute("DELETE FROM repeat WHERE call_id = ?", (made.call_id,))

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _prune(self, connection: sqlite3.Connection, scope: str) -> None:
        connection.execute("DELETE FROM repeat WHERE made_at <= ?", (time.time() - KEPT_S,))
        connection.execute(
            "DELETE FROM repeat WHERE scope = ? AND number <= "
            "(SELECT number FROM repeat WHERE scope = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (scope, scope, KEPT_KEYS),
        )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._connection is None:
                self._connection = self._opened()
            yield self._connection
        except sqlite3.Error as error:
            raise database_error(error, self._path) from error
        except OSError as error:
            raise file_error(error, self._path) from error

    def _opened(self) -> sqlite3.Connection:
        private_directory(self._path.parent)
        check_own_file(self._path)
        create_private(self._path)
        connection = connect(self._path, "mode=rw")
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(TABLE)
            connection.execute("CREATE INDEX IF NOT EXISTS repeat_call ON repeat (call_id)")
        except sqlite3.Error:
            connection.close()
            raise
        return connection
