"""Backups of file contents before each change: content by its hash, one record a change, in `.jaato/backups`."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from jaato.protocol.ids import new_id
from jaato.tools.filesystem.atomic import list_names, read_at, replace_file_at, write_new
from jaato.tools.filesystem.backup_directory import (
    IDS,
    BackupDirectory,
    BackupRefused,
    Record,
    directory,
    existing,
    folder_of,
    refusing,
)
from jaato.typed_decoding import decode_json

FOLDER = "pins"
REST = "others"
"""The name under which is noted what was pruned of sessions without waypoints."""
MAX_BYTES = 1 << 20
FORGET_S = 30 * 86_400
"""How long the pins of a session stay that has no backups here."""


class Pins(Struct, frozen=True, omit_defaults=True):
    """The marks of a session's waypoints, and the newest of its records that was pruned."""

    session_id: str
    marks: list[str] = []
    lost: str = ""


def name_of(session_id: str | None) -> str:
    """The file of a session's pins; None for those without any."""
    return REST if session_id is None else folder_of(session_id)


def pins_of(workspace: Path, session_id: str) -> Pins:
    """The pins of a session; one without any has lost what others without have lost."""
    with contextlib.ExitStack() as stack:
        try:
            top = existing(workspace, "", stack)
        except OSError:
            return Pins(session_id)
        own = read_pins(top, name_of(session_id))
        rest = read_pins(top, REST)
    if own is not None and own.session_id == session_id:
        return own
    return Pins(session_id, [], rest.lost if rest is not None else "")


def read_pins(top: int, name: str) -> Pins | None:
    """The pins in a file; None for none and for a damaged one."""
    try:
        return decode_json(read_at(top, f"{FOLDER}/{name}", MAX_BYTES), Pins)
    except (OSError, msgspec.DecodeError):
        return None


def save_pins(top: int, pins: Pins, name: str) -> None:
    """Write the pins of a session, durable when this returns. Raises OSError."""
    with contextlib.ExitStack() as stack:
        folder = directory(stack, top, FOLDER)
        replace_file_at(folder, name, msgspec.json.encode(pins), 0o600)


class Pinned:
    """Which of these records (newest first) waypoints need, asked while the backups are pruned."""

    def __init__(self, top: int, found: Sequence[Record]) -> None:
        self._top = top
        self._changed: set[str] = set()
        self._pins: dict[str, Pins] = {}
        self._rest = read_pins(top, REST) or Pins("")
        present = {record.session_id for record in found}
        for name in list_names(top, FOLDER):
            pins = read_pins(top, name)
            if pins is None or name == REST or name != name_of(pins.session_id):
                continue
            if pins.session_id in present:
                self._pins[pins.session_id] = pins
            else:
                self._forget(name)
        self._needed = set(self._first_after_marks(found))

    def _forget(self, name: str) -> None:
        """Remove the pins of a session that has had nothing to pin for long."""
        with contextlib.suppress(OSError):
            place = f"{FOLDER}/{name}"
            if os.stat(place, dir_fd=self._top, follow_symlinks=False).st_mtime < time.time() - FORGET_S:
                os.unlink(place, dir_fd=self._top)

    def _first_after_marks(self, found: Sequence[Record]) -> Iterable[str]:
        """The first record of each path after each mark of its session: what the path held at that mark."""
        paths: dict[tuple[str, str], list[str]] = defaultdict(list)
        for record in reversed(found):
            if record.session_id in self._pins:
                paths[record.session_id, record.path].append(record.id)
        for (session_id, _), ids in paths.items():
            marks = self._pins[session_id].marks
            for before, after in zip(["", *ids], ids, strict=False):
                if any(before <= mark < after for mark in marks):
                    yield after

    def holds(self, record: Record) -> bool:
        """Whether the record is of a session with waypoints."""
        return record.session_id in self._pins

    def needs(self, record: Record) -> bool:
        """Whether a waypoint needs what the record holds."""
        return record.id in self._needed

    def lose(self, record: Record) -> None:
        """Note that a record was pruned."""
        pins = self._pins.get(record.session_id)
        if pins is None:
            self._rest = msgspec.structs.replace(self._rest, lost=max(self._rest.lost, record.id))
            self._changed.add("")
        else:
            lost = msgspec.structs.replace(pins, lost=max(pins.lost, record.id))
            self._pins[record.session_id] = lost
            self._changed.add(record.session_id)

    def save(self) -> None:
        """Write down what was lost. Raises OSError."""
        for session_id in self._changed:
            if session_id in self._pins:
                save_pins(self._top, self._pins[session_id], name_of(session_id))
            else:
                save_pins(self._top, self._rest, REST)


PRUNE_EVERY = 100
SET = ".set"
MAX_FILE_BYTES = 256 << 20


