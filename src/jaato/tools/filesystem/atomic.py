"""Atomic writes of jaato's own small files (persisted state): bounded reads, whole replacement, a file lock."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jaato.errors import ConfigError


def read_bounded(path: Path, limit: int) -> bytes | None:
    """The bytes of a regular file, None when there is none; at most `limit` bytes. Raises `ConfigError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read: {reason(error)}. Repair its permissions or remove it."
        ) from None
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise ConfigError(f"{path} is not a regular file. Remove it and put a file in its place.")
        if state.st_size > limit:
            raise ConfigError(
                f"{path} has {state.st_size:,} bytes, more than the {limit:,} allowed. Shorten it."
            )
        content = b""
        while len(content) <= limit and (piece := os.read(descriptor, 1_048_576)):
            content += piece
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}.") from None
    finally:
        os.close(descriptor)
    if len(content) > limit:
        raise ConfigError(f"{path} has more than the {limit:,} bytes allowed. Shorten it.")
    return content


def write_private(path: Path, content: bytes) -> None:
    """Replace a file whole, readable by its owner only, safe against a crash. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def replace_file_at(
    dir_fd: int, name: str, data: bytes, mode: int, *, new: bool = False, exact: bool = False
) -> None:
    """Write beside a name in an open directory, then take it, durable when this returns; no link is followed.

    `new` takes it only if it is still free; `exact` gives the file this mode whatever the process masks. Raises OSError.
    """
    temporary = f".{secrets.token_hex(8)}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, mode, dir_fd=dir_fd), "wb") as file:
            file.write(data)
            if exact:
                os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        if new:
            os.link(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
        else:
            os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
    sync_directory(dir_fd)


def sync_directory(dir_fd: int) -> None:
    """Have the names in a directory survive a loss of power. Raises OSError."""
    try:
        os.fsync(dir_fd)
    except OSError as error:
        if error.errno != errno.EBADF:  # opened as a mere path
            raise
        try:
            again = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
        except PermissionError:
            return  # it may be written to and not listed
        try:
            os.fsync(again)
        finally:
            os.close(again)


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the right to change this file, among processes and threads; the lock is a file beside it.
    Raises OSError."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = path.with_name(f".{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def reason(error: OSError | ValueError) -> str:
    """Why the system refused, in its words."""
    return getattr(error, "strerror", None) or str(error)


def is_below(path: str, directory: str) -> bool:
    """Whether a path is this directory or lies below it; both are real."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def resolve_path(path: str) -> str:
    """The path with its links followed as far as there is one; a text that can be no path is only
    normalised."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return os.path.normpath(path)
