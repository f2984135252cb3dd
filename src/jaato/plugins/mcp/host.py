"""Calls from an agent's loop, or from any thread, to servers on the pool's."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.elicit import Caller
from jaato.plugins.mcp.faults import DefinitionHeld, ServerUnusable, SessionForgotten
from jaato.plugins.mcp.manifest import Manifest, ToolEntry
from jaato.plugins.mcp.pool import POOL, User
from jaato.plugins.mcp.tools import checked_output
from jaato.tools.call import Call, Output

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from jaato.plugins.mcp.client import McpClient
    from jaato.plugins.mcp.server import Server, Setting

R = TypeVar("R")


class Host:
    """The servers of a directory at work. `changed` hears, on the pool's thread, that a server offers something else."""

    def __init__(self, directory: Directory, changed: Callable[[str], None]) -> None:
        self.directory = directory
        self._changed = changed
        self._user = User(self._learn)

    def _learn(self, manifest: Manifest) -> None:
        for name in self.directory.learn(manifest):
            self._changed(name)

    def start(self, name: str, do: Callable[[Server], Coroutine[Any, Any, R]]) -> Future[R]:
        """Begin something with a server. Raises `ServerUnusable`; cancelling the future cancels it."""
        return POOL.submit(self._setting(name), self._user, do)

    def _setting(self, name: str) -> Setting:
        setting = self.directory.setting(name)
        if "mcp" not in sys.modules and importlib.util.find_spec("mcp") is None:
            raise ServerUnusable("MCP servers need the extra mcp: pip install 'jaato[mcp]'.")
        return setting

    async def ask(self, name: str, do: Callable[[McpClient], Coroutine[Any, Any, R]]) -> R:
        """Ask a server something, which is started if need be; from a loop."""

        async def asked(server: Server) -> R:
            try:
                result = await do(await server.connected())
            except SessionForgotten:  # nothing was done, so it is no repetition
                result = await do(await server.connected())
            server.answered()
            return result

        return await POOL.run(self._setting(name), self._user, asked)

    async def call(self, name: str, entry: ToolEntry, arguments: dict[str, Any], call: Call) -> Output:
        """Run a tool. Raises `ToolError`s."""
        from jaato.plugins.mcp.results import output_of

        caller = caller_of(call)

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

        async def connected(server: Server) -> Manifest:
            running = server.state == "started"
            connection = await server.connected(patient=False)
            manifest = await connection.refresh() if running else server.manifest
            assert manifest is not None
            return manifest

        return await POOL.run(self._setting(name), self._user, connected)

    def state(self, name: str) -> tuple[str, str]:
        """Where a server stands, and why it failed; asks nobody and starts nothing."""
        config = self.directory.sources[name]
        if config.disabled:
            return "switched off", ""
        if not self.directory.trusts(config):
            return "needs trust", f"`jaato mcp trust {name}`"
        server = POOL.known(config.digest)
        if (server is None or server.connection is None) and self.directory.needs_login(config):
            return "needs login", f"log in with `jaato mcp login {quote(name)}`"
        if server is not None and server.state in ("started", "starting", "failed"):
            return server.state, server.failure
        return ("known" if self.directory.judgement(config) else "configured"), ""

    def leave(self) -> None:
        """Need nothing any more; returns at once."""
        POOL.leave(self._user)


def caller_of(call: Call) -> Caller:
    """The call as one that can be asked back, from the loop it runs on."""
    return Caller(call, call.services.get("clarify"), asyncio.get_running_loop())
