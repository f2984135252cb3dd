"""The pool of running MCP servers: one thread with an event loop for the whole process, so that no server can hold up an
agent, leases of its users, and the calls of one session to them."""

from __future__ import annotations

import asyncio
import atexit
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

from anyio.from_thread import BlockingPortal, BlockingPortalProvider

from jaato.errors import PluginError
from jaato.log import logger
from jaato.plugins.mcp.config import Key, McpServerOptions
from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.elicitation import CallContext
from jaato.plugins.mcp.errors import DefinitionHeld, ServerUnusable, SessionForgotten
from jaato.plugins.mcp.manifest import Manifest, ToolEntry
from jaato.plugins.mcp.server import McpServer
from jaato.plugins.mcp.tools import checked_output
from jaato.tools.call import Call, Output
from jaato.tools.processes.launcher import WardenClient

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from jaato.plugins.mcp.client import McpClient

LOG = logger("mcp")
CLOSE_WITHIN_S = 20.0
ENDED = "The session that uses this MCP server has ended."
R = TypeVar("R")
Work = Callable[[McpServer], Coroutine[Any, Any, R]]


class PoolUser:
    """A user of servers: a plugin, a manager. `watch` is called with each new manifest, on the pool's thread."""

    def __init__(self, watch: Callable[[Manifest], None] | None = None) -> None:
        self.watch = watch
        self.left = False


class ServerPool:
    """Servers by what they are started with; one process each, whoever uses it. Each user holds a lease of the thread,
    which ends with the last one. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portals = BlockingPortalProvider()
        self._launcher = WardenClient()
        self._leases: dict[PoolUser, BlockingPortal] = {}
        self._leaving: set[threading.Thread] = set()
        self._servers: dict[Key, McpServer] = {}

    def submit(self, setting: McpServerOptions, user: PoolUser, do: Work[R]) -> Future[R]:
        """Do something with a server, from any thread; cancelling the future cancels it. Raises `PluginError`."""
        return self._portal(user).start_task_soon(self._use, setting, user, do)

    async def run(self, setting: McpServerOptions, user: PoolUser, do: Work[R]) -> R:
        """Do something with a server, from another loop; cancelled, it is cancelled there. Raises `PluginError`."""
        try:
            return await self._portal(user).call_async(self._use, setting, user, do, abandon_on_cancel=True)
        except CancelledError:
            raise PluginError(ENDED) from None

    async def _use(self, setting: McpServerOptions, user: PoolUser, do: Work[R]) -> R:
        asyncio.get_running_loop().set_exception_handler(log_unexpected)
        server = self._server(setting, user)
        server.begin()
        try:
            return await do(server)
        finally:
            server.end()

    def _server(self, setting: McpServerOptions, user: PoolUser) -> McpServer:
        """The server of this setting, made if there is none; it is the user's until that one leaves."""
        if user.left:
            raise PluginError(ENDED)
        server = self._servers.get(setting.key)
        if server is None:
            server = self._servers[setting.key] = McpServer(setting, self._launcher)
        server.users.add(user)
        if user.watch is not None:
            server.watchers.setdefault(user, user.watch)
        return server

    def known(self, digest: str) -> McpServer | None:
        """A server of this entry, if it was ever used; from any thread, to look at only."""
        return next((server for key, server in list(self._servers.items()) if key[0] == digest), None)

    # --- leases ----------------------------------------------------------------------------------------------------

    def _portal(self, user: PoolUser) -> BlockingPortal:
        with self._lock:
            if user.left:
                raise PluginError(ENDED)
            if user not in self._leases:
                self._leases[user] = self._portals.__enter__()
            return self._leases[user]

    def leave(self, user: PoolUser) -> None:
        """A user needs nothing any more; servers nobody else uses end soon. Returns at once."""
        user.left = True
        with self._lock:
            if (give_back := self._released(user)) is not None:
                thread = threading.Thread(target=give_back, name="jaato-mcp-end")
                self._leaving.add(thread)
                thread.start()

    def _released(self, user: PoolUser) -> Callable[[], None] | None:
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
        user: PoolUser,
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

    async def _end_servers(self, user: PoolUser) -> None:
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


