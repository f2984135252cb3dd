"""All running MCP servers of the process, on a thread and a loop of their own: no server can hold up an agent."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from jaato.errors import PluginError
from jaato.log import logger
from jaato.plugins.mcp.manifest import Manifest
from jaato.plugins.mcp.server import Key, Server, Setting
from jaato.tools.processes.launch import Launcher

LOG = logger("mcp")
CLOSE_WITHIN_S = 20.0
R = TypeVar("R")


class Pool:
    """Servers by what they are started with; one process each, whoever uses it. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._owner = 0
        self._launcher = Launcher()
        self._servers: dict[Key, Server] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._wanted = 0

    # --- the thread ----------------------------------------------------------------------------------------------

    def submit(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        """Run something on the pool's loop, from any thread; cancelling the future cancels it."""
        with self._lock:
            future = asyncio.run_coroutine_threadsafe(work, self._running())
            self._wanted += 1
            future.add_done_callback(self._done)
        return future

    async def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run something on the pool's loop, from another loop; cancelled, it is cancelled there."""
        home = asyncio.get_running_loop()
        waiting: asyncio.Future[R] = home.create_future()
        made: list[asyncio.Task[R]] = []

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(work)
            made.append(task)
            task.add_done_callback(ended)

        def ended(task: asyncio.Task[R]) -> None:
            self._done(task)
            error = None if task.cancelled() else task.exception()
            try:
                home.call_soon_threadsafe(settle, waiting, task, error)
            except RuntimeError:
                return  # the caller's loop has ended

        with self._lock:
            loop = self._running()
            self._wanted += 1
            loop.call_soon_threadsafe(begin)
        try:
            return await waiting
        except asyncio.CancelledError:
            try:
                loop.call_soon_threadsafe(cancel_first, made)
            except RuntimeError:
                pass  # the pool has ended, and everything with it
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        """The loop, begun if need be."""
        if self._loop is None or self._owner != os.getpid():
            self._begin()
        assert self._loop is not None
        return self._loop

    def _done(self, _work: object) -> None:
        with self._lock:
            self._wanted -= 1

    def _begin(self) -> None:
        self._owner, self._servers, self._launcher, self._wanted = os.getpid(), {}, Launcher(), 0
        self._ending = set()
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, args=(loop,), name="jaato-mcp", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @staticmethod
    def _work(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(unexpected)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    # --- servers -------------------------------------------------------------------------------------------------

    async def use(self, setting: Setting, user: User, do: Callable[[Server], Coroutine[Any, Any, R]]) -> R:
        """Do something with a server, on the pool's loop; it is the user's until that one leaves."""
        server = self.server(setting, user)
        server.begin()
        try:
            return await do(server)
        finally:
            server.end()

    def server(self, setting: Setting, user: User) -> Server:
        """The server of this setting, made if there is none; on the pool's loop."""
        if user.left:
            raise PluginError("The session that uses this MCP server has ended.")
        server = self._servers.get(setting.key)
        if server is None:
            server = self._servers[setting.key] = Server(setting, self._launcher)
        server.users.add(user)
        if user.watch is not None:
            server.watchers.setdefault(user, user.watch)
        return server

    def known(self, digest: str) -> Server | None:
        """A server of this entry, if it was ever used; from any thread, to look at only."""
        return next((server for key, server in list(self._servers.items()) if key[0] == digest), None)

    def leave(self, user: User) -> None:
        """A user needs nothing any more; servers nobody else uses end soon. Returns at once."""
        user.left = True
        loop = self._loop
        if loop is None or self._owner != os.getpid():
            return
        try:
            loop.call_soon_threadsafe(self._left, user)
        except RuntimeError:
            return  # the loop has ended, and all servers with it

    def _left(self, user: User) -> None:
        for key, server in list(self._servers.items()):
            server.users.discard(user)
            server.watchers.pop(user, None)
            if not server.users:
                del self._servers[key]
                self._end(server)
        if not self._servers:
            self._winding = asyncio.get_running_loop().create_task(self._wind_up())

    def _end(self, server: Server) -> None:
        task = asyncio.get_running_loop().create_task(server.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def settle(self) -> None:
        """Wait until all servers that were left have ended."""
        while self._ending:
            await asyncio.wait(self._ending)

    async def _wind_up(self) -> None:
        """When nobody uses any server, nothing of the pool is left either, until it is needed again."""
        await self.settle()
        with self._lock:
            if self._servers or self._wanted or self._loop is not asyncio.get_running_loop():
                return
            self._loop = self._thread = None
            atexit.unregister(self.close)
        await asyncio.to_thread(self._launcher.close)
        asyncio.get_running_loop().stop()

    def close(self) -> None:
        """End all servers and the thread; returns when nothing of them is left."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            atexit.unregister(self.close)
        if loop is None or thread is None or self._owner != os.getpid() or not thread.is_alive():
            return
        try:
            asyncio.run_coroutine_threadsafe(self._close(), loop).result(CLOSE_WITHIN_S)
        except TimeoutError:
            LOG.warning("MCP servers did not end within %g s; they are killed.", CLOSE_WITHIN_S)
        self._launcher.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_WITHIN_S)

    async def _close(self) -> None:
        for server in self._servers.values():
            self._end(server)
        self._servers.clear()
        await self.settle()


class User:
    """Somebody who uses servers: a plugin, a manager. `watch` hears of each new manifest, on the pool's thread."""

    def __init__(self, watch: Callable[[Manifest], None] | None = None) -> None:
        self.watch = watch
        self.left = False


def cancel_first(made: list[asyncio.Task[R]]) -> None:
    """Cancel what was begun."""
    made[0].cancel()


def settle(waiting: asyncio.Future[R], task: asyncio.Task[R], error: BaseException | None) -> None:
    """Give a result to who waits for it, on the loop of that one."""
    if waiting.done():
        return
    if error is not None:
        waiting.set_exception(error)
    elif task.cancelled():
        waiting.cancel()
    else:
        waiting.set_result(task.result())


def unexpected(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What went wrong in a callback, for the log alone."""
    LOG.warning("MCP: %s", context.get("exception") or context.get("message"))


POOL = Pool()
"""The pool of this process."""
