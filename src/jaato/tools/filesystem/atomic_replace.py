"""Replace a user's file atomically: readers see the old file or the new, and concurrent edits are detected."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from jaato.errors import ToolError
from jaato.protocol.ids import new_id
from jaato.tools.filesystem.atomic import (
    EXCHANGE,
    copy,
    lock_directory,
    read_at,
    rename,
    rename_new,
    sync_names,
    write_all,
)
from jaato.tools.filesystem.errors import explain_os_error, explaining
from jaato.tools.filesystem.safe_open import ResolvedPath

UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT)


class FileChanged(ToolError):
    """The file was changed concurrently; that change is kept."""

    code = "file_changed"
    retryable = True


@dataclass(frozen=True, slots=True)
class FileState:
    """A snapshot of a file, to detect whether it has changed since."""

    info: os.stat_result
    data: bytes | None = None
    link: str | None = None

    def is_at(self, dir_fd: int, name: str, *, by_content: bool = True) -> bool:
        """Whether that name still holds the same, byte for byte where it was read, or by its stamps alone."""
        try:
            info = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
            if not is_unchanged(info, self.info):
                return False
            if self.link is not None:
                return os.readlink(name, dir_fd=dir_fd) == self.link
            return (
                not by_content or self.data is None or read_at(dir_fd, name, len(self.data) + 1) == self.data
            )
        except OSError:
            return False


def is_unchanged(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether two `stat` results are of the same, unchanged file."""
    return (one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, stat.S_IFMT(one.st_mode)) == (
        other.st_dev,
        other.st_ino,
        other.st_size,
        other.st_mtime_ns,
        stat.S_IFMT(other.st_mode),
    )


