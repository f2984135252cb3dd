"""The private directories that backups lie in: content stored under its hash, and one record for each change."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from jaato.errors import ToolError
from jaato.protocol.ids import ALPHABET, PAIRS, new_id
from jaato.tools.call import Call
from jaato.tools.filesystem.atomic import copy, sync_names, write_new
from jaato.tools.filesystem.errors import FileFailed, explain_os_error
from jaato.tools.filesystem.safe_open import OPEN_DIRECTORY

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
    """What the change left, as `content_key` says it; None where it is unknown."""
    made: list[str] = []
    """The directories that were made for it, outermost first."""
    call_id: str = ""
    session_id: str = ""
    batch: str = ""
    """The set it belongs to, whose records are forgotten together when it is taken back."""

    @classmethod
    def new(cls, path: str, action: str, call: Call, before: State = "absent", **fields: Any) -> Record:
        """The record of a change that a call is about to make; it gets its id and time when it is written."""
        more = {"call_id": call.id, "session_id": call.session_id, **fields}
        return cls(id="", path=path, action=action, time=0.0, before=before, **more)

    @property
    def content_key(self) -> str:
        """The content key before the change: `absent`, `directory`, `file:` with the hash, `link:` with the target."""
        return content_key(self.before, self.digest, self.link)


def content_key(state: State, digest: str | None = None, link: str | None = None) -> str:
    """A text to compare contents by: equal for equal contents."""
    match state:
        case "file":
            return f"file:{digest}"
        case "link":
            return f"link:{link}"
    return state


class IdGenerator:
    """Backup identifiers: a letter and a ULID, always greater than the last one of this process and than those it has
    passed, whatever the clock does."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> str:
        """A new identifier."""
        with self._lock:
            now = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(79)
            self._last = max(now, self._last + 1)
            number = self._last
        return id_text(number)

    def advance_past(self, known: str) -> None:
        """Give only greater identifiers than this one from now on; what is none does nothing."""
        if ID.fullmatch(known) is None:
            return
        number = number_of(known)
        if number < LAST:
            with self._lock:
                self._last = max(self._last, number)


def id_text(number: int) -> str:
    """An identifier as it is written."""
    return "f" + "".join([PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])


def number_of(identifier: str) -> int:
    """The number that an identifier writes."""
    return sum(ALPHABET.index(letter) << 5 * place for place, letter in enumerate(reversed(identifier[1:])))


def id_before(identifier: str) -> str:
    """The greatest identifier below this one."""
    return id_text(max(0, number_of(identifier) - 1))


def first_id(moment: str) -> str:
    """The least identifier of a backup made at this moment (ISO 8601); empty for none."""
    try:
        return id_text(int(datetime.fromisoformat(moment).timestamp() * 1000) << 80)
    except ValueError:
        return ""


ID = re.compile(r"f[0-9A-HJKMNP-TV-Z]{26}")
LAST = 1 << 129
"""Larger identifiers are invalid: no clock gives them for millennia."""
IDS = IdGenerator()
"""The one source of identifiers, so that those of one process have an order."""


def state_of(mode: int) -> State:
    """The state that records name, by the mode of a file."""
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "file"


def folder_of(path: str) -> str:
    """The directory of a path's records."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:24]


PLACE = ".jaato/backups"


class BackupRefused(ToolError):
    """No backup can be kept, so nothing is changed."""

    code = "backup_failed"


@dataclass(slots=True)
class BackupDirectory:
    """The directories of the backups, open and locked against the sweep of another process."""

    root: int
    objects: int
    records: int
    staging: int

    @classmethod
    def of(cls, workspace: Path, stack: contextlib.ExitStack) -> BackupDirectory:
        """The open directories, made where missing; the stack closes them. Raises `OSError`."""
        top = os.open(workspace, OPEN_DIRECTORY)
        stack.callback(os.close, top)
        for part in PLACE.split("/"):
            top = directory(stack, top, part)
        with contextlib.suppress(FileExistsError):
            write_new(top, ".gitignore", b"*\n")
        objects, records, staging = (
            directory(stack, top, name) for name in ("objects", "records", "staging")
        )
        return cls(top, objects, records, staging)

    def has(self, digest: str, size: int) -> bool:
        """Whether this content is stored already."""
        try:
            return os.stat(digest, dir_fd=self.objects, follow_symlinks=False).st_size == size
        except FileNotFoundError:
            return False

    def store(self, digest: str, data: bytes) -> None:
        """Store bytes under their hash, whole or not at all. Raises `OSError`."""
        with self._hidden() as hidden:
            write_new(self.staging, hidden, data)
            os.rename(hidden, digest, src_dir_fd=self.staging, dst_dir_fd=self.objects)
        sync_names(self.objects)

    def store_file(self, source: int) -> tuple[str, int]:
        """Store the content of an open file in bounded memory; returns its hash and size. Raises `OSError`."""
        digest = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._hidden() as hidden:
            fd = os.open(hidden, flags, 0o600, dir_fd=self.staging)
            try:
                size = copy(source, fd, digest.update)
                os.fsync(fd)
                name = digest.hexdigest()
                os.rename(hidden, name, src_dir_fd=self.staging, dst_dir_fd=self.objects)
            finally:
                os.close(fd)
        sync_names(self.objects)
        return name, size

    @contextlib.contextmanager
    def _hidden(self) -> Iterator[str]:
        """A name in the staging directory for what is being written; removed where that fails."""
        hidden = f"{new_id('t')}.tmp"
        try:
            yield hidden
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(hidden, dir_fd=self.staging)
            raise


def directory(stack: contextlib.ExitStack, parent: int, name: str) -> int:
    """A directory in another, made private when it is missing; never through a link. Raises `OSError`."""
    try:
        fd = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        fd = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
    stack.callback(os.close, fd)
    return fd


def existing(workspace: Path, name: str, stack: contextlib.ExitStack) -> int:
    """A directory of the backups, or their own (``), open. Raises `OSError`: `FileNotFoundError` for none."""
    fd = os.open(workspace, OPEN_DIRECTORY)
    stack.callback(os.close, fd)
    for part in filter(None, (*PLACE.split("/"), name)):
        fd = os.open(part, OPEN_DIRECTORY, dir_fd=fd)
        stack.callback(os.close, fd)
    return fd


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Raise the `ToolError` that no backup can be stored, with the reason, for an `OSError` of the block."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise BackupRefused(
                f"{PLACE} is not a real directory (a link or a file is in its way), so no backup can be kept and "
                "nothing was changed.",
                ask="remove it.",
            ) from None
        reason = explain_os_error(error, PLACE)
        raise FileFailed(f"No backup can be kept, so nothing was changed. {reason}") from None
