"""What files held before they were changed: content by its hash, one record a change, in `.jaato/backups`."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from jaato.errors import ToolError
from jaato.plugins.files.disk import copy, exists, listed, read_at, settle, write_new
from jaato.protocol.ids import PAIRS
from jaato.tools.beneath import OPEN_DIRECTORY, FileFailed, explained

PLACE = ".jaato/backups"
PRUNE_EVERY = 100
MAX_FILE_BYTES = 256 << 20
State = Literal["absent", "file", "link", "directory"]


class BackupRefused(ToolError):
    """No backup can be kept, so nothing is changed."""

    code = "backup_failed"


class Record(Struct, frozen=True, omit_defaults=True):
    """One change of one path: what was there before. `path` is relative to the workspace, or absolute."""

    id: str
    path: str
    action: str
    time: float
    before: State
    digest: str | None = None
    size_bytes: int = 0
    mode: int = 0
    link: str | None = None
    other: str | None = None
    """Where it was moved to or came from."""
    call_id: str = ""
    session_id: str = ""


@dataclass(slots=True)
class Shelf:
    """The directories of the backups, open and locked against the sweep of another process."""

    root: int
    objects: int
    records: int
    staging: int


class Ids:
    """Backup identifiers: a letter and a ULID, always greater than the last one of this process."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> str:
        """A new identifier."""
        with self._lock:
            now = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(79)
            self._last = max(now, self._last + 1)
            number = self._last
        return "f" + "".join([PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])


