"""One writer for a session at a time: a lock of the operating system, which dies with the process that has it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from jaato.errors import SessionBusy
from jaato.storage.faults import file_fault
from jaato.storage.files import private_directory

READ_BYTES = 32
TRIES = 3
TRY_AGAIN_S = 0.001
"""Somebody who looks whether a holder lives has the lock for a moment."""


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
        path = self._path(session_id)
        with contextlib.suppress(OSError):
            if same_file(descriptor, path):  # else somebody removed ours, and this one is another holder's
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
                    if same_file(descriptor, path):
                        yield path
                finally:
                    os.close(descriptor)

    def _path(self, session_id: str) -> Path:
        return self._directory / f"{hashlib.sha256(session_id.encode()).hexdigest()[:32]}.lock"

    def _locked(self, path: Path, session_id: str) -> int:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise file_fault(error, path) from error
        if not locked(descriptor):
            holder = os.read(descriptor, READ_BYTES).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise SessionBusy(
                f"The session {session_id} is open in another process{f' ({holder})' if holder else ''}; "
                "close it there, or begin a new session. `jaato sessions show` can read it meanwhile."
            )
        return descriptor

    def release_all(self) -> None:
        """Let go of every session."""
        for session_id in list(self._held):
            self.release(session_id)


def locked(descriptor: int) -> bool:
    """Whether the lock of an open file is ours now."""
    for left in range(TRIES, 0, -1):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if left > 1:
                time.sleep(TRY_AGAIN_S)
        else:
            return True
    return False


def same_file(descriptor: int, path: Path) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
