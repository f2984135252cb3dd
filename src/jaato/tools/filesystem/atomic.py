"""Atomic, durable file operations: bounded reads, replacement, renameat2, fsync, file and directory locks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jaato.errors import ConfigError

TEMPORARY_SUFFIX = ".part"
"""What a file that replaces another is called until it does, with a dot before; a killed process leaves it behind."""
LEAST_READ_BYTES = 4096
"""How much is asked for where a file says it is empty, as those of the kernel do."""


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
        most = max(state.st_size + 1, LEAST_READ_BYTES)
        while len(content) <= limit and (piece := os.read(descriptor, most)):
            content += piece
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}.") from None
    finally:
        os.close(descriptor)
    if len(content) > limit:
        raise ConfigError(f"{path} has more than the {limit:,} bytes allowed. Shorten it.")
    return content


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically, readable by its owner only. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        replace_file_at(directory, path.name, content, 0o600)
    finally:
        os.close(directory)


def replace_file_at(dir_fd: int, name: str, data: bytes, mode: int) -> None:
    """Replace a file of an open directory atomically, durable when this returns; no link is followed. Raises OSError."""
    temporary = f".{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, mode, dir_fd=dir_fd), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
    sync_directory(dir_fd)


def sync_directory(dir_fd: int) -> None:
    """Make the names in a directory durable (fsync). Raises OSError."""
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


def is_same_file(descriptor: int, path: Path) -> bool:
    """Whether a path still names the open file: another process may have removed it before we had its lock."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the right to change this file, among processes and threads; the lock is a file beside it.
    Raises OSError."""
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


NOREPLACE, EXCHANGE = 1, 2  # renameat2's flags
PATIENCE_S = 2.0
CHUNK_BYTES = 1 << 20
NOTHING = bytes(CHUNK_BYTES)


@functools.cache
def renameat2() -> Callable[..., int] | None:
    """The C library's renameat2, or None."""
    try:
        import ctypes

        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, AttributeError):
        return None
    call.restype = ctypes.c_int
    return call


def rename(from_fd: int, source: str, to_fd: int, target: str, flags: int) -> bool:
    """Rename with renameat2's flags; False where they are not supported. Raises `OSError`."""
    call = renameat2()
    if call is None:
        return False
    import ctypes

    if call(from_fd, os.fsencode(source), to_fd, os.fsencode(target), ctypes.c_uint(flags)) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code))


def rename_new(from_fd: int, source: str, to_fd: int, target: str) -> None:
    """Rename to a name that must be free. Raises `FileExistsError` when it is not."""
    if rename(from_fd, source, to_fd, target, NOREPLACE):
        return
    info = os.stat(source, dir_fd=from_fd, follow_symlinks=False)
    if stat.S_ISDIR(info.st_mode):
        os.mkdir(target, dir_fd=to_fd)  # a rename may replace this empty directory, and nothing else
        os.rename(source, target, src_dir_fd=from_fd, dst_dir_fd=to_fd)
    else:
        os.link(source, target, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)
        os.unlink(source, dir_fd=from_fd)


@contextlib.contextmanager
def lock_directory(dir_fd: int) -> Iterator[None]:
    """Hold an advisory lock on a directory while a name in it is checked and replaced.

    Without it two exchanges of one name may interleave. It is held for microseconds; when another program keeps it for
    seconds, go on without it.
    """
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError:
        yield
        return
    try:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EINTR) or time.monotonic() > until:
                    break
                time.sleep(0.0005)
        yield
    finally:
        os.close(fd)


def sync_names(dir_fd: int) -> None:
    """Make the names of a directory durable, where the file system can."""
    with contextlib.suppress(OSError):
        sync_directory(dir_fd)


def read_at(dir_fd: int, name: str, limit: int) -> bytes:
    """The bytes of a regular file, at most `limit`; links are not followed."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    with os.fdopen(fd, "rb", buffering=0) as file:
        parts: list[bytes] = []
        while limit > 0 and (part := file.read(min(limit, 16 * CHUNK_BYTES))):
            parts.append(part)
            limit -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view[: 16 * CHUNK_BYTES]) :]


def copy(source_fd: int, target_fd: int, observe: Callable[[bytes], Any] | None = None) -> int:
    """Copy an open file from its start into an empty one, in bounded memory, zeros as holes.

    `observe` sees each piece. Returns the bytes.
    """
    total = 0
    while piece := os.pread(source_fd, CHUNK_BYTES, total):
        if piece == NOTHING[: len(piece)]:
            os.lseek(target_fd, len(piece), os.SEEK_CUR)
        else:
            write_all(target_fd, piece)
        total += len(piece)
        if observe is not None:
            observe(piece)
    os.ftruncate(target_fd, total)
    return total


def list_names(dir_fd: int, name: str) -> list[str]:
    """The names in a directory below another, links not followed; none when it is not there."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError:
        return []
    try:
        with os.scandir(fd) as found:
            return [entry.name for entry in found]
    finally:
        os.close(fd)


def write_new(dir_fd: int, name: str, data: bytes) -> None:
    """Write a new private file, durable when this returns, gone when it fails."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=dir_fd)
    try:
        write_all(fd, data)
        os.fsync(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=dir_fd)
        raise
    finally:
        os.close(fd)
    sync_names(dir_fd)
