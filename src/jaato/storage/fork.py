"""Forks a session: a draft, in no list until it is complete, is written in small transactions and then published.

An import is a draft first, too; drafts of processes that died are removed by the vacuum."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator

import msgspec

from jaato.abc.store import Damaged
from jaato.errors import SessionNotFound, StoreError
from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.codec import encode, is_unicode
from jaato.protocol.events import AgentCreated, Event, SessionCreated, SessionUpdated, now
from jaato.storage.database import ConnectionGuard
from jaato.storage.event_table import decode_event_row, read_chunk
from jaato.storage.schema import SEQ_BITS
from jaato.storage.session_table import LAST

FLUSH_ROWS = 256
FLUSH_BYTES = 1 << 20

RESERVE = "INSERT INTO session (id, workspace, provider, model, created_at, touched_at) VALUES (?, '', '', '', '', '')"
INSERT = "INSERT INTO event VALUES (?, ?, ?)"
FINISH = "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
UNUSED = (
    "INSERT OR IGNORE INTO unused_blob SELECT digest FROM blob AS mine WHERE session = ? "
    "AND NOT EXISTS (SELECT 1 FROM blob WHERE digest = mine.digest AND session != mine.session)"
)


class SessionDraft:
    """The rows of a session without its own row, in short transactions.

    What a process leaves that is killed meanwhile is found by its number, which belongs to no session: see `vacuum`.
    """

    def __init__(self, guard: ConnectionGuard, session_id: str) -> None:
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
        """Publish the session; in a transaction of the caller's."""
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
            delete_draft(connection, self.number)


def delete_draft(connection: sqlite3.Connection, number: int) -> None:
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
def draft_session(guard: ConnectionGuard, session_id: str) -> Iterator[SessionDraft]:
    """A draft that is gone after the block if anything went wrong in it."""
    draft = SessionDraft(guard, session_id)
    try:
        yield draft
    except BaseException:
        draft.discard()
        raise


MAX_NAME_CHARS = 200
TICK_S = 0.002
"""Timestamps are in milliseconds: a fork is created after the last event it copies, so that the usage of the copies, which
is that of another session, can be distinguished from its own."""
DIGEST = lazy_pattern(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
SHARE = "INSERT OR IGNORE INTO blob SELECT ?, digest, size_bytes FROM blob WHERE session = ? AND digest = ?"


def fork_session(
    guard: ConnectionGuard, session_id: str, seq: int | None, name: str | None, made: str
) -> None:
    """Make the session `made` with the events up to `seq`, or all, of another one, which is not changed.

    Agents, calls and turns keep their ids, which mean something within a session only. Blobs are shared. The last event
    gives the fork its name. Raises `SessionNotFound`, `StoreError` for an event that is not there.
    """
    if not is_unicode(session_id) or (name is not None and not is_unicode(name)):
        raise StoreError("An id or a name has a character that cannot be written.")
    with guard as connection:
        row = connection.execute("SELECT number, name FROM session WHERE id = ?", (session_id,)).fetchone()
        number, old_name = row or (0, None)
        start = number << SEQ_BITS
        last = connection.execute(LAST, (start, start + (1 << SEQ_BITS))).fetchone() if row else None
    if last is None:
        raise SessionNotFound(f"There is no session {session_id!r}. `jaato sessions list --all` shows them.")
    end = last[0] - start
    if seq is not None and not 1 <= seq <= end:
        raise StoreError(f"Session {session_id} has the events 1 to {end}; fork it after one of them.")
    end = end if seq is None else seq
    digests: set[bytes] = set()
    time.sleep(TICK_S)
    with draft_session(guard, made) as draft:
        after, root = 0, ""
        while after < end:
            for at, data in read_chunk(guard, start, after, end):
                event = decode_event_row(session_id, at, data)
                if at == 1 and not isinstance(event, SessionCreated):
                    raise StoreError(
                        f"Session {session_id} has lost its first record, so it cannot be forked."
                    )
                if isinstance(event, Damaged):
                    draft.add(at, data if isinstance(data, bytes) else data.encode(), None)
                    continue
                begun = {"timestamp": now()} if at == 1 else {}
                copy = msgspec.structs.replace(event, session_id=made, **begun)
                root = root or copy.agent_id
                line = encode(copy)
                digests.update(DIGEST.findall(line))
                draft.add(at, line, copy)
                after = at
            after = max(after, at)
        called = (name or f"fork of {old_name or session_id[:12]}")[:MAX_NAME_CHARS]
        named = SessionUpdated(session_id=made, agent_id=root, seq=end + 1, name=called)
        draft.add(end + 1, encode(named), named)
        with guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute("SELECT 1 FROM session WHERE number = ?", (number,)).fetchone():
                raise SessionNotFound(f"Session {session_id} was deleted while it was forked.")
            draft.finish(connection)
            connection.executemany(
                SHARE, [(draft.number, number, digest.decode()) for digest in sorted(digests)]
            )
            connection.execute("COMMIT")
