"""Moving away what must not be where it is: whole, never through a link, and to where it can be found again."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

MAX_COPIED_BYTES = 256 << 20
MAX_COPIED_FILES = 10_000
ASIDE = "removed-"


class Quarantine:
    """A directory that only this user may use, for what was moved away; without one given, a temporary one."""

    def __init__(self, place: Path | None = None) -> None:
        self._place = place

    def take(self, path: str, root: str) -> str:
        """Move what is at a path below a root away; returns where it is now. Raises OSError."""
        below = os.path.relpath(path, root).split("/")
        with opened(root, below[:-1]) as parent, writable(parent):
            # out of the way first, under a name that means nothing: the rest may take a while
            aside = f"{ASIDE}{secrets.token_hex(6)}"
            os.rename(below[-1], aside, src_dir_fd=parent, dst_dir_fd=parent)
            try:
                return self._keep(parent, aside, below[-1])
            except (OSError, shutil.Error):
                return os.path.join(root, *below[:-1], aside)

    def _keep(self, parent: int, aside: str, name: str) -> str:
        """Move it on into a directory of its own in the quarantine."""
        kept = self._new()
        make_movable(parent, aside)
        target = f"{kept}/{name}"
        try:
            os.rename(aside, target, src_dir_fd=parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                os.rmdir(kept)
                raise
            source = f"/proc/self/fd/{parent}/{aside}"
            check_size(source)
            if os.path.isdir(source) and not os.path.islink(source):
                shutil.copytree(source, target, symlinks=True)
                shutil.rmtree(aside, dir_fd=parent)
            else:
                shutil.copy2(source, target, follow_symlinks=False)
                os.unlink(aside, dir_fd=parent)
        return target

    def _new(self) -> str:
        """A new directory in the quarantine."""
        if self._place is None:
            return tempfile.mkdtemp(prefix="jaato-removed-")
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.mkdtemp(dir=self._place)


@contextlib.contextmanager
def opened(root: str, parts: list[str]) -> Iterator[int]:
    """A directory below a root, reached without following a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    fd = os.open(root, flags)
    try:
        for part in parts:
            below = os.open(part, flags | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def writable(directory: int) -> Iterator[None]:
    """An open directory, of which entries can be moved in here even if a command has taken the right away."""
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    if mode & 0o300 == 0o300:
        yield
        return
    os.fchmod(directory, mode | 0o700)
    try:
        yield
    finally:
        os.fchmod(directory, mode)


def make_movable(parent: int, name: str) -> None:
    """Let a directory be moved into another and be read, whatever its mode; a link is left alone."""
    info = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISDIR(info.st_mode) or info.st_mode & 0o700 == 0o700:
        return
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(info.st_mode) | 0o700)
    finally:
        os.close(fd)


def check_size(path: str) -> None:
    """Raise OSError for more than is copied to another file system."""
    total, count = os.lstat(path).st_size, 0
    for place, folders, files in os.walk(path):
        count += len(folders) + len(files)
        total += sum(os.lstat(f"{place}/{name}").st_size for name in files)
        if count > MAX_COPIED_FILES or total > MAX_COPIED_BYTES:
            break
    if count > MAX_COPIED_FILES or total > MAX_COPIED_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
