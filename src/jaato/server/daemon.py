"""One server of a user: begun once, found by its lock, asked how it is, stopped."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

import jaato
from jaato.errors import ConfigError
from jaato.log import logger
from jaato.server.mcp.listen import bound, host_and_port
from jaato.server.run import Doors, running
from jaato.server.sockets import passed_listeners, private_directory, unix_listener
from jaato.settings import environment

LOG = logger("server")
STOPS_WITHIN_S = 30.0


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
        data = os.pread(fd, 10_000, 0)
        try:
            return msgspec.json.decode(data, type=Record)
        except msgspec.DecodeError:
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
    fd = os.open(lock_path(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        other = found(path)
        raise ConfigError(
            f"A server runs already (process {other.pid if other else '?'}); `jaato serve --stop` ends it."
        ) from None
    return fd


def note(fd: int, record: Record) -> None:
    """Write down what this server is."""
    data = msgspec.json.encode(record)
    os.pwrite(fd, data, 0)
    os.ftruncate(fd, len(data))


async def serve(wanted: Wanted, announce: Callable[[str], None]) -> None:
    """Serve until a signal says to stop. Raises `JaatoError`s when it cannot begin."""
    stopping = asyncio.Event()
    reload = asyncio.Event()
    loop = asyncio.get_running_loop()
    fd = locked(wanted.path)
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        loop.add_signal_handler(signal.SIGHUP, reload.set)
        async with AsyncExitStack() as stack:
            passed = passed_listeners(environment())
            listeners = passed or [unix_listener(wanted.path)]
            if not passed:
                stack.callback(wanted.path.unlink, missing_ok=True)
            listeners += [bound(*host_and_port(address)) for address in wanted.web]
            for listener in listeners:
                stack.callback(listener.close)
            hub = await stack.enter_async_context(running(replace(wanted.doors, listeners=listeners)))
            web = [address_of(one) for one in listeners if isinstance(one.getsockname(), tuple)]
            note(fd, Record(os.getpid(), jaato.__version__, time.time(), str(wanted.path), web))
            announce(f"serving at {wanted.path}" + "".join(f" and {address}" for address in web))
            while not stopping.is_set():
                await first_of(stopping, reload)
                if reload.is_set():
                    reload.clear()
                    await hub.reload()
                    LOG.info("The configuration is read anew for new sessions.")
            LOG.info("Stopping.")
    finally:
        lock_path(wanted.path).unlink(missing_ok=True)
        os.close(fd)


def address_of(listener: object) -> str:
    """A TCP listener's address as a URL."""
    host, port = listener.getsockname()[:2]  # type: ignore[attr-defined]
    return f"ws://[{host}]:{port}" if ":" in host else f"ws://{host}:{port}"


async def first_of(*events: asyncio.Event) -> None:
    """Wait for any of them."""
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
