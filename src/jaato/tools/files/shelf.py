"""Where backups lie on the disk: private directories reached through no link, content stored whole under its hash."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from jaato.errors import ToolError
from jaato.protocol.ids import new_id
from jaato.tools.beneath import OPEN_DIRECTORY
from jaato.tools.file_errors import FileFailed, explained
from jaato.tools.files.disk import copy, exists, settle, write_new

PLACE = ".jaato/backups"


class BackupRefused(ToolError):
    """No backup can be kept, so nothing is changed."""

    code = "backup_failed"


@dataclass(slots=True)
class Shelf:
    """The directories of the backups, open and locked against the sweep of another process."""

    root: int
    objects: int
    records: int
    staging: int

    @classmethod
    def of(cls, workspace: Path, stack: contextlib.ExitStack) -> Shelf:
        """The open directories, made where missing; the stack closes them. Raises `OSError`."""
        top = os.open(workspace, OPEN_DIRECTORY)
        stack.callback(os.close, top)
        for part in PLACE.split("/"):
            top = directory(stack, top, part)
        if not exists(top, ".gitignore"):
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
        hidden = f"{new_id('t')}.tmp"
        try:
            write_new(self.staging, hidden, data)
            os.rename(hidden, digest, src_dir_fd=self.staging, dst_dir_fd=self.objects)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(hidden, dir_fd=self.staging)
            raise
        settle(self.objects)

    def store_file(self, source: int) -> tuple[str, int]:
        """Store the content of an open file in bounded memory; returns its hash and size. Raises `OSError`."""
        hidden = f"{new_id('t')}.tmp"
        digest = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(hidden, flags, 0o600, dir_fd=self.staging)
        try:
            size = copy(source, fd, digest.update)
            os.fsync(fd)
            name = digest.hexdigest()
            os.rename(hidden, name, src_dir_fd=self.staging, dst_dir_fd=self.objects)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(hidden, dir_fd=self.staging)
            raise
        finally:
            os.close(fd)
        settle(self.objects)
        return name, size


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


def refused(error: OSError) -> ToolError:
    """That no backup can be kept, and why."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return BackupRefused(
            f"{PLACE} is not a real directory (a link or a file is in its way), so no backup can be kept and "
            "nothing was changed. Ask the user to remove it."
        )
    reason = explained(error, PLACE)
    return FileFailed(f"No backup can be kept, so nothing was changed. {reason}")
