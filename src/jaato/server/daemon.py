"""One server of a user: begun once, found by its lock, asked how it is, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

import jaato
from jaato.errors import ConfigError
from jaato.log import logger
from jaato.server.collector import set_aside
from jaato.server.hub import Hub
from jaato.server.listen import bound, host_and_port
from jaato.server.run import Doors, Running, opened
from jaato.server.sockets import passed_listeners, private_directory, tell_supervisor, unix_listener
from jaato.settings import environment, user_dir
from jaato.tools.atomic import read_small, write_private

LOG = logger("server")
LAST = "last-server"
STOPS_WITHIN_S = 30.0
LOCKS_WITHIN_S = 2.0
FIRST_SESSION_S = 5.0
"""Time for the first session to load what sessions need."""


class Record(msgspec.Struct, frozen=True):
    """What a running server says of itself, in the file it keeps locked."""

    pid: int
    version: str
    started: float
    socket: str
    web: list[str]


@dataclass(frozen=True)
class Wanted:
    """Where to serve: a socket's path, and perhaps addresses `[HOST]:PORT`."""

    path: Path
    web: tuple[str, ...] = ()
    doors: Doors = Doors(())


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
        content = read_small(user_dir(environment(), "XDG_STATE_HOME", ".local/state") / LAST, 10_000)
        path = Path((content or b"").decode())
    except (ConfigError, ValueError):
        return None
    return path if path.is_absolute() and found(path) is not None else None


async def serve(wanted: Wanted, announce: Callable[[str], None]) -> None:
    """Serve until a signal says to stop. Raises `JaatoError`s when it cannot begin."""
    stopping = asyncio.Event()
    reload = asyncio.Event()
    loop = asyncio.get_running_loop()
    environ = environment()
    passed = passed_listeners(environ)
    wanted = replace(wanted, path=path_of(passed) or wanted.path)
    fd = locked(wanted.path)
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        loop.add_signal_handler(signal.SIGHUP, reload.set)
        async with AsyncExitStack() as stack:
            listeners = at(wanted, passed, stack)
            served = await stack.enter_async_context(opened(replace(wanted.doors, listeners=listeners)))
            web = [address_of(one, served) for one in listeners if one.family != socket.AF_UNIX]
            note(fd, Record(os.getpid(), jaato.__version__, time.time(), str(wanted.path), web))
            with contextlib.suppress(OSError):
                write_private(user_dir(environ, "XDG_STATE_HOME", ".local/state") / LAST, bytes(wanted.path))
            where = f"serving at {wanted.path}" + "".join(f" and {address}" for address in web)
            if why := served.hub.store.refusal:
                LOG.warning("Sessions can be read and not worked in: %s", why)
                where += f"; sessions can be read and not worked in: {why}"
            set_aside()
            stack.callback(asyncio.ensure_future(set_aside_later(served.hub)).cancel)
            announce(where)
            LOG.info("Process %d serves at %s", os.getpid(), " and ".join([str(wanted.path), *web]))
            tell_supervisor(environ, "READY=1")
            while not stopping.is_set():
                await first_of(stopping, reload)
                if reload.is_set():
                    reload.clear()
                    await renewed(served)
            tell_supervisor(environ, "STOPPING=1")
            LOG.info("Stopping")
        LOG.info("Stopped")
    finally:
        lock_path(wanted.path).unlink(missing_ok=True)
        os.close(fd)


async def set_aside_later(hub: Hub) -> None:
    """The same for what the first session has loaded."""
    while not hub.lives.by_id:  # noqa: ASYNC110 it may be hours away
        await asyncio.sleep(FIRST_SESSION_S)
    await asyncio.sleep(FIRST_SESSION_S)
    set_aside()


def path_of(passed: list[socket.socket]) -> Path | None:
    """Where the first Unix socket is that was passed on."""
    names = [one.getsockname() for one in passed if one.family == socket.AF_UNIX]
    return Path(names[0]) if names and isinstance(names[0], str) and names[0].startswith("/") else None


def at(wanted: Wanted, passed: list[socket.socket], stack: AsyncExitStack) -> list[socket.socket]:
    """The sockets to serve at, closed with the stack: those passed on, and our own. Raises `ConfigError`."""
    listeners = list(passed)
    for listener in listeners:
        stack.callback(listener.close)
    if not any(one.family == socket.AF_UNIX for one in listeners):
        own = unix_listener(wanted.path)
        stack.callback(wanted.path.unlink, missing_ok=True)
        stack.callback(own.close)
        listeners.insert(0, own)
    for address in wanted.web:
        listener = bound(*host_and_port(address))
        stack.callback(listener.close)
        listeners.append(listener)
    return listeners


async def renewed(served: Running) -> None:
    """Read everything anew that a signal asks for; what is wrong with it is the log's, and the server serves on."""
    problems = await served.renew()
    for problem in problems:
        LOG.error("Not everything could be read anew: %s", problem)
    if not problems:
        LOG.info("The configuration is read anew, for new sessions and connections")


def address_of(listener: socket.socket, served: Running) -> str:
    """A TCP listener's address as a URL."""
    host, port = listener.getsockname()[:2]
    scheme = "ws" if served.secure is None else "wss"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


async def first_of(*events: asyncio.Event) -> None:
    """Wait for any of them."""
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