SERVER_POOL = ServerPool()
"""The pool of this process."""
atexit.register(SERVER_POOL.close)
os.register_at_fork(after_in_child=SERVER_POOL.__init__)  # type: ignore[misc] # what runs in the parent does not run here


class SessionServers:
    """The servers of a directory at work. `changed` hears, on the pool's thread, that a server offers something else."""

    def __init__(self, directory: Directory, changed: Callable[[str], None]) -> None:
        self.directory = directory
        self._changed = changed
        self._user = PoolUser(self._learn)

    def _learn(self, manifest: Manifest) -> None:
        for name in self.directory.learn(manifest):
            self._changed(name)

    def start(self, name: str, do: Callable[[McpServer], Coroutine[Any, Any, R]]) -> Future[R]:
        """Begin something with a server. Raises `ServerUnusable`; cancelling the future cancels it."""
        return SERVER_POOL.submit(self._setting(name), self._user, do)

    def _setting(self, name: str) -> McpServerOptions:
        setting = self.directory.setting(name)
        if "mcp" not in sys.modules and importlib.util.find_spec("mcp") is None:
            raise ServerUnusable("MCP servers need the extra mcp: pip install 'jaato[mcp]'.")
        return setting

    async def ask(self, name: str, do: Callable[[McpClient], Coroutine[Any, Any, R]]) -> R:
        """Ask a server something, which is started if need be; from a loop."""

        async def asked(server: McpServer) -> R:
            try:
                result = await do(await server.connected())
            except SessionForgotten:  # nothing was done, so it is no repetition
                result = await do(await server.connected())
            server.answered()
            return result

        return await SERVER_POOL.run(self._setting(name), self._user, asked)

    async def call(self, name: str, entry: ToolEntry, arguments: dict[str, Any], call: Call) -> Output:
        """Run a tool. Raises `ToolError`s."""
        from jaato.plugins.mcp.results import output_of

        caller = call_context(call)

        async def called(connection: McpClient) -> CallToolResult:
            self._refuse_held(name, entry.name)  # starting the server has shown what it offers now
            return await connection.call(entry.name, arguments, caller)

        return checked_output(entry, output_of(await self.ask(name, called), call))

    def _refuse_held(self, name: str, tool: str) -> None:
        """Raise `DefinitionHeld` for a tool that is no longer what was accepted."""
        judged = self.directory.judgement(self.directory.entry(name))
        held = judged.disabled.get(tool) if judged is not None else None
        if held is not None:
            raise DefinitionHeld(held.why(name))

    async def connect(self, name: str) -> Manifest:
        """Start a server, even one that has just failed, or ask a running one anew what it offers."""

        async def connected(server: McpServer) -> Manifest:
            running = server.state == "started"
            connection = await server.connected(patient=False)
            manifest = await connection.refresh() if running else server.manifest
            assert manifest is not None
            return manifest

        return await SERVER_POOL.run(self._setting(name), self._user, connected)

    def state(self, name: str) -> tuple[str, str]:
        """Where a server stands, and why it failed; asks nobody and starts nothing."""
        config = self.directory.sources[name]
        if config.disabled:
            return "switched off", ""
        if not self.directory.trusts(config):
            return "needs trust", f"`jaato mcp trust {name}`"
        server = SERVER_POOL.known(config.digest)
        if (server is None or server.connection is None) and self.directory.needs_login(config):
            return "needs login", f"log in with `jaato mcp login {quote(name)}`"
        if server is not None and server.state in ("started", "starting", "failed"):
            return server.state, server.failure
        return ("known" if self.directory.judgement(config) else "configured"), ""

    def leave(self) -> None:
        """Need nothing any more; returns at once."""
        SERVER_POOL.leave(self._user)


def call_context(call: Call) -> CallContext:
    """The call as one that can be asked back, from the loop it runs on."""
    return CallContext(call, call.services.get("clarify"), asyncio.get_running_loop())
