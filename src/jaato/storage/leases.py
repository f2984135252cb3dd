"""Leases of sessions: a row with a fencing number names the writer, a file lock shows whether its process is alive."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from jaato.abc.store import Holder
from jaato.errors import SessionBusy, StoreError
from jaato.protocol.codec import is_unicode
from jaato.protocol.events import now
from jaato.storage.database import ConnectionGuard
from jaato.storage.errors import file_errors
from jaato.storage.private_files import private_directory
from jaato.tools.filesystem.atomic import is_same_file

READ_BYTES = 32
TRIES = 3
TRY_AGAIN_S = 0.001
"""A process that checks whether a holder is alive has the lock for a moment."""


class SessionLocks:
    """The sessions this store has open for writing, each by a lock on a file of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[str, int] = {}

    def take(self, session_id: str) -> None:
        """Lock a session. Raises `SessionBusy` naming the process that has it; its log can still be read."""
        if session_id in self._held:
            raise SessionBusy(
                f"The session {session_id} is open in this process already; close it there first."
            )
        private_directory(self._directory)
        path = self._path(session_id)
        descriptor = self._open_locked(path, session_id)
        while not is_same_file(descriptor, path):  # who had it removed the file while we opened it
            os.close(descriptor)
            descriptor = self._open_locked(path, session_id)
        with contextlib.suppress(OSError):  # who holds it is a help to people, the lock is what counts
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._held[session_id] = descriptor

    def release(self, session_id: str) -> None:
        """Release the lock of a session, if it is held."""
        descriptor = self._held.pop(session_id, None)
        if descriptor is None:
            return
        path = self._path(session_id)
        with contextlib.suppress(OSError):
            if is_same_file(descriptor, path):  # else ours was removed, and this one is another holder's
                path.unlink()
        os.close(descriptor)

    def alive(self, session_id: str) -> bool:
        """Whether some process, this one included, holds a session now."""
        if session_id in self._held:
            return True
        try:
            descriptor = os.open(self._path(session_id), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def stale(self) -> Iterator[Path]:
        """The lock files of holders that are dead."""
        for path in self._directory.glob("*.lock"):
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if is_same_file(descriptor, path):
                        yield path
                finally:
                    os.close(descriptor)

    def _path(self, session_id: str) -> Path:
        return self._directory / f"{hashlib.sha256(session_id.encode()).hexdigest()[:32]}.lock"

    def _open_locked(self, path: Path, session_id: str) -> int:
        with file_errors(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        is_ours = False
        try:
            is_ours = try_lock(descriptor)
            holder = "" if is_ours else os.read(descriptor, READ_BYTES).decode("ascii", "replace").strip()
        finally:
            if not is_ours:
                os.close(descriptor)
        if not is_ours:
            raise SessionBusy(
                f"The session {session_id} is open in another process{f' ({holder})' if holder else ''}; "
                "close it there, or begin a new session. `jaato sessions show` can read it meanwhile."
            )
        return descriptor

    def release_all(self) -> None:
        """Let go of every session."""
        for session_id in list(self._held):
            self.release(session_id)


def try_lock(descriptor: int) -> bool:
    """Whether the lock of an open file is ours now. Raises `StoreError` where files cannot be locked."""
    for left in range(TRIES, 0, -1):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if left > 1:
                time.sleep(TRY_AGAIN_S)
        except OSError as error:
            raise StoreError(
                f"Files cannot be locked here: {error.strerror}. Keep the store on a local file system."
            ) from error
        else:
            return True
    return False


MAX_WORD_CHARS = 16
OWNER_CHARS = 80
TAKE = "INSERT OR REPLACE INTO lease (session, pid, host, what, since) VALUES (?, ?, ?, ?, ?)"
HOLDERS = "SELECT session, fence, pid, host, what, since FROM lease"
BEGUN = " WHERE EXISTS (SELECT 1 FROM session WHERE id = lease.session)"
DROP = "DELETE FROM lease WHERE fence = ?"
SERVER = "jaato serve"
"""What a holder is that others can join."""


class Leases:
    """The leases of one store. The table names the holder, the lock shows whether it is alive; both are needed."""

    def __init__(self, guard: ConnectionGuard, directory: Path) -> None:
        self._guard = guard
        self._holds = SessionLocks(directory)
        self._fences: dict[str, int] = {}

    def take(self, session_id: str, owner: str) -> int:
        """Take the lease of a session; returns the fencing number, higher than any before.

        A holder that has died, whenever and however, is replaced at once. Raises `SessionBusy` naming a living one.
        """
        if not is_unicode(session_id):
            raise StoreError(f"{session_id!r} is no session's id.")
        try:
            self._holds.take(session_id)
        except SessionBusy as error:
            holder = None if session_id in self._fences else self.holder(session_id)
            if holder is None:
                raise
            served = holder.what.startswith(SERVER)
            advice = (
                f"`jaato attach {session_id}` joins it."
                if served
                else "Close it there, or begin a new session."
            )
            raise SessionBusy(
                f"The session {session_id} is open in another process: {holder}. {advice} "
                f"`jaato events {session_id} --follow` can read it meanwhile."
            ) from error
        row = (session_id, os.getpid(), socket.gethostname(), owner[:OWNER_CHARS], now())
        try:
            with self._guard as connection:
                fence = connection.execute(TAKE, row).lastrowid or 0
        except BaseException:
            self._holds.release(session_id)
            raise
        self._fences[session_id] = fence
        return fence

    def release(self, session_id: str, *, unfinished: bool = False) -> None:
        """Release the lease of a session, if it is held. An `unfinished` one is left as by a holder that died."""
        fence = self._fences.pop(session_id, None)
        if fence is not None and not unfinished:
            # a row that cannot be removed says that the session may have been left unfinished, which is only a hint
            with contextlib.suppress(StoreError), self._guard as connection:
                connection.execute(DROP, (fence,))
        self._holds.release(session_id)

    def release_all(self) -> None:
        """Let go of every session."""
        for session_id in list(self._fences):
            self.release(session_id)

    def fence(self, session_id: str) -> int:
        """The number of our lease of a session; 0 without one."""
        return self._fences.get(session_id, 0)

    def holder(self, session_id: str) -> Holder | None:
        """The living process that has the session's lease, or None."""
        rows = self._rows(session_id) if is_unicode(session_id) else []
        return rows[0] if rows and self._holds.alive(session_id) else None

    def list_held(self) -> list[Holder]:
        """The leases whose holders are alive."""
        return [holder for holder in self._rows() if self._holds.alive(holder.session_id)]

    def list_abandoned(self) -> list[Holder]:
        """The leases whose holder died with the session open, the oldest first; work grows with the leases alone."""
        return [
            holder
            for holder in self._rows(where=BEGUN)
            if holder.session_id not in self._fences and not self._holds.alive(holder.session_id)
        ]

    def delete_dead(self, session_id: str) -> bool:
        """Remove the lease of a dead holder; False if there is none."""
        rows = self._rows(session_id)
        if not rows or self._holds.alive(session_id):
            return False
        with self._guard as connection:
            return connection.execute(DROP, (rows[0].fence,)).rowcount == 1

    def lost_reason(self, session_id: str) -> str:
        """Why an append was refused, if because of a lease; empty if not."""
        fence = self.fence(session_id)
        rows = self._rows(session_id)
        if fence and (not rows or rows[0].fence != fence):
            who = f": {rows[0]}" if rows else ""
            return (
                f"Session {session_id} was taken over by another process{who}. What this one was about to write "
                "is not in it; open it again to go on from what is stored."
            )
        if not fence and rows:
            return f"Session {session_id} is held by {rows[0]}; only the holder of its lease can write to it."
        return ""

    def sweep(self) -> None:
        """Remove the lock files of the dead, and their leases of sessions that never began."""
        begun = {holder.session_id for holder in self._rows(where=BEGUN)}
        for holder in self._rows():
            if holder.session_id not in begun:
                self.delete_dead(holder.session_id)
        for path in self._holds.stale():
            path.unlink(missing_ok=True)

    def _rows(self, session_id: str | None = None, where: str = "") -> list[Holder]:
        values = () if session_id is None else (session_id,)
        condition = " WHERE session = ?" if values else where
        with self._guard as connection:
            try:
                rows = connection.execute(f"{HOLDERS}{condition} ORDER BY fence", values).fetchall()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                    raise
                return []  # a store of a version without leases, opened to be read
        return [Holder(*row) for row in rows]


def this_program() -> str:
    """What this process was started as, in a word or two: `jaato serve`, `pytest`."""
    name, *rest = [Path(sys.argv[0] if sys.argv else "").stem, *sys.argv[1:2]]
    if name in ("__main__", "-m"):
        name = Path(sys.argv[0]).parent.name
    if name in ("", "-c"):
        return "python"
    known = rest and name == "jaato" and rest[0].isalpha() and len(rest[0]) <= MAX_WORD_CHARS
    return f"{name} {rest[0]}" if known else name
