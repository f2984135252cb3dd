"""The lock file of a server: who holds it serves, and says there what it is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import stat
import time
from pathlib import Path

import msgspec

from jaato.errors import ConfigError
from jaato.settings import environment, user_dir
from jaato.tools.filesystem.atomic import read_bounded

LAST = "last-server"
STOPS_WITHIN_S = 30.0
LOCKS_WITHIN_S = 2.0


class Record(msgspec.Struct, frozen=True):
    """What a running server says of itself, in the file it keeps locked."""

    pid: int
    version: str
    started: float
    socket: str
    web: list[str]


def lock_path(path: Path) -> Path:
    """The lock file of the server at this socket."""
    return path.with_name(f"{path.name}.lock")


def found(path: Path) -> Record | None:
    """The server that runs at this socket, None when none does."""
    try:
        fd = os.open(lock_path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        if os.fstat(fd).st_uid not in (os.geteuid(), 0):
            return None  # somebody else's word
        data = os.pread(fd, 10_000, 0)
        try:
            return msgspec.json.decode(data, type=Record)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return Record(0, "", 0.0, str(path), [])  # it is just beginning
    finally:
        os.close(fd)
    return None


def stop(path: Path, within_s: float = STOPS_WITHIN_S) -> Record | None:
    """Stop the server at this socket and wait until it has; what ran, None when none did. Raises `ConfigError`."""
    until = time.monotonic() + within_s
    first = found(path)
    told = 0
    while (record := found(path)) is not None:
        if record.pid > 0 and record.pid != told:
            with contextlib.suppress(ProcessLookupError):
                os.kill(record.pid, signal.SIGTERM)
            told = record.pid
        if time.monotonic() > until:
            raise ConfigError(
                f"The server (process {record.pid}) has not stopped within {within_s:g} s; "
                f"`kill -9 {record.pid}` ends it, and loses nothing that was recorded."
            )
        time.sleep(0.05)
    return first


def private_directory(path: Path) -> None:
    """Make the directory of a socket, or make sure that others can put nothing in place of ours: they cannot write there,
    or it is one like /tmp, where each can remove only what is his own. Raises `ConfigError`."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = path.lstat()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be made: {error.strerror}. Name another place: --ipc-socket PATH."
        ) from None
    shared = bool(info.st_mode & stat.S_ISVTX) and info.st_uid in (0, os.geteuid())
    if not stat.S_ISDIR(info.st_mode) or not (info.st_uid == os.geteuid() or shared):
        raise ConfigError(f"{path} is no directory of yours; name another place: --ipc-socket PATH.")
    if info.st_mode & 0o022 and not shared:
        raise ConfigError(
            f"Others can write in {path}, and could put their own socket there. Take a private directory."
        )


def locked(path: Path) -> int:
    """The lock of a server at this socket, held as long as the descriptor is open. Raises `ConfigError`."""
    private_directory(path.parent)
    until = time.monotonic() + LOCKS_WITHIN_S
    while True:
        fd = lock_at(lock_path(path))
        if fd is not None:
            return fd
        other = found(path)
        if (other is not None and other.pid) or time.monotonic() > until:
            pid = other.pid if other is not None else "?"
            raise ConfigError(f"A server runs already (process {pid}); `jaato serve --stop` ends it.")
        time.sleep(0.02)  # somebody has just looked who holds it, or has just let go


def lock_at(lock: Path) -> int | None:
    """The lock, None when another has it. Raises `ConfigError` when the file cannot be made."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{lock} cannot be written: {error.strerror}. Take another place.") from None
    info = os.fstat(fd)
    if info.st_uid != os.geteuid() or info.st_nlink > 1:
        os.close(fd)
        raise ConfigError(f"{lock} is not yours alone. Take another place: --ipc-socket PATH.")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), lock.lstat()):
            os.ftruncate(fd, 0)  # what a server that was killed has left
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def note(fd: int, record: Record) -> None:
    """Write down what this server is."""
    data = msgspec.json.encode(record)
    os.pwrite(fd, data, 0)
    os.ftruncate(fd, len(data))


def last_begun() -> Path | None:
    """The socket of the server that was begun last, if it runs, wherever it is."""
    try:
        content = read_bounded(user_dir(environment(), "XDG_STATE_HOME", ".local/state") / LAST, 10_000)
        path = Path((content or b"").decode())
    except (ConfigError, ValueError):
        return None
    return path if path.is_absolute() and found(path) is not None else None
