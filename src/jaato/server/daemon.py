"""One server of a user, from its lock to its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from jaato.log import logger
from jaato.server.app import Doors, Running, opened
from jaato.server.http.listeners import bound, host_and_port, passed_listeners, tell_supervisor, unix_listener
from jaato.server.lock_file import LAST, Record, lock_path, locked, note
from jaato.server.sessions.hub import Hub
from jaato.settings import environment, user_dir
from jaato.tools.filesystem.atomic import write_private
from jaato.version import __version__

LOG = logger("server")
FIRST_SESSION_S = 5.0
"""Time for the first session to load what sessions need."""


@dataclass(frozen=True)
class Wanted:
    """Where to serve: a socket's path, and perhaps addresses `[HOST]:PORT`."""

    path: Path
    web: tuple[str, ...] = ()
    doors: Doors = Doors(())


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
            note(fd, Record(os.getpid(), __version__, time.time(), str(wanted.path), web))
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


def set_aside() -> None:
    """What is loaded stays for good: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
