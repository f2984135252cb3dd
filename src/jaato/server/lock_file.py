"""The lock file of a server: the process that holds the lock serves, and records itself in the file."""

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
from jaato.typed_decoding import decode_json

LAST_SERVER = "last-server"
STOP_S = 30.0
LOCK_S = 2.0


class ServerRecord(msgspec.Struct, frozen=True):
    """What a running server records in the file it has locked."""

    pid: int
    version: str
    started: float
    socket: str
    web: list[str]


def lock_path(path: Path) -> Path:
    """The lock file of the server at this socket."""
    return path.with_name(f"{path.name}.lock")


def find_server(path: Path) -> ServerRecord | None:
    """The server that runs at this socket, or None. One that starts is waited for until it has recorded itself, and one that
    was killed until its last thread has ended, as it holds its lock so long."""
    if (record := read_holder(path)) is None:
        return None
    from jaato.tools.processes.warden.cgroup import read_state  # a start without a server needs none of it

    until = time.monotonic() + LOCK_S
    while record is not None and time.monotonic() < until:
        if record.pid and read_state(str(record.pid)) != "Z":
            break
        time.sleep(0.01)
        record = read_holder(path)
    return record


def read_holder(path: Path) -> ServerRecord | None:
    """The record of the process that holds the lock of this socket, or None."""
    try:
        fd = os.open(lock_path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        if os.fstat(fd).st_uid not in (os.geteuid(), 0):
            return None  # another user's claim
        data = os.pread(fd, 10_000, 0)
        try:
            return decode_json(data, ServerRecord)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ServerRecord(0, "", 0.0, str(path), [])  # it is starting
    finally:
        os.close(fd)
    return None


def stop_server(path: Path) -> ServerRecord | None:
    """Stop the server at this socket and wait for its end; its record, None if none ran. Raises `ConfigError`."""
    until = time.monotonic() + STOP_S
    first = find_server(path)
    signalled = 0
    while (record := find_server(path)) is not None:
        if record.pid > 0 and record.pid != signalled:
            with contextlib.suppress(ProcessLookupError):
                os.kill(record.pid, signal.SIGTERM)
            signalled = record.pid
        if time.monotonic() > until and not record.pid:
            raise ConfigError(
                f"A server has been starting for {STOP_S:g} s; `fuser {lock_path(path)}` shows its process."
            )
        if time.monotonic() > until:
            raise ConfigError(
                f"The server (process {record.pid}) has not stopped within {STOP_S:g} s; "
                f"`kill -9 {record.pid}` ends it without losing recorded data."
            )
        time.sleep(0.05)
    return first


def ensure_private_directory(path: Path) -> None:
    """Create the directory of a socket, or check that other users cannot replace files in it: they cannot write there, or
    it is sticky like /tmp. Raises `ConfigError`."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = path.lstat()
    except OSError as error:
        raise ConfigError(
            f"Cannot create {path}: {error.strerror}. Use another path: --ipc-socket PATH."
        ) from None
    shared = bool(info.st_mode & stat.S_ISVTX) and info.st_uid in (0, os.geteuid())
    if not stat.S_ISDIR(info.st_mode) or not (info.st_uid == os.geteuid() or shared):
        raise ConfigError(f"{path} is not a directory of yours; use another path: --ipc-socket PATH.")
    if info.st_mode & 0o022 and not shared:
        raise ConfigError(
            f"Other users can write to {path} and could replace the socket. Use a private directory."
        )


def acquire_lock(path: Path) -> int:
    """Acquire the lock of the server at this socket, held while the descriptor is open. Raises `ConfigError`."""
    ensure_private_directory(path.parent)
    until = time.monotonic() + LOCK_S
    while True:
        fd = try_lock(lock_path(path))
        if fd is not None:
            return fd
        other = find_server(path)
        if (other is not None and other.pid) or time.monotonic() > until:
            pid = other.pid if other is not None and other.pid else "?"
            raise ConfigError(f"A server is already running (process {pid}); `jaato serve --stop` stops it.")
        time.sleep(0.02)  # another process is just reading the record, or has just released the lock


def try_lock(lock: Path) -> int | None:
    """Try to acquire the lock; None if another process holds it. Raises `ConfigError` if the file cannot be created."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            f"Cannot write {lock}: {error.strerror}. Use another path: --ipc-socket PATH."
        ) from None
    info = os.fstat(fd)
    if info.st_uid != os.geteuid() or info.st_nlink > 1:
        os.close(fd)
        raise ConfigError(
            f"{lock} belongs to another user or has hard links. Use another path: --ipc-socket PATH."
        )
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), lock.lstat()):
            os.ftruncate(fd, 0)  # the record of a server that was killed
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def write_record(fd: int, record: ServerRecord) -> None:
    """Write the record of this server."""
    data = msgspec.json.encode(record)
    os.pwrite(fd, data, 0)
    os.ftruncate(fd, len(data))


def find_last_server() -> Path | None:
    """The socket of the server that was started last, if it still runs."""
    try:
        content = read_bounded(
            user_dir(environment(), "XDG_STATE_HOME", ".local/state") / LAST_SERVER, 10_000
        )
        path = Path((content or b"").decode())
    except (ConfigError, ValueError):
        return None
    return path if path.is_absolute() and find_server(path) is not None else None
