"""All running MCP servers of the process, on a thread and a loop of their own: no server can hold up an agent."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal, BlockingPortalProvider

from jaato.errors import PluginError
from jaato.log import logger
from jaato.plugins.mcp.manifest import Manifest
from jaato.plugins.mcp.server import Key, Server, Setting
from jaato.tools.processes.launcher import WardenClient

LOG = logger("mcp")
CLOSE_WITHIN_S = 20.0
ENDED = "The session that uses this MCP server has ended."
R = TypeVar("R")
Work = Callable[["Server"], Coroutine[Any, Any, R]]


class User:
    """Somebody who uses servers: a plugin, a manager. `watch` is called with each new manifest, on the pool's thread."""

    def __init__(self, watch: Callable[[Manifest], None] | None = None) -> None:
        self.watch = watch
        self.left = False


class Pool:
    """Servers by what they are started with; one process each, whoever uses it. Each user holds a lease of the thread,
    which ends with the last one. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portals = BlockingPortalProvider()
        self._launcher = WardenClient()
        self._leases: dict[User, BlockingPortal] = {}
        self._leaving: set[threading.Thread] = set()
        self._servers: dict[Key, Server] = {}

    def submit(self, setting: Setting, user: User, do: Work[R]) -> Future[R]:
        """Do something with a server, from any thread; cancelling the future cancels it. Raises `PluginError`."""
        return self._portal(user).start_task_soon(self._use, setting, user, do)

    async def run(self, setting: Setting, user: User, do: Work[R]) -> R:
        """Do something with a server, from another loop; cancelled, it is cancelled there. Raises `PluginError`."""
        try:
            return await self._portal(user).call_async(self._use, setting, user, do, abandon_on_cancel=True)
        except CancelledError:
            raise PluginError(ENDED) from None

    async def _use(self, setting: Setting, user: User, do: Work[R]) -> R:
        asyncio.get_running_loop().set_exception_handler(log_unexpected)
        server = self._server(setting, user)
        server.begin()
        try:
            return await do(server)
        finally:
            server.end()

    def _server(self, setting: Setting, user: User) -> Server:
        """The server of this setting, made if there is none; it is the user's until that one leaves."""
        if user.left:
            raise PluginError(ENDED)
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

    # --- leases ----------------------------------------------------------------------------------------------------

    def _portal(self, user: User) -> BlockingPortal:
        with self._lock:
            if user.left:
                raise PluginError(ENDED)
            if user not in self._leases:
                self._leases[user] = self._portals.__enter__()
            return self._leases[user]

    def leave(self, user: User) -> None:
        """A user needs nothing any more; servers nobody else uses end soon. Returns at once."""
        user.left = True
        with self._lock:
            if (give_back := self._released(user)) is not None:
                thread = threading.Thread(target=give_back, name="jaato-mcp-end")
                self._leaving.add(thread)
                thread.start()

    def _released(self, user: User) -> Callable[[], None] | None:
        """Take a user's lease away; what is to be called then gives it back, and waits until the servers have ended."""
        portal = self._leases.pop(user, None)
        if portal is None:
            return None
        launcher = None
        if not self._leases:
            launcher, self._launcher = self._launcher, WardenClient()  # another for who comes meanwhile
        return partial(self._give_back, user, portal, launcher, list(self._leaving))

    def _give_back(
        self,
        user: User,
        portal: BlockingPortal,
        launcher: WardenClient | None,
        before: list[threading.Thread],
    ) -> None:
        try:
            portal.start_task_soon(self._end_servers, user).result(CLOSE_WITHIN_S)
        except TimeoutError:
            LOG.warning("MCP servers did not end within %g s; they are killed.", CLOSE_WITHIN_S)
        if launcher is not None:
            for thread in before:
                thread.join(CLOSE_WITHIN_S)
            launcher.close()
        self._portals.__exit__(None, None, None)
        with self._lock:
            self._leaving.discard(threading.current_thread())

    async def _end_servers(self, user: User) -> None:
        """End the servers that nobody but this user uses."""
        ending = []
        for key, server in list(self._servers.items()):
            server.users.discard(user)
            server.watchers.pop(user, None)
            if not server.users:
                del self._servers[key]
                ending.append(server.close())
        await asyncio.gather(*ending)

    def close(self) -> None:
        """End all servers and the thread; returns when nothing of them is left."""
        with self._lock:
            leases = [self._released(user) for user in list(self._leases)]
            leaving = list(self._leaving)
        for give_back in filter(None, leases):
            give_back()
        for thread in leaving:
            thread.join(2 * CLOSE_WITHIN_S)


def log_unexpected(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What went wrong in a callback, for the log alone."""
    LOG.warning("MCP: %s", context.get("exception") or context.get("message"))


POOL = Pool()
"""The pool of this process."""
atexit.register(POOL.close)
os.register_at_fork(after_in_child=POOL.__init__)  # type: ignore[misc] # what runs in the parent does not run here
