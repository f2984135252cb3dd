"""The session store in one SQLite file: each session an append-only log, big things in blobs beside it."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable
from pathlib import Path

from jaato.abc.store import KEEP_ALL, Holder, Retention, SessionRow, Upkeep
from jaato.errors import SessionBusy, SessionNotFound, StoreError
from jaato.protocol.ids import new_id
from jaato.storage.blobs import chunks_of
from jaato.storage.faults import file_fault
from jaato.storage.log import SqliteLog
from jaato.storage.removal import ABANDONED_S, sweep
from jaato.storage.unpack import unpack, workspace_text
from jaato.storage.vacuum import (
    clear_drafts,
    outdated,
    shrink,
    stored_bytes,
    stray_blobs,
)

REFER = "INSERT OR IGNORE INTO blob VALUES (?, ?, ?)"


class SqliteStore(SqliteLog):
    """Sessions in the SQLite file `path`, their blobs in `blobs/` beside it.

    With `durability="normal"` an append survives the death of the process, with "full" also a power loss.
    Methods may be called from any thread. A store that cannot be written is opened for reading; `read_only`
    says so. `owner` is what others are told this process is.
    """

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

    def fold_of(self, session_id: str) -> bytes | None:
        """What `keep_fold` has kept last of a session; None when nothing is there any more."""
        return self._folds.get(session_id)

    def keep_fold(self, session_id: str, data: bytes) -> None:
        """Keep what was made of a long log until the session is deleted; it may be lost before. Raises `StoreError`."""
        self._must_write()
        with self._guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._number(connection, session_id)  # else it would outlive a session that is being deleted
            try:
                self._folds.put(session_id, data)
            except OSError as error:
                raise file_fault(error, self.path.parent) from error
            connection.execute("COMMIT")

    def size_bytes(self, session_id: str) -> int:
        """How much the log and the results of a session take; 0 for one that is not there."""
        return stored_bytes(self._guard, session_id)

    # --- who writes ----------------------------------------------------------------------------------------------

    def hold(self, session_id: str) -> None:
        """Be the one who writes this session, until `release`. Not needed for reading; see `lease`."""
        self.lease(session_id, self.owner)

    def lease(self, session_id: str, owner: str) -> int:
        """Be the one who writes this session, as `owner`; returns the fencing number every append is checked against.

        A dead holder is replaced at once. Raises `SessionBusy` naming a living one.
        """
        self._must_write()
        fence = self._leases.take(session_id, owner)
        self._logs.pop(session_id, None)
        return fence

    def release(self, session_id: str, *, unfinished: bool = False) -> None:
        """Let another process write this session; `unfinished`, it is one of those in `abandoned`."""
        self._leases.release(session_id, unfinished=unfinished)
        self._logs.pop(session_id, None)

    def holder(self, session_id: str) -> Holder | None:
        """Who holds a session now: a living process, this one included; None when nobody does."""
        return self._leases.holder(session_id)

    def abandoned(self) -> list[str]:
        """The sessions that were open in a process when it died, or were left unfinished, until somebody leases or
        settles them."""
        return [holder.session_id for holder in self._leases.abandoned()]

    def settle(self, session_id: str) -> None:
        """Strike an abandoned session from the list. Raises `SessionBusy` when somebody alive has it."""
        self.hold(session_id)
        self.release(session_id)

    # --- bundles and upkeep --------------------------------------------------------------------------------------

    def import_bundle(self, path: Path, workspace: Path, name: str | None = None) -> str:
        """A new session from the bundle at `path`, which goes on in `workspace`; returns its id.

        Raises `StoreError` for anything that is not as it must be; nothing is stored then.
        """
        self._must_write()
        made = new_id("s")
        self._leases.take(made, self.owner)
        try:
            unpack(self._guard, self._blobs, path, workspace_text(workspace), name, made)
        finally:
            self._leases.release(made)
        return made

    def vacuum(self, kept: Retention = KEEP_ALL, *, dry_run: bool = False) -> Upkeep:
        """Remove the sessions beyond what is kept, and everything that belongs to none; make the files small again.

        A session that somebody alive has open stays. With `dry_run` nothing is changed. Raises `StoreError`.
        """
        if not dry_run:
            self._must_write()
        beyond = outdated(self._guard, kept, datetime.datetime.now(datetime.UTC))
        held = {holder.session_id for holder in self._leases.held()}
        removed = [row for row in beyond if row.id not in held]
        staying = [row.id for row in beyond if row.id in held]
        size_bytes = sum([stored_bytes(self._guard, row.id) for row in removed])
        if dry_run:
            return Upkeep(removed, staying, size_bytes)
        done: list[SessionRow] = []
        for row in removed:
            try:
                self.delete(row.id)
                done.append(row)
            except (SessionBusy, SessionNotFound):
                staying.append(row.id)
        return Upkeep(done, staying, size_bytes, self._tidy())

    def _tidy(self) -> str:
        held = self._leases.held()
        if not held:
            clear_drafts(self._guard)
        sweep(self._guard, self._blobs)
        with self._guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            for path in stray_blobs(connection, self.path.parent / "blobs", time.time() - ABANDONED_S):
                path.unlink(missing_ok=True)
            connection.execute("COMMIT")
        self._leases.sweep()
        self._search.tidy()
        return shrink(self._guard, self._leases)

    # --- the lines below know the tables ---

    def _keep(self, session_id: str, chunks: Iterable[bytes]) -> str:
        """Write a blob, then name it and note whose it is while nobody can sweep it away."""
        self._must_write()
        self.last_seq(session_id)
        with self._blobs.staged(chunks) as blob, self._guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            number = self._number(connection, session_id)
            self._blobs.keep(blob)
            connection.execute(REFER, (number, blob.digest, blob.size_bytes))
            connection.execute("COMMIT")
        return blob.digest
