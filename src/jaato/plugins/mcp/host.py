"""Calls from an agent's loop, or from any thread, to servers on the pool's."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.elicit import Caller
from jaato.plugins.mcp.faults import ServerUnusable
from jaato.plugins.mcp.manifest import Manifest, ToolEntry
from jaato.plugins.mcp.pool import POOL, User
from jaato.plugins.mcp.tools import checked_output
from jaato.tools.call import Call, Output

if TYPE_CHECKING:
    from jaato.plugins.mcp.connection import Connection
    from jaato.plugins.mcp.server import Server

R = TypeVar("R")


class Host:
    """The servers of a directory at work. `changed` hears, on the pool's thread, that a server offers something else."""

    def __init__(self, directory: Directory, changed: Callable[[str], None]) -> None:
        self.directory = directory
        self._changed = changed
        self._user = User(self._learn)

    def _learn(self, manifest: Manifest) -> None:
        config = self.directory.learn(manifest)
        if config is not None:
            self._changed(config.name)

    def start(self, name: str, do: Callable[[Server], Coroutine[Any, Any, R]]) -> Future[R]:
        """Begin something with a server. Raises `ServerUnusable`; cancelling the future cancels it."""
        setting = self.directory.setting(name)
        if importlib.util.find_spec("mcp") is None:
            raise ServerUnusable("MCP servers need the extra mcp: pip install 'jaato[mcp]'.")
        return POOL.submit(POOL.use(setting, self._user, do))

    async def ask(self, name: str, do: Callable[[Connection], Coroutine[Any, Any, R]]) -> R:
        """Ask a server something, which is started if need be; from a loop."""

        async def asked(server: Server) -> R:
            result = await do(await server.connected())
            server.answered()
            return result

        return await asyncio.wrap_future(self.start(name, asked))

    async def call(self, name: str, entry: ToolEntry, arguments: dict[str, Any], call: Call) -> Output:
        """Run a tool. Raises `ToolError`s."""
        from jaato.plugins.mcp.results import output_of

        caller = caller_of(call)
        result = await self.ask(name, lambda connection: connection.call(entry.name, arguments, caller))
        return checked_output(entry, output_of(result, call))

    async def connect(self, name: str) -> Manifest:
        """Start a server, even one that has just failed, or ask a running one anew what it offers."""

        async def connected(server: Server) -> Manifest:
            running = server.state == "started"
            connection = await server.connected(patient=False)
            manifest = await connection.refresh() if running else server.manifest
            assert manifest is not None
            return manifest

        return await asyncio.wrap_future(self.start(name, connected))

    def state(self, name: str) -> tuple[str, str]:
        """Where a server stands, and why it failed; asks nobody and starts nothing."""
        config = self.directory.servers[name]
        if config.disabled:
            return "switched off", ""
        if not self.directory.trusts(config):
            return "needs trust", f"`jaato mcp trust {name}`"
        server = POOL.known(config.digest)
        if server is not None and server.state in ("started", "starting", "failed"):
            return server.state, server.failure
        return ("known" if self.directory.judgement(config) else "configured"), ""

    def leave(self) -> None:
        """Need nothing any more; returns at once."""
        POOL.leave(self._user)


def caller_of(call: Call) -> Caller:
    """The call as one that can be asked back, from the loop it runs on."""
    return Caller(call, call.services.get("clarify"), asyncio.get_running_loop())
