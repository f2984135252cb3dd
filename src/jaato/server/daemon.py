"""The server as a process: one per user and socket, from its lock file to its shutdown, with its signals and its log."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaato.log import logger
from jaato.server.app import Server, ServerOptions, run_server
from jaato.server.http.listeners import bind_tcp, bind_unix, parse_host_port
from jaato.server.lock_file import LAST_SERVER, ServerRecord, acquire_lock, lock_path, write_record
from jaato.server.sessions.hub import Hub
from jaato.server.systemd import get_inherited_listeners, notify_systemd
from jaato.settings import environment, user_dir
from jaato.tools.filesystem.atomic import write_private
from jaato.version import __version__

LOG = logger("server")
FIRST_SESSION_S = 5.0
"""The time in which the first session imports what sessions need."""


async def serve(
    path: Path, web: Sequence[str], options: ServerOptions, announce: Callable[[str], None]
) -> None:
    """Serve at a socket's path, and at addresses `[HOST]:PORT`, until SIGTERM or SIGINT; SIGHUP reloads. Raises
    `JaatoError`s if the server cannot start."""
    stopping = asyncio.Event()
    reloading = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_callback_error)
    environ = environment()
    inherited = get_inherited_listeners(environ)
    path = unix_path(inherited) or path
    lock = acquire_lock(path)
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        loop.add_signal_handler(signal.SIGHUP, reloading.set)
        async with AsyncExitStack() as stack:
            listeners = open_listeners(path, web, inherited, stack)
            server = await stack.enter_async_context(run_server(replace(options, listeners=listeners)))
            started = time.time()

            def record_listeners() -> list[str]:
                urls = [url_of(one, server) for one in server.network.listeners]
                write_record(lock, ServerRecord(os.getpid(), __version__, started, str(path), urls))
                return urls

            urls = record_listeners()
            server.network.on_listen = record_listeners
            with contextlib.suppress(OSError):
                write_private(user_dir(environ, "XDG_STATE_HOME", ".local/state") / LAST_SERVER, bytes(path))
            where = f"serving at {path}" + "".join(f" and {url}" for url in urls)
            if urls:
                where += f"; the page is at {server.network.page_url} (`jaato web` opens it)"
            if reason := server.hub.store.refusal:
                LOG.warning("Sessions are read-only: %s", reason)
                where += f"; sessions are read-only: {reason}"
            freeze_objects()
            stack.callback(asyncio.ensure_future(freeze_after_first_session(server.hub)).cancel)
            announce(where)
            LOG.info("Process %d serves at %s", os.getpid(), " and ".join([str(path), *urls]))
            notify_systemd(environ, "READY=1")
            while not stopping.is_set():
                await wait_any(stopping, reloading)
                if reloading.is_set():
                    reloading.clear()
                    await reload(server)
            notify_systemd(environ, "STOPPING=1")
            LOG.info("Stopping")
        LOG.info("Stopped")
    finally:
        lock_path(path).unlink(missing_ok=True)
        os.close(lock)


def unix_path(listeners: Sequence[socket.socket]) -> Path | None:
    """The path of the first Unix socket among inherited listeners."""
    names = [one.getsockname() for one in listeners if one.family == socket.AF_UNIX]
    return Path(names[0]) if names and isinstance(names[0], str) and names[0].startswith("/") else None


def open_listeners(
    path: Path, web: Sequence[str], inherited: Sequence[socket.socket], stack: AsyncExitStack
) -> list[socket.socket]:
    """The inherited listeners and those to create, closed with the stack. Raises `ConfigError`."""
    listeners = list(inherited)
    for listener in listeners:
        stack.callback(listener.close)
    if not any(one.family == socket.AF_UNIX for one in listeners):
        own = bind_unix(path)
        stack.callback(path.unlink, missing_ok=True)
        stack.callback(own.close)
        listeners.insert(0, own)
    for address in web:
        listener = bind_tcp(*parse_host_port(address))
        stack.callback(listener.close)
        listeners.append(listener)
    return listeners


def log_callback_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log the error of a callback, but not that of a connection which asyncio has ended twice: a transport that is closing
    does so if the last write resumes its protocol, and what that writes fails since the client has gone."""
    twice = "._call_connection_lost(" in context.get("message", "")
    if not (twice and isinstance(context.get("exception"), AttributeError)):
        loop.default_exception_handler(context)


async def reload(server: Server) -> None:
    """Reload what SIGHUP asks for; errors are logged, and the server keeps serving."""
    problems = await server.reload()
    for problem in problems:
        LOG.error("Reload failed in part: %s", problem)
    if not problems:
        LOG.info("Reloaded the configuration, for new sessions and connections")


def url_of(listener: socket.socket, server: Server) -> str:
    """A TCP listener's address as a URL."""
    host, port = listener.getsockname()[:2]
    scheme = "ws" if server.certificate is None else "wss"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


async def wait_any(*events: asyncio.Event) -> None:
    """Wait for the first of several events."""
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def freeze_objects() -> None:
    """Collect garbage, then exempt what is loaded now from later collections: it stays until the process ends."""
    gc.collect()
    gc.freeze()


async def freeze_after_first_session(hub: Hub) -> None:
    """Freeze again what the first session has imported."""
    while not hub.pool.loaded:  # noqa: ASYNC110 it may be hours away
        await asyncio.sleep(FIRST_SESSION_S)
    await asyncio.sleep(FIRST_SESSION_S)
    freeze_objects()


MAX_BYTES = 5_000_000
"""The size at which the log is rotated; one old file is kept."""
MAX_LINE_CHARS = 10_000
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class RotatingStderr(logging.Handler):
    """Writes to stderr, which it redirects to a new file when the log is full, so that the log also contains what the
    interpreter and libraries print. `path` is None if stderr is not redirected.
    """

    def __init__(self, path: Path | None, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter(FORMAT))
        self._path = path
        self._max_bytes = max_bytes
        if path is not None:
            self._redirect()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            line = self.format(record)[:MAX_LINE_CHARS] + "\n"
            os.write(2, line.encode("utf-8", "backslashreplace"))
            if self._path is not None and os.fstat(2).st_size > self._max_bytes:
                self._path.replace(old_path(self._path))
                self._redirect()
        except OSError:
            pass  # a full disk does not stop the server

    def _redirect(self) -> None:
        """Redirect stdout and stderr to the file."""
        assert self._path is not None
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o600)
            os.dup2(fd, 1, inheritable=True)
            os.dup2(fd, 2, inheritable=True)
        finally:
            os.close(fd)


def old_path(path: Path) -> Path:
    """The path of the rotated log."""
    return path.with_name(f"{path.name}.old")


def configure_logging(path: Path | None) -> None:
    """Write the log of this process to a file; None: to stderr."""
    root = logging.getLogger("jaato")
    root.addHandler(RotatingStderr(path))
    root.setLevel(logging.INFO if path is not None else logging.WARNING)
    library = logging.getLogger("uvicorn.error")
    library.addHandler(RotatingStderr(None))
    library.setLevel(logging.ERROR)  # errors of clients are answered, not logged
    library.addFilter(lambda record: not str(record.msg).startswith("Invalid UTF-8"))
    library.propagate = False
