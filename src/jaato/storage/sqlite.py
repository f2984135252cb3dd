"""The session store in one SQLite file: each session is an append-only log; large results are blobs beside it.

One process at a time, the holder of the session's lease, appends to a log; any may read it.
"""

from __future__ import annotations

import datetime
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jaato.abc.store import (
    KEEP_ALL,
    Damaged,
    DayLedger,
    Hits,
    Holder,
    Retention,
    SessionRow,
    UsageQuery,
    UsageRow,
    VacuumReport,
)
from jaato.errors import SessionBusy, SessionNotFound, StoreError, StoreReadOnly
from jaato.protocol.codec import is_unicode
from jaato.protocol.events import Event, SessionCreated
from jaato.protocol.ids import new_id
from jaato.storage.blobs import Blobs, chunks_of
from jaato.storage.database import Checkpoint, ConnectionGuard, Durability, open_database
from jaato.storage.errors import file_errors, make_moved_error
from jaato.storage.event_table import (
    AT_ONCE,
    WriteHandle,
    changes_session_row,
    encode_rows,
    insert_events,
    read_events,
    row_values,
    size_of,
    write_events,
)
from jaato.storage.leases import Leases, this_program
from jaato.storage.maintenance import (
    ABANDONED_S,
    clear_drafts,
    count_stored_bytes,
    delete_unused_blobs,
    remove_session,
    sessions_beyond,
    shrink,
    stray_blobs,
)
from jaato.storage.private_files import file_id
from jaato.storage.schema import SEQ_BITS
from jaato.storage.search import SearchIndex
from jaato.storage.session_table import LAST, find_named_sessions, find_session, list_sessions
from jaato.storage.snapshots import Snapshots

if TYPE_CHECKING:
    from jaato.protocol.usage import UsageRecord

LOOKS_EVERY_S = 0.5
"""How often the path is checked: another file may have taken its place."""

