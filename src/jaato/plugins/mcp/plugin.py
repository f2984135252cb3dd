"""The plugin `mcp`: the tools of all known servers, and tools to reach their resources, prompts and the servers themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from jaato import settings
from jaato.abc.plugin import Host as PluginHost
from jaato.abc.plugin import Plugin
from jaato.plugins.mcp.directory import Directory, Places
from jaato.plugins.mcp.faults import ServerUnusable
from jaato.plugins.mcp.host import Host, caller_of
from jaato.plugins.mcp.tools import full_name, tools_from
from jaato.tools.call import Call, Output
from jaato.tools.catalog import wire_name
from jaato.tools.reach import environ_of
from jaato.tools.tool import Tool, tool

MAX_ROWS = 200


class MCPToolPlugin(Plugin):
    """Servers of the Model Context Protocol: their tools join the catalogue, and start them when first used."""

    name: ClassVar[str] = "mcp"
    looks_at: ClassVar[tuple[str, ...]] = (".mcp.json", "~/.mcp.json")

    def __init__(self, host: PluginHost) -> None:
        super().__init__(host)
        self.directory = Directory(places_of(host))
        self.servers = Host(self.directory, self._changed)
        self._offered: dict[str, list[Tool]] = {}

    def offered(self) -> list[Tool]:
        """The tools of every server of which something is known."""
        for config in self.directory.servers.values():
            if not config.disabled:
                self._offered[config.name] = self._tools_of(config.name)
        return [tool for tools in self._offered.values() for tool in tools]

    def _tools_of(self, name: str) -> list[Tool]:
        config = self.directory.servers[name]
        judged = self.directory.judgement(config)
        return [] if judged is None else tools_from(config, judged.manifest, self.servers.call)

    def _changed(self, name: str) -> None:
        """A server offers something else than it did; on the pool's thread."""
        old, new = self._offered.get(name, []), self._tools_of(name)
        self._offered[name] = new
        try:
            renew = self.host.service("registry").renew
        except KeyError:
            return
        renew(self.name, old, new)

    def shutdown(self) -> None:
        """Let go of the servers; those nobody else uses end."""
        self.servers.leave()

    @tool(category="MCP", access="execute")
    async def call_mcp_tool(
        self, server: str, tool: str, args: dict[str, Any] | None = None, *, call: Call
    ) -> Output:
        """Call a tool of an MCP server by its own name, also one that is not known yet. Tools that are known are better
        activated and called as mcp__SERVER__TOOL."""
        entry = self._entry(server, tool)
        if entry is None:
            await self.servers.connect(server)
            entry = self._entry(server, tool)
        if entry is None:
            judged = self.directory.judgement(self.directory.entry(server))
            held = judged.disabled.get(tool) if judged else None
            if held is not None:
                raise ServerUnusable(held.why(server))
            names = ", ".join(one.name for one in judged.manifest.tools[:50]) if judged else ""
            raise ServerUnusable(f"The MCP server {server!r} has no tool {tool!r}; it has {names or 'none'}.")
        return await self.servers.call(server, entry, args or {}, call)

    def _entry(self, server: str, name: str) -> Any:
        judged = self.directory.judgement(self.directory.entry(server))
        found = [one for one in judged.manifest.tools if one.name == name] if judged else []
        return found[0] if len(found) == 1 else None


def places_of(host: PluginHost) -> Places:
    """Where the user's files are."""
    environ = environ_of(host)
    home = Path(environ.get("HOME") or Path("~").expanduser())
    try:
        known = host.service("settings")
        state_dir, cache_dir = known.state_dir, known.cache_dir
    except KeyError:
        state_dir = settings.user_dir(environ, "XDG_STATE_HOME", ".local/state")
        cache_dir = settings.user_dir(environ, "XDG_CACHE_HOME", ".cache")
    return Places(host.workspace, home, state_dir, cache_dir, environ)
