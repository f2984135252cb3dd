"""Content-addressed blobs: files `blobs/ab/abcd…`, named by the SHA-256 of their content."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from jaato.errors import StoreError
from jaato.lazy_pattern import lazy_pattern
from jaato.storage.errors import file_error, file_errors
from jaato.storage.private_files import private_directory, sync_directory

CHUNK_BYTES = 1 << 20
DIGEST = lazy_pattern(r"[0-9a-f]{64}")


class Staged(NamedTuple):
    """A blob that is written and not named yet."""

    temporary: Path
    digest: str
    size_bytes: int


def chunks_of(source: Path) -> Iterator[bytes]:
    """What a regular file holds, piece by piece; raises `StoreError`, and follows no link."""
    with file_errors(source):
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StoreError(f"{source} is not a regular file, so it cannot be kept as a blob.")
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


class Blobs:
    """The directory of blobs; each is written under a private name and renamed when it is whole."""

    def __init__(self, directory: Path, *, sync: bool) -> None:
        self._directory = directory
        self._sync = sync

    def path(self, digest: str) -> Path:
        """Where a blob is kept; raises `StoreError` for what is no digest."""
        if not DIGEST.fullmatch(digest):
            raise StoreError(f"{digest[:80]!r} is not the name of a blob: 64 hexadecimal digits are.")
        return self._directory / digest[:2] / digest

    def has(self, digest: str, size_bytes: int) -> bool:
        """Whether a blob is there in its full length."""
        try:
            found = self.path(digest).lstat()
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size == size_bytes

    @contextmanager
    def stage(self, chunks: Iterable[bytes]) -> Iterator[Staged]:
        """Write chunks to a private file, gone after the block unless it was kept. Raises `StoreError`."""
        private_directory(self._directory)
        with file_errors(self._directory):
            import tempfile  # few sessions have blobs

            descriptor, name = tempfile.mkstemp(prefix=".new-", dir=self._directory)
        try:
            yield self._fill(descriptor, Path(name), chunks)
        finally:
            Path(name).unlink(missing_ok=True)

    def _fill(self, descriptor: int, temporary: Path, chunks: Iterable[bytes]) -> Staged:
        hasher, size_bytes = hashlib.sha256(), 0
        with file_errors(temporary), os.fdopen(descriptor, "wb", buffering=0) as file:
            for chunk in chunks:
                hasher.update(chunk)
                size_bytes += len(chunk)
                view = memoryview(chunk)
                while view:
                    view = view[file.write(view) :]
            if self._sync:
                os.fsync(descriptor)
        return Staged(temporary, hasher.hexdigest(), size_bytes)

    def keep(self, blob: Staged) -> None:
        """Give a staged file the name of its content, unless that is there already, whole."""
        if self.has(blob.digest, blob.size_bytes):
            return
        target = self.path(blob.digest)
        private_directory(target.parent)
        with file_errors(target):
            blob.temporary.replace(target)
            if self._sync:
                sync_directory(target.parent)

    def read(self, digest: str, size_bytes: int, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes of a blob from `offset`; a read of the whole checks its hash. Raises `StoreError`."""
        path = self.path(digest)
        offset = max(0, offset)
        wanted = max(0, size_bytes - offset) if limit is None else max(0, min(limit, size_bytes - offset))
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                file.seek(offset)
                data = file.read(wanted)
        except FileNotFoundError:
            raise StoreError(f"{path} is gone, so this part of the session cannot be shown.") from None
        except OSError as error:
            raise file_error(error, path) from error
        whole = offset == 0 and wanted == size_bytes
        if len(data) != wanted or (whole and hashlib.sha256(data).hexdigest() != digest):
            raise StoreError(
                f"{path} is damaged: it no longer holds what its name says. Restore it from a backup."
            )
        return data

    def remove(self, digest: str) -> None:
        """Remove a blob; one that is gone is fine."""
        path = self.path(digest)
        with file_errors(path):
            path.unlink(missing_ok=True)

    def find_abandoned(self, older_than: float) -> Iterator[Path]:
        """Half-written files a killed process left, last changed before this time (seconds since 1970)."""
        for path in self._directory.glob(".new-*"):
            try:
                if path.lstat().st_mtime < older_than:
                    yield path
            except FileNotFoundError:
                continue