CREATE = (
    "INSERT INTO session (id, workspace, name, provider, model, created_at, touched_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
FIRST = "INSERT INTO event VALUES (?, ?, ?)"
REFER = "INSERT OR IGNORE INTO blob VALUES (?, ?, ?)"


class StoredUsage:
    """Reads what the sessions of a store have used; what it needs is imported then."""

    def __init__(self, guard: ConnectionGuard) -> None:
        self._guard = guard

    def read(self, query: UsageQuery) -> Iterator[tuple[UsageRow, UsageRecord | Damaged]]:
        """See `read_usage`."""
        from jaato.storage.usage import read_usage

        return read_usage(self._guard, query)


class SqliteStore:
    """Sessions in the SQLite file `path`, their blobs in `blobs/` beside it.

    With `durability="normal"` an append survives the death of the process, with "full" also a power loss.
    Methods may be called from any thread. A store that cannot be written is opened for reading; `read_only`
    says so. `owner` is the name of this process for others.
    """

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability = "normal",
        read_only: bool = False,
        owner: str | None = None,
    ) -> None:
        self.path = path.absolute()
        connection, self.refusal = open_database(self.path, durability=durability, read_only=read_only)
        self.read_only = bool(self.refusal)
        self._place, self._look_at = file_id(self.path), 0.0
        self.owner = owner or this_program()
        self._guard = ConnectionGuard(connection, self.path)
        self._folds = Snapshots(self.path.parent / "folds")
        self._blobs = Blobs(self.path.parent / "blobs", sync=durability == "full")
        self._leases = Leases(self._guard, self.path.parent / "locks")
        self.usage = StoredUsage(self._guard)
        self._search = SearchIndex(self.path, read_only=self.read_only)
        self._logs: dict[str, WriteHandle] = {}
        self._checkpoint = Checkpoint(self.path)

    def create(self, first: Sequence[Event]) -> None:
        """Begin a session with its first events, numbered from 1; the very first is `session.created`.

        Raises `SessionBusy` when the id is taken.
        """
        self._require_writable()
        created = first[0] if first else None
        if not isinstance(created, SessionCreated):
            raise StoreError("A session begins with the event session.created.")
        session_id = created.session_id
        rows = encode_rows(first, 1)
        values = (session_id, created.workspace, created.name, "", "", *[created.timestamp] * 2)
        with self._guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                number = connection.execute(CREATE, values).lastrowid or 0
            except sqlite3.IntegrityError as error:
                raise SessionBusy(
                    f"Session {session_id} exists already. Open it, or begin one with a new id."
                ) from error
            log = WriteHandle(number, created.timestamp, self._leases.fence(session_id), rows[-1][0])
            connection.execute(FIRST, row_values(log, rows[0]))
            done = write_events(connection, log, rows[1:], first)
            connection.execute("COMMIT" if done else "ROLLBACK")
            if done:
                self._logs[session_id] = log
                self._checkpoint.count_commit(connection, size_of(rows))
        if not done:
            raise SessionBusy(self._leases.lost_reason(session_id))

    def append(self, events: Sequence[Event]) -> None:
        """Add events of one session in one commit; they survive kill -9 when this returns, or none is there.

        Raises `SessionBusy` when another process has the session or has appended meanwhile, `SessionNotFound` when
        the session is gone, `StoreError` for events that cannot be stored.
        """
        self._require_writable()
        if not events:
            return None
        rows = encode_rows(events, events[0].seq)
        session_id = events[0].session_id
        with self._guard as connection:
            log = self._logs.pop(session_id, None) or WriteHandle(
                self._number(connection, session_id), "", self._leases.fence(session_id)
            )
            try:
                is_next = log.fence and rows[0][0] == log.last_seq + 1
                if is_next and len(rows) <= AT_ONCE and not changes_session_row(events, log):
                    done = insert_events(connection, log, rows)
                else:
                    connection.execute("BEGIN IMMEDIATE")
                    done = write_events(connection, log, rows, events)
                    connection.execute("COMMIT" if done else "ROLLBACK")
            except sqlite3.IntegrityError as error:
                raise SessionBusy(
                    f"Session {session_id}: another process has written event {rows[0][0]} already. "
                    "Stop it there, or leave it here; then continue from what is stored, or fork the session."
                ) from error
            if done:
                log.last_seq = rows[-1][0]
                self._logs[session_id] = log
                self._checkpoint.count_commit(connection, size_of(rows))
        if not done:
            if not self._leases.fence(session_id) and self._leases.delete_dead(session_id):
                return self.append(events)
            self._raise_refusal(session_id, rows[0][0])
        return None

    def _raise_refusal(self, session_id: str, seq: int) -> None:
        """Raise what it means that an event did not go in."""
        if why := self._leases.lost_reason(session_id):
            raise SessionBusy(why)
        last = self.last_seq(session_id)
        raise StoreError(f"Session {session_id} ends with event {last}, so event {seq} cannot be the next.")

    def read(self, session_id: str, after_seq: int = 0) -> Iterator[Event | Damaged]:
        """The events after `after_seq` that are stored now, in order, a `Damaged` for each unreadable one.

        Memory does not grow with the log. Raises `SessionNotFound` at once.
        """
        with self._guard as connection:
            number = self._number(connection, session_id)
            last = self._last_seq(connection, session_id)
        return read_events(self._guard, session_id, number << SEQ_BITS, max(0, after_seq), last)

    def last_seq(self, session_id: str) -> int:
        """The number of the last stored event; raises `SessionNotFound`."""
        with self._guard as connection:
            return self._last_seq(connection, session_id)

    def find(self, text: str, workspace: str | None = None) -> str:
        """The id meant by an id, a name or the beginning of an id; the last two within `workspace`, if given.

        Raises `SessionNotFound`, with the candidates when there are several.
        """
        with self._guard as connection:
            return find_session(connection, text, workspace)

    def named(self, name: str) -> list[SessionRow]:
        """Those with exactly this name, in every workspace, newest first; a few of them where there are many."""
        with self._guard as connection:
            return find_named_sessions(connection, name)

    def sessions(
        self, workspace: str | None = None, limit: int = 50, before: str | None = None
    ) -> list[SessionRow]:
        """One page of sessions, newest first; `before` is the `cursor` of the last row of the page before."""
        with self._guard as connection:
            return list_sessions(connection, workspace, limit, before)

    def search(
        self, query: str, workspace: str | None = None, limit: int = 50, before: str | None = None
    ) -> Hits:
        """One page of the sessions that have all words of a query, newest first, each with a line from it.

        Brings the index up to date as far as may be done in one go, which can take a second or two: not for the loop.
        Raises `StoreError` for a query without a word.
        """
        return self._search.search(query, workspace, limit, before)

    def fork(
        self, session_id: str, seq: int | None = None, name: str | None = None, made: str | None = None
    ) -> str:
        """A new session with the events of this one up to `seq`, or all; returns its id. See `storage.fork`."""
        from jaato.storage.fork import fork_session  # few programs fork, and fewer read bundles

        self._require_writable()
        made = made or new_id("s")
        self._leases.take(made, self.owner)
        try:
            fork_session(self._guard, session_id, seq, name, made)
        finally:
            self._leases.release(made)
        return made

    def delete(self, session_id: str) -> None:
        """Remove a session and the blobs that no other session refers to. Slow, so not for the loop.

        Raises `SessionNotFound`, and `SessionBusy` when another process has it.
        """
        self._require_writable()
        self.last_seq(session_id)
        mine = self._leases.fence(session_id)
        if not mine:
            self._leases.take(session_id, self.owner)
        try:
            self._search.forget(session_id)
            self._delete(session_id)
        finally:
            if not mine:
                self._leases.release(session_id)

    def _delete(self, session_id: str) -> None:
        with self._guard as connection:
            number = self._number(connection, session_id)
            self._logs.pop(session_id, None)

        def forget() -> None:
            with file_errors(self.path.parent):
                self._folds.remove(session_id)

        remove_session(self._guard, number, forget, self._checkpoint.count_commit)
        delete_unused_blobs(self._guard, self._blobs)
        self._checkpoint.truncate()

    @property
    def day_ledger(self) -> DayLedger:
        """What sessions have reserved of the day's budget; few sessions have one."""
        from jaato.storage.day_ledger import FileDayLedger

        return FileDayLedger(
            self.path.parent / "budget", lambda session_id: self.holder(session_id) is not None
        )

    # --- blobs and snapshots ---

    def put_blob(self, session_id: str, data: bytes) -> str:
        """Keep bytes for a session; returns their SHA-256 in hex. The same bytes are stored once."""
        return self._keep(session_id, [data])

    def put_blob_file(self, session_id: str, path: Path) -> str:
        """Keep a copy of a regular file, of any size in bounded memory; returns its SHA-256 in hex."""
        return self._keep(session_id, chunks_of(path))

    def get_blob(self, session_id: str, digest: str, offset: int = 0, limit: int | None = None) -> bytes:
        """At most `limit` bytes of a blob from `offset`; reading all of it checks its hash.

        Raises `StoreError` for a blob that is not of this session, that is gone or damaged.
        """
        return self._blobs.read(digest, self.blob_size(session_id, digest), offset, limit)

    def blob_size(self, session_id: str, digest: str) -> int:
        """The size of a blob of this session in bytes."""
        self._blobs.path(digest)
        with self._guard as connection:
            number = self._number(connection, session_id)
            row = connection.execute(
                "SELECT size_bytes FROM blob WHERE session = ? AND digest = ?", (number, digest)
            ).fetchone()
        if row is None:
            raise StoreError(f"Session {session_id} has no blob {digest}.")
        return int(row[0])

    def load_snapshot(self, session_id: str) -> bytes | None:
        """What `save_snapshot` has kept last of a session; None when nothing is there any more."""
        return self._folds.get(session_id)

    def save_snapshot(self, session_id: str, data: bytes) -> None:
        """Keep what was made of a long log until the session is deleted; it may be lost before. Raises `StoreError`."""
        self._require_writable()
        with self._guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._number(connection, session_id)  # else it would outlive a session that is being deleted
            with file_errors(self.path.parent):
                self._folds.put(session_id, data)
            connection.execute("COMMIT")

    def size_bytes(self, session_id: str) -> int:
        """How much the log and the results of a session take; 0 for one that is not there."""
        return count_stored_bytes(self._guard, session_id)

    # --- who writes ----------------------------------------------------------------------------------------------

    def hold(self, session_id: str) -> None:
        """Take the lease of a session, as `owner` of the store, until `release`. Not needed for reading."""
        self.lease(session_id, self.owner)

    def lease(self, session_id: str, owner: str) -> int:
        """Take the lease of a session as `owner`; returns the fencing number every append is checked against.

        A dead holder is replaced at once. Raises `SessionBusy` naming a living one.
        """
        self._require_writable()
        fence = self._leases.take(session_id, owner)
        self._logs.pop(session_id, None)
        return fence

    def release(self, session_id: str, *, unfinished: bool = False) -> None:
        """Let another process write this session; `unfinished`, it is one of `abandoned_sessions`."""
        self._leases.release(session_id, unfinished=unfinished)
        self._logs.pop(session_id, None)

    def holder(self, session_id: str) -> Holder | None:
        """The living process, this one included, that has the session's lease; or None."""
        return self._leases.holder(session_id)

    def abandoned_sessions(self) -> list[str]:
        """The sessions that were open in a process when it died, or were left unfinished, until they are held or
        cleared."""
        return [holder.session_id for holder in self._leases.list_abandoned()]

    def clear_abandoned(self, session_id: str) -> None:
        """Remove a session from the abandoned ones. Raises `SessionBusy` when a living process holds it."""
        self.hold(session_id)
        self.release(session_id)

    # --- bundles and maintenance ---------------------------------------------------------------------------------

    def import_bundle(self, path: Path, workspace: Path, name: str | None = None) -> str:
        """Import the bundle at `path` as a new session of `workspace`; returns its id.

        Raises `StoreError` for anything that is not as it must be; nothing is stored then.
        """
        from jaato.storage.bundle_import import import_session, workspace_text

        self._require_writable()
        made = new_id("s")
        self._leases.take(made, self.owner)
        try:
            import_session(self._guard, self._blobs, path, workspace_text(workspace), name, made)
        finally:
            self._leases.release(made)
        return made

    def vacuum(self, kept: Retention = KEEP_ALL, *, dry_run: bool = False) -> VacuumReport:
        """Remove the sessions beyond what is kept, and everything that belongs to none; make the files small again.

        A session that a living process has open stays. With `dry_run` nothing is changed. Raises `StoreError`.
        """
        if not dry_run:
            self._require_writable()
        beyond = sessions_beyond(self._guard, kept, datetime.datetime.now(datetime.UTC))
        held = {holder.session_id for holder in self._leases.list_held()}
        removed = [row for row in beyond if row.id not in held]
        staying = [row.id for row in beyond if row.id in held]
        size_bytes = sum([count_stored_bytes(self._guard, row.id) for row in removed])
        if dry_run:
            return VacuumReport(removed, staying, size_bytes)
        done: list[SessionRow] = []
        for row in removed:
            try:
                self.delete(row.id)
                done.append(row)
            except (SessionBusy, SessionNotFound):
                staying.append(row.id)
        return VacuumReport(done, staying, size_bytes, self._tidy())

    def _tidy(self) -> str:
        held = self._leases.list_held()
        if not held:
            clear_drafts(self._guard)
        delete_unused_blobs(self._guard, self._blobs)
        with self._guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            for path in stray_blobs(connection, self.path.parent / "blobs", time.time() - ABANDONED_S):
                path.unlink(missing_ok=True)
            connection.execute("COMMIT")
        self._leases.sweep()
        self._search.tidy()
        return shrink(self._guard, self._leases)

    def close(self) -> None:
        """Close the store, after pending writes; a second time does nothing."""
        if not self.read_only:
            self._leases.release_all()
        self._checkpoint.finish()
        self._search.close()
        with self._guard as connection:
            connection.close()

    # --- the lines below know the tables ---

    def _require_writable(self) -> None:
        if self.refusal:
            raise StoreReadOnly(f"{self.path} cannot be written: {self.refusal}.")
        if (moment := time.monotonic()) >= self._look_at:
            if file_id(self.path) != self._place:
                raise make_moved_error(self.path)
            self._look_at = moment + LOOKS_EVERY_S

    def _number(self, connection: sqlite3.Connection, session_id: str) -> int:
        row = None
        if is_unicode(session_id):
            row = connection.execute("SELECT number FROM session WHERE id = ?", (session_id,)).fetchone()
        if row is None:
            raise SessionNotFound(
                f"There is no session {session_id!r}. `jaato sessions list --all` shows them."
            )
        return int(row[0])

    def _last_seq(self, connection: sqlite3.Connection, session_id: str) -> int:
        number = self._number(connection, session_id)
        row = connection.execute(LAST, (number << SEQ_BITS, (number + 1) << SEQ_BITS)).fetchone()
        return row[0] - (number << SEQ_BITS) if row else 0

    def _keep(self, session_id: str, chunks: Iterable[bytes]) -> str:
        """Write a blob, then name it and note its session, in a transaction that keeps it from being deleted as unused."""
        self._require_writable()
        self.last_seq(session_id)
        with self._blobs.stage(chunks) as blob, self._guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            number = self._number(connection, session_id)
            self._blobs.keep(blob)
            connection.execute(REFER, (number, blob.digest, blob.size_bytes))
            connection.execute("COMMIT")
        return blob.digest
