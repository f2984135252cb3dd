"""A session that is written piece by piece and seen by nobody before it is whole: a fork, an import."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

from jaato.protocol.events import AgentCreated, Event, SessionCreated, SessionUpdated
from jaato.storage.guard import Guard
from jaato.storage.schema import SEQ_BITS

FLUSH_ROWS = 256
FLUSH_BYTES = 1 << 20

RESERVE = "INSERT INTO session (id, workspace, provider, model, created_at, touched_at) VALUES (?, '', '', '', '', '')"
INSERT = "INSERT INTO event VALUES (?, ?, ?)"
FINISH = "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
UNUSED = (
    "INSERT OR IGNORE INTO unused_blob SELECT digest FROM blob AS mine WHERE session = ?1 "
    "AND NOT EXISTS (SELECT 1 FROM blob WHERE digest = mine.digest AND session != ?1)"
)


class Draft:
    """The rows of a session without its own row, in short transactions that hinder nobody.

    What a process leaves that is killed meanwhile is found by its number, which belongs to no session: see `vacuum`.
    """

    def __init__(self, guard: Guard, session_id: str) -> None:
        self._guard = guard
        self._id = session_id
        self._rows: list[tuple[int, str, bytes]] = []
        self._bytes = 0
        self._shown: dict[str, str | None] = {"name": None, "description": None, "provider": "", "model": ""}
        self._workspace = self._created_at = self._touched_at = ""
        with guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            self.number = connection.execute(RESERVE, (session_id,)).lastrowid or 0
            connection.execute("DELETE FROM session WHERE number = ?", (self.number,))
            connection.execute("COMMIT")

    def add(self, seq: int, data: bytes, event: Event | None) -> None:
        """The next event as it is stored; None for a damaged one."""
        if event is not None:
            self._note(event)
            self._touched_at = event.timestamp
        self._rows.append(((self.number << SEQ_BITS) + seq, self._touched_at, data))
        self._bytes += len(data)
        if len(self._rows) >= FLUSH_ROWS or self._bytes >= FLUSH_BYTES:
            self.flush()

    def _note(self, event: Event) -> None:
        match event:
            case SessionCreated():
                self._workspace, self._created_at = event.workspace, event.timestamp
                self._shown["name"] = event.name
            case SessionUpdated():
                for field in self._shown:
                    self._shown[field] = getattr(event, field) or self._shown[field]
            case AgentCreated(parent_agent_id=None):
                self._shown |= {"provider": event.provider, "model": event.model}

    def flush(self) -> None:
        """Write what has come together."""
        with self._guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(INSERT, self._rows)
            connection.execute("COMMIT")
        self._rows.clear()
        self._bytes = 0

    def finish(self, connection: sqlite3.Connection) -> None:
        """Let the session be seen; in a transaction of the caller's."""
        connection.executemany(INSERT, self._rows)
        shown = self._shown
        connection.execute(
            FINISH,
            (
                self.number,
                self._id,
                self._workspace,
                shown["name"],
                shown["description"],
                shown["provider"],
                shown["model"],
                self._created_at,
                self._touched_at,
            ),
        )

    def discard(self) -> None:
        """Remove what was written; its blobs, where no session has them too, are swept the next time."""
        with self._guard as connection:
            clear(connection, self.number)


def clear(connection: sqlite3.Connection, number: int) -> None:
    """Remove the rows of a number that belongs to no session."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(UNUSED, (number,))
    connection.execute("DELETE FROM blob WHERE session = ?", (number,))
    connection.execute(
        "DELETE FROM event WHERE position > ? AND position < ?",
        (number << SEQ_BITS, (number + 1) << SEQ_BITS),
    )
    connection.execute("COMMIT")


@contextlib.contextmanager
def drafted(guard: Guard, session_id: str) -> Iterator[Draft]:
    """A draft that is gone after the block if anything went wrong in it."""
    draft = Draft(guard, session_id)
    try:
        yield draft
    except BaseException:
        draft.discard()
        raise
