"""The pool of running MCP servers: one thread with an event loop for the whole process, so that no server can block an
agent; leases of its users; the calls of one session to its servers."""

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
from jaato.plugins.mcp.calls import CallContext, output_of, validate_output
from jaato.plugins.mcp.config import Key, McpServerOptions
from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.errors import DefinitionHeld, ServerUnusable, SessionForgotten
from jaato.plugins.mcp.manifest import Manifest, ToolEntry
from jaato.plugins.mcp.supervisor import ServerSupervisor
from jaato.tools.call import Call, Output
from jaato.tools.processes.launcher import WardenClient

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from jaato.plugins.mcp.client import McpClient

LOG = logger("mcp")
CLOSE_WITHIN_S = 20.0
ENDED = "The session that uses this MCP server has ended."
R = TypeVar("R")
Work = Callable[[ServerSupervisor], Coroutine[Any, Any, R]]
Request = Callable[["McpClient"], Coroutine[Any, Any, R]]


class PoolUser:
    """A user of the pool: a plugin, a manager. `watch` is called with each new manifest, on the pool's thread."""

    def __init__(self, watch: Callable[[Manifest], None] | None = None) -> None:
        self.watch = watch
        self.left = False


class ServerPool:
    """Servers by their options, each shared by all its users. Each user holds a lease of the thread, which ends with the
    last lease. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portals = BlockingPortalProvider()
        self._launcher = WardenClient()
        self._leases: dict[PoolUser, BlockingPortal] = {}
        self._leaving: set[threading.Thread] = set()
        self._servers: dict[Key, ServerSupervisor] = {}
        self.was_used = False
        """Whether it ever had a thread, which may be about to end."""

    def submit(self, setting: McpServerOptions, user: PoolUser, do: Work[R]) -> Future[R]:
        """Run `do` with a server, from any thread; cancelling the future cancels it. Raises `PluginError`."""
        return self._portal(user).start_task_soon(self._use, setting, user, do)

    async def run(self, setting: McpServerOptions, user: PoolUser, do: Work[R]) -> R:
        """Run `do` with a server, from another loop; cancellation is passed on. Raises `PluginError`."""
        try:
            return await self._portal(user).call_async(self._use, setting, user, do, abandon_on_cancel=True)
        except CancelledError:
            raise PluginError(ENDED) from None

    async def _use(self, setting: McpServerOptions, user: PoolUser, do: Work[R]) -> R:
        asyncio.get_running_loop().set_exception_handler(log_unexpected)
        server = self._server(setting, user)
        server.begin_request()
        try:
            return await do(server)
        finally:
            server.end_request()

    def _server(self, setting: McpServerOptions, user: PoolUser) -> ServerSupervisor:
        """The server with these options, created if there is none; the user shares it until `leave`."""
        if user.left:
            raise PluginError(ENDED)
        server = self._servers.get(setting.key)
        if server is None:
            server = self._servers[setting.key] = ServerSupervisor(setting, self._launcher)
        server.users.add(user)
        if user.watch is not None:
            server.watchers.setdefault(user, user.watch)
        return server

    def get_known(self, digest: str) -> ServerSupervisor | None:
        """The server of this entry, if it was ever used; from any thread, only to read its state."""
        return next((server for key, server in list(self._servers.items()) if key[0] == digest), None)

    # --- leases ----------------------------------------------------------------------------------------------------

    def _portal(self, user: PoolUser) -> BlockingPortal:
        with self._lock:
            if user.left:
                raise PluginError(ENDED)
            if user not in self._leases:
                self.was_used = True
                self._leases[user] = self._portals.__enter__()
            return self._leases[user]

    def leave(self, user: PoolUser) -> None:
        """Release a user's lease; servers without another user are stopped in the background. Returns at once."""
        user.left = True
        with self._lock:
            if (give_back := self._remove_lease(user)) is not None:
                thread = threading.Thread(target=give_back, name="jaato-mcp-end")
                self._leaving.add(thread)
                thread.start()

    def _remove_lease(self, user: PoolUser) -> Callable[[], None] | None:
        """Remove a user's lease; the function returned gives it back and waits until its servers have stopped."""
        portal = self._leases.pop(user, None)
        if portal is None:
            return None
        launcher = None
        if not self._leases:
            launcher, self._launcher = (
                self._launcher,
                WardenClient(),
            )  # a new one for users that come meanwhile
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
        """Stop the servers without another user."""
        ending = []
        for key, server in list(self._servers.items()):
            server.users.discard(user)
            server.watchers.pop(user, None)
            if not server.users:
                del self._servers[key]
                ending.append(server.close())
        await asyncio.gather(*ending)

    def close(self) -> None:
        """Stop all servers and the thread, and wait for them."""
        with self._lock:
            leases = [self._remove_lease(user) for user in list(self._leases)]
            leaving = list(self._leaving)
        for give_back in filter(None, leases):
            give_back()
        for thread in leaving:
            thread.join(2 * CLOSE_WITHIN_S)