class Backups:
    """The backups of one workspace. Every method raises `ToolError`s; nothing goes through a link.

    The oldest are dropped when there are more than `max_count` records or their content exceeds `max_bytes`; those that
    waypoints need stay longer, up to as many and as much again. With a `max_count` of 0 nothing is dropped here: another object sees to it.
    """

    def __init__(self, workspace: Path, max_count: int = 1000, max_bytes: int = 512 << 20) -> None:
        self.workspace = workspace
        self.max_count = max_count
        self.max_bytes = max_bytes
        self._behind = True
        self._made = 0
        self._stored_bytes = 0
        self._due = True

    @contextlib.contextmanager
    def open(self) -> Iterator[BackupDirectory]:
        """The open directories, created if missing; leftovers of a killed process are removed unless the backups are in use."""
        with contextlib.ExitStack() as stack:
            with refusing():
                dirs = BackupDirectory.of(self.workspace, stack)
                lock = os.open(
                    "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=dirs.root
                )
                stack.callback(os.close, lock)
                if self._due and self.max_count:
                    self._due = not self._tidy(dirs, lock)
                fcntl.flock(lock, fcntl.LOCK_SH)
                if self._behind:
                    self._behind = False
                    IDS.advance_past(max(self._names(dirs.records), default="").removesuffix(".json"))
            self._made += 1
            self._due = self._due or self._made % PRUNE_EVERY == 0
            yield dirs

    @refusing()
    def keep(self, dirs: BackupDirectory, content: bytes | int) -> tuple[str, int]:
        """Store bytes or the content of an open file; returns its SHA-256 and size. Durable."""
        if isinstance(content, bytes):
            digest = hashlib.sha256(content).hexdigest()
            if not dirs.has(digest, len(content)):
                dirs.store(digest, content)
                self._count(len(content))
            return digest, len(content)
        size = os.fstat(content).st_size
        if size > MAX_FILE_BYTES:
            raise BackupRefused(
                f"The file has {size} bytes, too many for a backup (at most {MAX_FILE_BYTES}). "
                "Nothing was changed; if it may be lost, use run."
            )
        stored = dirs.store_file(content)
        self._count(size)
        return stored

    def _count(self, size: int) -> None:
        """Schedule pruning once an eighth of `max_bytes` has been added."""
        self._stored_bytes += size
        if self._stored_bytes > self.max_bytes // 8:
            self._stored_bytes, self._due = 0, True

    def content(self, digest: str) -> bytes:
        """The bytes of a backup. Raises `BackupRefused` when they are gone or damaged."""
        with contextlib.ExitStack() as stack:
            try:
                dirs = BackupDirectory.of(self.workspace, stack)
                data = read_at(dirs.objects, digest, MAX_FILE_BYTES + 1)
            except OSError:
                raise BackupRefused(
                    "The content of this backup is gone; listBackups shows the others."
                ) from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise BackupRefused("The content of this backup is damaged; listBackups shows the others.")
        return data

    @refusing()
    def record(self, dirs: BackupDirectory, record: Record) -> Record:
        """Note a change that is about to be made, under a new id."""
        record = msgspec.structs.replace(record, id=IDS.next(), time=time.time())
        with contextlib.ExitStack() as stack:
            folder = directory(stack, dirs.records, folder_of(record.path))
            write_new(folder, f"{record.id}.json", msgspec.json.encode(record))
        return record

    @refusing()
    def amend(self, dirs: BackupDirectory, record: Record) -> Record:
        """Replace the record of a change that left something else than it was to leave."""
        with contextlib.ExitStack() as stack:
            folder = directory(stack, dirs.records, folder_of(record.path))
            replace_file_at(folder, f"{record.id}.json", msgspec.json.encode(record), 0o600)
        return record

    def forget(self, dirs: BackupDirectory, record: Record) -> None:
        """Take back the record of a change that did not happen."""
        with contextlib.suppress(OSError):
            os.unlink(f"{folder_of(record.path)}/{record.id}.json", dir_fd=dirs.records)

    def records(self, path: str | None = None) -> list[Record]:
        """The records of a path, or all, newest first; damaged ones are skipped."""
        return self._load(None if path is None else folder_of(path))[::-1]

    def since(self, mark: str) -> list[Record]:
        """The records that are newer than a mark, oldest first; damaged ones are skipped."""
        return self._load(None, mark)

    def _load(self, folder: str | None, mark: str = "") -> list[Record]:
        """The records in a folder, or all, that are newer than a mark, oldest first."""
        with contextlib.ExitStack() as stack:
            with refusing():
                try:
                    top = existing(self.workspace, "records", stack)
                except FileNotFoundError:
                    return []
            found = [record for _, record in self._read(top, folder, mark)]
        return sorted(found, key=lambda record: record.id)

    def pin(self, session_id: str, marks: Sequence[str]) -> None:
        """Exclude from pruning what the session's files held at these marks. Durable."""
        with self.open() as dirs:
            pins = msgspec.structs.replace(pins_of(self.workspace, session_id), marks=sorted(set(marks)))
            with refusing():
                save_pins(dirs.root, pins, name_of(session_id))

    def lost(self, session_id: str) -> str:
        """The newest record that was pruned and may be missed by the session; empty for none."""
        return pins_of(self.workspace, session_id).lost

    def is_whole(self, digest: str) -> bool:
        """Whether this content is there, undamaged."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with contextlib.ExitStack() as stack:
            try:
                top = existing(self.workspace, "objects", stack)
                with os.fdopen(os.open(digest, flags, dir_fd=top), "rb") as file:
                    return hashlib.file_digest(file, "sha256").hexdigest() == digest
            except OSError:
                return False

    @refusing()
    def begin(self, dirs: BackupDirectory, records: Sequence[Record]) -> str:
        """Note that a set of changes begins to appear; `end` it when all or none of them have."""
        name = f"{new_id('t')}{SET}"
        write_new(dirs.staging, name, msgspec.json.encode(records))
        return name

    @refusing()
    def note(self, dirs: BackupDirectory, name: str, records: Sequence[Record]) -> None:
        """Note of which changes a set that has begun consists, before the first of them appears."""
        replace_file_at(dirs.staging, name, msgspec.json.encode(records), 0o600)

    def forget_set(self, dirs: BackupDirectory, name: str) -> None:
        """Take back the records of a set that did not happen, and those of taking it back."""
        for place, record in list(self._read(dirs.records, None)):
            if name in (record.batch, record.call_id):
                with contextlib.suppress(OSError):
                    os.unlink(place, dir_fd=dirs.records)

    def end(self, dirs: BackupDirectory, name: str) -> None:
        """The set is whole, or taken back."""
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=dirs.staging)

    def find_unfinished(self) -> dict[str, list[Record]]:
        """The sets of changes that killed processes have begun, by name; none while another process holds the lock."""
        found: dict[str, list[Record]] = {}
        with contextlib.ExitStack() as stack:
            try:
                top = existing(self.workspace, "", stack)
                names = [name for name in list_names(top, "staging") if name.endswith(SET)]
                if not names:
                    return {}
                lock = os.open("lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name in list_names(top, "staging"):
                    if name.endswith(SET):
                        data = read_at(top, f"staging/{name}", 16 << 20)
                        found[name] = decode_json(data, list[Record])
            except (OSError, msgspec.DecodeError):
                return found
        return found

    def _names(self, records: int) -> Iterator[str]:
        """The names of all records."""
        for folder in list_names(records, "."):
            yield from list_names(records, folder)

    def _read(self, records: int, folder: str | None, mark: str = "") -> Iterator[tuple[str, Record]]:
        """Every readable record that is newer than a mark, with its place below the records."""
        for name in [folder] if folder is not None else list_names(records, "."):
            for file in list_names(records, name):
                if file.removesuffix(".json") <= mark:
                    continue
                try:
                    data = read_at(records, f"{name}/{file}", 1 << 20)
                    yield f"{name}/{file}", decode_json(data, Record)
                except (OSError, msgspec.DecodeError):
                    continue

    def _tidy(self, dirs: BackupDirectory, lock: int) -> bool:
        """Remove what a killed process left and the backups beyond the bounds; False while others work."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        for name in list_names(dirs.staging, "."):
            if not name.endswith(SET):  # those are restored by an undo
                with contextlib.suppress(IsADirectoryError, PermissionError):  # a directory is not ours
                    os.unlink(name, dir_fd=dirs.staging)
        found = sorted(self._read(dirs.records, None), key=lambda item: item[1].id, reverse=True)
        kept = self._drop(dirs, found)
        for name in list_names(dirs.objects, "."):
            if name not in kept:
                os.unlink(name, dir_fd=dirs.objects)
        return True

    def _drop(self, dirs: BackupDirectory, found: list[tuple[str, Record]]) -> set[str]:
        """Drop the records beyond the bounds but for those that are pinned; gives the content that is to stay."""
        pinned = Pinned(dirs.root, [record for _, record in found])
        kept: set[str] = set()
        total, spare_count, spare_bytes = 0, self.max_count, self.max_bytes
        for count, (place, record) in enumerate(found):
            new = bool(record.digest) and record.digest not in kept
            size = record.size_bytes if new else 0
            if count < self.max_count and (total + size <= self.max_bytes or not count):
                total += size
            else:
                needs = pinned.needs(record)
                spared = size if needs else 0
                if not pinned.holds(record) or not spare_count or spared > spare_bytes:
                    os.unlink(place, dir_fd=dirs.records)
                    pinned.lose(record)
                    continue
                spare_count, spare_bytes = spare_count - 1, spare_bytes - spared
                if not needs:
                    continue
            if record.digest:
                kept.add(record.digest)
        pinned.save()
        return kept