@dataclass(slots=True)
class PendingFile:
    """New bytes for a place: written to disk, durable and complete, but not yet visible under its name.

    `publish_new` or `publish_over` gives them the name, that too durably if it is to be; `close` discards what was not
    published.
    """

    place: ResolvedPath
    path: str
    staging_fd: int
    fd: int
    holder_fd: int = -1
    name: str = ""
    digest: str = ""
    notes: list[str] = field(default_factory=list)

    def __enter__(self) -> PendingFile:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Discard the draft, if it still exists."""
        if self.name:
            try:
                os.unlink(self.name, dir_fd=self.holder_fd)
            except FileNotFoundError:
                pass
            self.name = ""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def give_name(self) -> None:
        """Link the nameless file under a private name: in the staging directory, else beside its place."""
        if self.name:
            return
        hidden = f".jaato-{new_id('t')}.tmp"
        for holder in (self.staging_fd, self.place.dir_fd):
            try:
                os.link(f"/proc/self/fd/{self.fd}", hidden, dst_dir_fd=holder, follow_symlinks=True)
            except OSError as error:
                if holder == self.place.dir_fd or error.errno not in (errno.EXDEV, errno.EPERM, errno.EACCES):
                    raise
                continue
            self.holder_fd, self.name = holder, hidden
            return

    def publish_new(self, *, durable: bool = True) -> None:
        """Give the draft its name, which must be free. Raises `FileChanged` when it no longer is."""
        target = self.place.name
        try:
            if self.name:
                rename_new(self.holder_fd, self.name, self.place.dir_fd, target)
                self.name = ""
            else:
                source = f"/proc/self/fd/{self.fd}"
                os.link(source, target, dst_dir_fd=self.place.dir_fd, follow_symlinks=True)
        except FileExistsError:
            raise FileChanged(
                f"{self.path!r} was created by another program or person meanwhile and is untouched. Read it first."
            ) from None
        except OSError as error:
            raise explain_os_error(error, self.path) from None
        if durable:
            sync_names(self.place.dir_fd)

    def publish_over(self, seen: FileState, *, durable: bool = True) -> None:
        """Put the draft in the place of what was seen there. Raises `FileChanged` when that is gone."""
        target, target_fd = self.place.name, self.place.dir_fd
        with explaining(self.path), lock_directory(target_fd):
            if not seen.is_at(target_fd, target, by_content=False):
                raise refuse_changed(self.path)
            self.give_name()
            if rename(self.holder_fd, self.name, target_fd, target, EXCHANGE):
                if not seen.is_at(self.holder_fd, self.name):  # changed in the last moment
                    self._give_back()
                    raise refuse_changed(self.path)
            elif seen.is_at(target_fd, target):
                os.rename(self.name, target, src_dir_fd=self.holder_fd, dst_dir_fd=target_fd)
            else:
                raise refuse_changed(self.path)
        if durable:
            sync_names(target_fd)

    def _give_back(self) -> None:
        """Exchange the files back; if another program has replaced the draft meanwhile, its file stays."""
        ends = (self.holder_fd, self.name, self.place.dir_fd, self.place.name, EXCHANGE)
        rename(*ends)
        if (
            os.stat(self.name, dir_fd=self.holder_fd, follow_symlinks=False).st_ino
            != os.fstat(self.fd).st_ino
        ):
            rename(*ends)


def refuse_changed(path: str) -> FileChanged:
    """The refusal to overwrite a concurrent change."""
    return FileChanged(
        f"{path!r} was changed by another program or person meanwhile. Read it again; nothing was overwritten."
    )


def draft(
    place: ResolvedPath,
    path: str,
    content: bytes | int,
    staging_fd: int,
    *,
    like: os.stat_result | None = None,
    mode: int | None = None,
    go_on: Callable[[], None] = lambda: None,
) -> PendingFile:
    """Write bytes, or a copy of an open file, as a draft for a place.

    `like` is the file whose owner, attributes and mode to keep; `mode` the mode to give, else the usual one.
    `go_on` is asked while a file is copied, and ends that by what it raises.

    Raises `ToolError`s; a full disk leaves nothing behind.
    """
    with explaining(path):
        made = open_draft(place, path, staging_fd, 0o666 if like is None and mode is None else 0o600)
    try:
        digest = hashlib.sha256()
        if isinstance(content, int):

            def observe(piece: bytes) -> None:
                go_on()
                digest.update(piece)

            copy(content, made.fd, observe)
        else:
            digest.update(content)
            write_all(made.fd, content)
        made.digest = digest.hexdigest()
        if like is not None:
            take_after(made, like)
        if mode is not None:
            os.fchmod(made.fd, mode)
        os.fsync(made.fd)
    except BaseException as error:
        made.close()
        if isinstance(error, OSError):
            raise explain_os_error(error, path) from None
        raise
    return made


def open_draft(place: ResolvedPath, path: str, staging_fd: int, mode: int) -> PendingFile:
    """An empty draft in the directory of its place: nameless where that can be, else hidden."""
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        fd = os.open(".", flags | os.O_TMPFILE, mode, dir_fd=place.dir_fd)
        return PendingFile(place, path, staging_fd, fd)
    except AttributeError:
        pass
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    name = f".jaato-{new_id('t')}.tmp"
    fd = os.open(name, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=place.dir_fd)
    return PendingFile(place, path, staging_fd, fd, place.dir_fd, name)


def take_after(made: PendingFile, like: os.stat_result) -> None:
    """Give a draft the owner, attributes and mode of the file it replaces, noting what cannot be kept."""
    mode = stat.S_IMODE(like.st_mode)
    own = os.fstat(made.fd)
    if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.fchown(made.fd, like.st_uid, like.st_gid)
        except OSError:
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
            try:
                os.fchown(made.fd, -1, like.st_gid)
            except OSError:
                pass
            made.notes.append("the file belongs to you now; its owner could not be kept")
    copy_attributes(made)
    os.fchmod(made.fd, mode)


def copy_attributes(made: PendingFile) -> None:
    """Copy the extended attributes (access lists among them) of the file at the place, as far as allowed."""
    if not made.place.info or not stat.S_ISREG(made.place.info.st_mode):
        return
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(made.place.name, flags, dir_fd=made.place.dir_fd)
    except OSError:
        return
    try:
        for name in os.listxattr(fd):
            try:
                os.setxattr(made.fd, name, os.getxattr(fd, name))
            except OSError:
                if name.startswith(("user.", "system.posix_acl")):
                    made.notes.append(f"the attribute {name} could not be kept")
    except (OSError, AttributeError):
        pass
    finally:
        os.close(fd)


def take_away(place: ResolvedPath, path: str, seen: FileState, staging_fd: int) -> None:
    """Remove what was seen at a place: move it out of the way, check it again, then unlink it.

    Raises `FileChanged`, the file still there, when it is another.
    """
    hidden = f".jaato-{new_id('t')}.tmp"
    with lock_directory(place.dir_fd):
        if not seen.is_at(place.dir_fd, place.name, by_content=False):
            raise refuse_changed(path)
        with explaining(path):
            holder = staging_fd
            try:
                os.rename(place.name, hidden, src_dir_fd=place.dir_fd, dst_dir_fd=holder)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                holder = place.dir_fd
                os.rename(place.name, hidden, src_dir_fd=holder, dst_dir_fd=holder)
            if not seen.is_at(holder, hidden):
                rename_new(holder, hidden, place.dir_fd, place.name)
                raise refuse_changed(path)
            os.unlink(hidden, dir_fd=holder)
    sync_names(place.dir_fd)