def log_unexpected(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception of a callback."""
    LOG.warning("MCP: %s", context.get("exception") or context.get("message"))


SERVER_POOL = ServerPool()
"""The pool of this process."""
atexit.register(SERVER_POOL.close)


def forget_parent() -> None:
    """Empty the pool in a forked process, where the parent's servers do not run. What it had is kept for good: the end of a
    portal waits for its thread, which is the parent's."""
    if SERVER_POOL.was_used:
        from ctypes import py_object, pythonapi  # seldom needed

        pythonapi.Py_IncRef(py_object(list(vars(SERVER_POOL).values())))
    SERVER_POOL.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=forget_parent)


class SessionServers:
    """The servers of a directory. `changed` is called, on the pool's thread, when a server's manifest changes."""

    def __init__(self, directory: Directory, changed: Callable[[str], None]) -> None:
        self.directory = directory
        self._changed = changed
        self._user = PoolUser(self._learn)

    def _learn(self, manifest: Manifest) -> None:
        for name in self.directory.learn(manifest):
            self._changed(name)

    def submit(self, name: str, do: Work[R]) -> Future[R]:
        """Run `do` with a server, from any thread; cancelling the future cancels it. Raises `ServerUnusable`."""
        return SERVER_POOL.submit(self._options(name), self._user, do)

    def _options(self, name: str) -> McpServerOptions:
        options = self.directory.options(name)
        if "mcp" not in sys.modules and importlib.util.find_spec("mcp") is None:
            raise ServerUnusable("MCP servers need the extra mcp: pip install 'jaato[mcp]'.")
        return options

    async def ask(self, name: str, do: Request[R]) -> R:
        """Send a request to a server, which is started if needed. Raises `ToolError`s."""
        return await SERVER_POOL.run(self._options(name), self._user, partial(send_request, do))

    async def call(self, name: str, entry: ToolEntry, arguments: dict[str, Any], call: Call) -> Output:
        """Call a tool. Raises `ToolError`s."""
        caller = call_context(call)

        async def send(connection: McpClient) -> CallToolResult:
            self._refuse_held(name, entry.name)  # the start of the server may have changed its manifest
            return await connection.call(entry.name, arguments, caller)

        return validate_output(entry, output_of(await self.ask(name, send), call))

    def _refuse_held(self, name: str, tool: str) -> None:
        """Raise `DefinitionHeld` for a tool whose definition has changed since it was accepted."""
        review = self.directory.review(self.directory.entry(name))
        held = review.disabled.get(tool) if review is not None else None
        if held is not None:
            raise DefinitionHeld(held.why(name))

    async def connect(self, name: str) -> Manifest:
        """Start a server, even during its backoff, or fetch the lists of a running one again."""
        return await SERVER_POOL.run(self._options(name), self._user, fetch_manifest)

    async def restart(self, name: str) -> Manifest:
        """Stop a server, also for its other users, and start it again."""
        return await SERVER_POOL.run(self._options(name), self._user, restart_server)

    def history(self, name: str) -> dict[str, str]:
        """When a server was started last, and its last error; nothing for one that was never used."""
        server = SERVER_POOL.get_known(self.directory.sources[name].digest)
        found = {"last_start": server.last_start, "last_error": server.last_error} if server else {}
        return {key: text for key, text in found.items() if text}

    def state(self, name: str) -> tuple[str, str]:
        """The state of a server, and why it failed; starts nothing."""
        config = self.directory.sources[name]
        if config.disabled:
            return "switched off", ""
        if not self.directory.trusts(config):
            return "needs trust", f"`jaato mcp trust {name}`"
        server = SERVER_POOL.get_known(config.digest)
        if (server is None or server.connection is None) and self.directory.needs_login(config):
            return "needs login", f"log in with `jaato mcp login {quote(name)}`"
        if server is not None and server.state in ("started", "starting", "failed"):
            return server.state, server.failure
        return ("known" if self.directory.review(config) else "configured"), ""

    def leave(self) -> None:
        """Release the servers; returns at once."""
        SERVER_POOL.leave(self._user)


async def send_request(do: Request[R], server: ServerSupervisor) -> R:
    """Send a request, once more when the server has lost the session and so did nothing. Raises `ToolError`s."""
    try:
        result = await do(await server.connect())
    except SessionForgotten:
        result = await do(await server.connect())
    server.reset_backoff()
    return result


async def fetch_manifest(server: ServerSupervisor) -> Manifest:
    """The manifest of a server: a running one lists again, another one is started, even during its backoff."""
    running = server.state == "started"
    connection = await server.connect(skip_backoff=True)
    manifest = await connection.refresh() if running else server.manifest
    assert manifest is not None
    return manifest


async def restart_server(server: ServerSupervisor) -> Manifest:
    """Stop a server and start it again, even during its backoff; returns its manifest."""
    await server.close()
    return await fetch_manifest(server)


def call_context(call: Call) -> CallContext:
    """The context of a call whose user can be asked on the running loop."""
    return CallContext(call, call.services.get("clarify"), asyncio.get_running_loop())
