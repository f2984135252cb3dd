"""One writer for a session at a time: a lock of the operating system, which dies with the process that has it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path

from jaato.errors import SessionBusy
from jaato.storage.faults import file_fault
from jaato.storage.files import private_directory

READ_BYTES = 32


class Holds:
    """The sessions this store has open for writing, each by a lock on a file of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[str, int] = {}

    def take(self, session_id: str) -> None:
        """Hold a session. Raises `SessionBusy` naming the process that has it; its log can still be read."""
        if session_id in self._held:
            raise SessionBusy(
                f"The session {session_id} is open in this process already; close it there first."
            )
        private_directory(self._directory)
        path = self._path(session_id)
        descriptor = self._locked(path, session_id)
        while not same_file(descriptor, path):  # who had it removed the file while we opened it
            os.close(descriptor)
            descriptor = self._locked(path, session_id)
        with contextlib.suppress(OSError):  # who holds it is a help to people, the lock is what counts
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._held[session_id] = descriptor

    def release(self, session_id: str) -> None:
        """Let go of a session; one that is not held is fine."""
        descriptor = self._held.pop(session_id, None)
        if descriptor is None:
            return
        with contextlib.suppress(OSError):
            self._path(session_id).unlink()
        os.close(descriptor)

    def _path(self, session_id: str) -> Path:
        return self._directory / f"{hashlib.sha256(session_id.encode()).hexdigest()[:32]}.lock"

    def _locked(self, path: Path, session_id: str) -> int:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise file_fault(error, path) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, READ_BYTES).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise SessionBusy(
                f"The session {session_id} is open in another process{f' ({holder})' if holder else ''}; "
                "close it there, or begin a new session. `jaato sessions show` can read it meanwhile."
            ) from None
        return descriptor

    def release_all(self) -> None:
        """Let go of every session."""
        for session_id in list(self._held):
            self.release(session_id)


def same_file(descriptor: int, path: Path) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