class Backups:
    """The backups of one workspace. Every method raises `ToolError`s; nothing goes through a link.

    The oldest are dropped when there are more than `max_count` records or their content exceeds `max_bytes`.
    """

    def __init__(self, workspace: Path, max_count: int = 1000, max_bytes: int = 512 << 20) -> None:
        self.workspace = workspace
        self.max_count = max_count
        self.max_bytes = max_bytes
        self._ids = Ids()
        self._made = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[Shelf]:
        """The shelf, made when it is missing; cleared of what a killed process left if nobody uses it."""
        with contextlib.ExitStack() as stack:
            try:
                shelf = self._shelf(stack)
                lock = os.open(
                    "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=shelf.root
                )
                stack.callback(os.close, lock)
                if self._made % PRUNE_EVERY == 0:
                    self._tidy(shelf, lock)
                fcntl.flock(lock, fcntl.LOCK_SH)
            except OSError as error:
                raise refused(error) from None
            self._made += 1
            yield shelf

    def keep(self, shelf: Shelf, content: bytes | int) -> tuple[str, int]:
        """Store bytes or the content of an open file; returns its SHA-256 and size. Durable."""
        try:
            if isinstance(content, bytes):
                digest = hashlib.sha256(content).hexdigest()
                if not self._has(shelf, digest, len(content)):
                    self._store(shelf, digest, content)
                return digest, len(content)
            size = os.fstat(content).st_size
            if size > MAX_FILE_BYTES:
                raise BackupRefused(
                    f"The file has {size} bytes, too many for a backup (at most {MAX_FILE_BYTES}). "
                    "Nothing was changed; if it may be lost, use run."
                )
            return self._store_file(shelf, content)
        except OSError as error:
            raise refused(error) from None

    def content(self, digest: str) -> bytes:
        """The bytes of a backup. Raises `BackupRefused` when they are gone or damaged."""
        with contextlib.ExitStack() as stack:
            try:
                shelf = self._shelf(stack)
                data = read_at(shelf.objects, digest, MAX_FILE_BYTES + 1)
            except OSError:
                raise BackupRefused(
                    "The content of this backup is gone; listBackups shows the others."
                ) from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise BackupRefused("The content of this backup is damaged; listBackups shows the others.")
        return data

    def record(self, shelf: Shelf, record: Record) -> Record:
        """Note a change that is about to be made, under a new id."""
        record = msgspec.structs.replace(record, id=self._ids.next(), time=time.time())
        try:
            with contextlib.ExitStack() as stack:
                folder = self._directory(stack, shelf.records, folder_of(record.path))
                write_new(folder, f"{record.id}.json", msgspec.json.encode(record))
        except OSError as error:
            raise refused(error) from None
        return record

    def forget(self, shelf: Shelf, record: Record) -> None:
        """Take back the record of a change that did not happen."""
        with contextlib.suppress(OSError):
            os.unlink(f"{folder_of(record.path)}/{record.id}.json", dir_fd=shelf.records)

    def records(self, path: str | None = None) -> list[Record]:
        """The records of a path, or all, newest first; damaged ones are passed over."""
        with contextlib.ExitStack() as stack:
            try:
                top = self._existing(stack)
            except FileNotFoundError:
                return []
            except OSError as error:
                raise refused(error) from None
            found = [record for _, record in self._read(top, None if path is None else folder_of(path))]
        return sorted(found, key=lambda record: record.id, reverse=True)

    def _existing(self, stack: contextlib.ExitStack) -> int:
        """The directory of the records, if there is one."""
        fd = os.open(self.workspace, OPEN_DIRECTORY)
        stack.callback(os.close, fd)
        for part in (*PLACE.split("/"), "records"):
            fd = os.open(part, OPEN_DIRECTORY, dir_fd=fd)
            stack.callback(os.close, fd)
        return fd

    def _read(self, records: int, folder: str | None) -> Iterator[tuple[str, Record]]:
        """Every readable record with its place below the records."""
        for name in [folder] if folder is not None else listed(records, "."):
            for file in listed(records, name):
                try:
                    data = read_at(records, f"{name}/{file}", 1 << 20)
                    yield f"{name}/{file}", msgspec.json.decode(data, type=Record)
                except (OSError, msgspec.DecodeError):
                    continue

    def _shelf(self, stack: contextlib.ExitStack) -> Shelf:
        """The open directories, made where missing."""
        top = os.open(self.workspace, OPEN_DIRECTORY)
        stack.callback(os.close, top)
        for part in PLACE.split("/"):
            top = self._directory(stack, top, part)
        if not exists(top, ".gitignore"):
            with contextlib.suppress(FileExistsError):
                write_new(top, ".gitignore", b"*\n")
        objects, records, staging = (
            self._directory(stack, top, name) for name in ("objects", "records", "staging")
        )
        return Shelf(top, objects, records, staging)

    def _directory(self, stack: contextlib.ExitStack, parent: int, name: str) -> int:
        """A directory in another, made private when it is missing; never through a link."""
        try:
            fd = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent)
            fd = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
        stack.callback(os.close, fd)
        return fd

    def _has(self, shelf: Shelf, digest: str, size: int) -> bool:
        """Whether this content is stored already."""
        try:
            return os.stat(digest, dir_fd=shelf.objects, follow_symlinks=False).st_size == size
        except FileNotFoundError:
            return False

    def _store(self, shelf: Shelf, digest: str, data: bytes) -> None:
        """Store bytes under their hash, whole or not at all."""
        hidden = f"{self._ids.next()}.tmp"
        try:
            write_new(shelf.staging, hidden, data)
            os.rename(hidden, digest, src_dir_fd=shelf.staging, dst_dir_fd=shelf.objects)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(hidden, dir_fd=shelf.staging)
            raise
        settle(shelf.objects)

    def _store_file(self, shelf: Shelf, source: int) -> tuple[str, int]:
        """Store the content of an open file in bounded memory."""
        hidden = f"{self._ids.next()}.tmp"
        digest = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(hidden, flags, 0o600, dir_fd=shelf.staging)
        try:
            size = copy(source, fd, digest.update)
            os.fsync(fd)
            name = digest.hexdigest()
            os.rename(hidden, name, src_dir_fd=shelf.staging, dst_dir_fd=shelf.objects)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(hidden, dir_fd=shelf.staging)
            raise
        finally:
            os.close(fd)
        settle(shelf.objects)
        return name, size

    def _tidy(self, shelf: Shelf, lock: int) -> None:
        """Remove what a killed process left and the backups beyond the bounds, unless others work."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return
            raise
        for name in listed(shelf.staging, "."):
            os.unlink(name, dir_fd=shelf.staging)
        found = sorted(self._read(shelf.records, None), key=lambda item: item[1].id, reverse=True)
        kept: set[str] = set()
        total = 0
        for count, (place, record) in enumerate(found):
            size = record.size_bytes if record.digest and record.digest not in kept else 0
            if count >= self.max_count or (total + size > self.max_bytes and count > 0):
                os.unlink(place, dir_fd=shelf.records)
                continue
            total += size
            if record.digest:
                kept.add(record.digest)
        for name in listed(shelf.objects, "."):
            if name not in kept:
                os.unlink(name, dir_fd=shelf.objects)


def state_of(mode: int) -> State:
    """What a mode says is there, as records name it."""
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "file"


def folder_of(path: str) -> str:
    """The directory of a path's records."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:24]


def refused(error: OSError) -> ToolError:
    """That no backup can be kept, and why."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return BackupRefused(
            f"{PLACE} is not a real directory (a link or a file is in its way), so no backup can be kept and "
            "nothing was changed. Ask the user to remove it."
        )
    reason = explained(error, PLACE)
    return FileFailed(f"No backup can be kept, so nothing was changed. {reason}")
