"""The handler `mcp`: a tool of an MCP server that is configured, and trusted, on this machine."""

from __future__ import annotations

from typing import Any

import anyio.to_thread

from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.errors import ServerUnusable
from jaato.plugins.mcp.pool import SessionServers
from jaato.plugins.mcp.tools import access_of
from jaato.protocol.specs import Access
from jaato.server.registry.registered.definition import HandlerForbidden, InvalidDefinition, McpTool
from jaato.tools.call import Call


class Servers:
    """The MCP servers of the registry's operator; one starts with the first call of a tool of it."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self._host = SessionServers(directory, lambda _name: None)

    def check(self, handler: McpTool) -> None:
        """Raise `HandlerForbidden` for a server that is not configured, or not trusted, and `InvalidDefinition` for a tool that it is known
        not to have. Starts nothing."""
        if handler.server not in self.directory.sources:
            self.directory.reload()
        try:
            self.directory.options(handler.server)
            known = self.directory.review(self.directory.entry(handler.server))
        except ServerUnusable as error:
            raise HandlerForbidden(str(error)) from None
        if known is not None and known.tool(handler.tool) is None:
            raise InvalidDefinition([("/handler/tool", f"{handler.tool[:80]!r} is none of {handler.server}")])

    def access(self, handler: McpTool) -> Access:
        """What a call may touch: as the plugin `mcp` has it. Everything, where the server is not known now."""
        config = self.directory.sources.get(handler.server)
        return "execute" if config is None else access_of(config)

    async def call(self, handler: McpTool, arguments: dict[str, Any], call: Call) -> Any:
        """What the server gives for a call. Raises `ToolError`s."""
        entry = await anyio.to_thread.run_sync(self.directory.tool, handler.server, handler.tool)
        if entry is None:
            await self._host.connect(handler.server)
            entry = self.directory.tool(handler.server, handler.tool)
        if entry is None:
            raise ServerUnusable(
                f"The MCP server {handler.server!r} has no tool {handler.tool[:80]!r} to call."
            )
        output = await self._host.call(handler.server, entry, arguments, call)
        return output.structured if output.structured is not None and not output.media else output

    def leave(self) -> None:
        """Need no server any more."""
        self._host.leave()
