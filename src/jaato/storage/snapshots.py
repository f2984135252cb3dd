"""Snapshots of the state folded from a long log: a cache beside it that may be missing."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from pathlib import Path

from jaato.storage.private_files import private_directory

MOST_BYTES = 32 << 20
HALF_WRITTEN_S = 60.0
"""After so long a file that is half written is that of a process which died."""


class Snapshots:
    """A private file for each session that has one, named by a hash of its id. Raises `OSError` and `StoreError`s."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, session_id: str) -> bytes | None:
        """The snapshot of a session, None where there is none that can be read."""
        try:
            descriptor = os.open(
                self._path(session_id), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES or found.st_uid != os.geteuid():
                return None
            return file.read(MOST_BYTES)

    def put(self, session_id: str, data: bytes) -> None:
        """Replace the snapshot of a session atomically; does nothing while another process does."""
        private_directory(self._directory)
        path, part = self._path(session_id), self._part(session_id)
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            if time.time() - part.lstat().st_mtime > HALF_WRITTEN_S:
                part.unlink(missing_ok=True)
            return
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def remove(self, session_id: str) -> None:
        """Delete the snapshot of a session."""
        for path in (self._path(session_id), self._part(session_id)):
            path.unlink(missing_ok=True)

    def _path(self, session_id: str) -> Path:
        return self._directory / hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def _part(self, session_id: str) -> Path:
        return self._path(session_id).with_suffix(".part")
