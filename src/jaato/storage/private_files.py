"""Private files and directories (0600, 0700) that are never reached through a symbolic link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from jaato.errors import StoreError
from jaato.storage.errors import file_error, file_errors

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600


def private_directory(path: Path) -> None:
    """Make a directory for its owner alone; one that is there is kept as it is, a link is refused."""
    with file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.mkdir(mode=DIRECTORY_MODE)
        except FileExistsError:
            if not stat.S_ISDIR(path.lstat().st_mode):
                raise StoreError(
                    f"{path} is not a directory, but the store needs one there. Move it away."
                ) from None


def check_own_file(path: Path) -> None:
    """Refuse a path that is a link, no regular file or another user's; a missing one is fine."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise file_error(error, path) from error
    if stat.S_ISLNK(found.st_mode):
        raise StoreError(f"{path} is a symbolic link, and the store follows none. Put the real file there.")
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path} is not a regular file. Move it away, or name another path.")
    if found.st_uid not in {os.geteuid(), 0} and os.geteuid() != 0:
        raise StoreError(f"{path} belongs to another user. Name a path of your own.")


def create_private(path: Path) -> None:
    """Make an empty file 0600 unless it is there; narrow one that others could read."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
            os.fchmod(descriptor, FILE_MODE)
    finally:
        os.close(descriptor)


def make_private(path: Path) -> None:
    """Make a file its owner's alone where others could read it, without opening it."""
    if stat.S_IMODE(path.lstat().st_mode) & 0o077:
        path.chmod(FILE_MODE)


def file_id(path: Path) -> tuple[int, int]:
    """The file a path leads to, whatever its name; zeros for none."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return found.st_dev, found.st_ino


def is_writable(path: Path) -> bool:
    """Whether a file, or the place where it would be made, and its directory can be written."""
    return os.access(path.parent, os.W_OK | os.X_OK) and (not path.exists() or os.access(path, os.W_OK))


def sync_directory(path: Path) -> None:
    """Make the names in a directory survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
