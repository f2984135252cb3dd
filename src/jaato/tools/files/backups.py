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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from jaato.protocol.ids import PAIRS, new_id
from jaato.tools.files.disk import listed, read_at, write_new
from jaato.tools.files.shelf import BackupRefused, Shelf, directory, existing, refused

PRUNE_EVERY = 100
SET = ".set"
MAX_FILE_BYTES = 256 << 20
State = Literal["absent", "file", "link", "directory"]


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
    after: str | None = None
    """What the change left, as `held` says it; None where nobody knows."""
    call_id: str = ""
    session_id: str = ""

    @property
    def held(self) -> str:
        """What was there before, to be compared: `absent`, `directory`, `file:` its hash, `link:` its target."""
        return held(self.before, self.digest, self.link)


def held(state: State, digest: str | None = None, link: str | None = None) -> str:
    """What is at a place, in one line that is equal where that is equal."""
    match state:
        case "file":
            return f"file:{digest}"
        case "link":
            return f"link:{link}"
    return state


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
        self._stored_bytes = 0
        self._due = True

    @contextlib.contextmanager
    def open(self) -> Iterator[Shelf]:
        """The shelf, made when it is missing; cleared of what a killed process left if nobody uses it."""
        with contextlib.ExitStack() as stack:
            try:
                shelf = Shelf.of(self.workspace, stack)
                lock = os.open(
                    "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=shelf.root
                )
                stack.callback(os.close, lock)
                if self._due:
                    self._due = not self._tidy(shelf, lock)
                fcntl.flock(lock, fcntl.LOCK_SH)
            except OSError as error:
                raise refused(error) from None
            self._made += 1
            self._due = self._due or self._made % PRUNE_EVERY == 0
            yield shelf

    def keep(self, shelf: Shelf, content: bytes | int) -> tuple[str, int]:
        """Store bytes or the content of an open file; returns its SHA-256 and size. Durable."""
        try:
            if isinstance(content, bytes):
                digest = hashlib.sha256(content).hexdigest()
                if not shelf.has(digest, len(content)):
                    shelf.store(digest, content)
                    self._count(len(content))
                return digest, len(content)
            size = os.fstat(content).st_size
            if size > MAX_FILE_BYTES:
                raise BackupRefused(
                    f"The file has {size} bytes, too many for a backup (at most {MAX_FILE_BYTES}). "
                    "Nothing was changed; if it may be lost, use run."
                )
            stored = shelf.store_file(content)
            self._count(size)
            return stored
        except OSError as error:
            raise refused(error) from None

    def _count(self, size: int) -> None:
        """Have the bounds looked after once an eighth of what they allow has been added."""
        self._stored_bytes += size
        if self._stored_bytes > self.max_bytes // 8:
            self._stored_bytes, self._due = 0, True

    def content(self, digest: str) -> bytes:
        """The bytes of a backup. Raises `BackupRefused` when they are gone or damaged."""
        with contextlib.ExitStack() as stack:
            try:
                shelf = Shelf.of(self.workspace, stack)
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
                folder = directory(stack, shelf.records, folder_of(record.path))
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
                top = existing(self.workspace, "records", stack)
            except FileNotFoundError:
                return []
            except OSError as error:
                raise refused(error) from None
            found = [record for _, record in self._read(top, None if path is None else folder_of(path))]
        return sorted(found, key=lambda record: record.id, reverse=True)

    def begin(self, shelf: Shelf, records: Sequence[Record]) -> str:
        """Note that a set of changes begins to appear; `end` it when all or none of them have."""
        name = f"{new_id('t')}{SET}"
        try:
            write_new(shelf.staging, name, msgspec.json.encode(records))
        except OSError as error:
            raise refused(error) from None
        return name

    def end(self, shelf: Shelf, name: str) -> None:
        """The set is whole, or taken back."""
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=shelf.staging)

    def unfinished(self) -> dict[str, list[Record]]:
        """The sets of changes that killed processes have begun, by name; none while somebody is at work."""
        found: dict[str, list[Record]] = {}
        with contextlib.ExitStack() as stack:
            try:
                top = existing(self.workspace, "", stack)
                names = [name for name in listed(top, "staging") if name.endswith(SET)]
                if not names:
                    return {}
                lock = os.open("lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name in listed(top, "staging"):
                    if name.endswith(SET):
                        data = read_at(top, f"staging/{name}", 16 << 20)
                        found[name] = msgspec.json.decode(data, type=list[Record])
            except (OSError, msgspec.DecodeError):
                return found
        return found

    def _read(self, records: int, folder: str | None) -> Iterator[tuple[str, Record]]:
        """Every readable record with its place below the records."""
        for name in [folder] if folder is not None else listed(records, "."):
            for file in listed(records, name):
                try:
                    data = read_at(records, f"{name}/{file}", 1 << 20)
                    yield f"{name}/{file}", msgspec.json.decode(data, type=Record)
                except (OSError, msgspec.DecodeError):
                    continue

    def _tidy(self, shelf: Shelf, lock: int) -> bool:
        """Remove what a killed process left and the backups beyond the bounds; False while others work."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        for name in listed(shelf.staging, "."):
            if not name.endswith(SET):  # those are for whoever takes them back
                with contextlib.suppress(IsADirectoryError, PermissionError):  # a directory is not ours
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
        return True


def state_of(mode: int) -> State:
    """What a mode says is there, as records name it."""
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "file"


def folder_of(path: str) -> str:
    """The directory of a path's records."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
