"""The plugin `mcp`: the tools of all known servers, and tools to reach their resources, prompts and the servers themselves."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import anyio

from jaato.abc.plugin import Host as PluginHost
from jaato.abc.plugin import Plugin
from jaato.errors import ToolError
from jaato.log import logger
from jaato.plugins.mcp.config import FILE
from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.errors import ServerUnusable
from jaato.plugins.mcp.tools import BACKGROUND_AFTER_S, full_name, not_taken, tools_from
from jaato.tools.call import Call, Output
from jaato.tools.catalog import wire_name
from jaato.tools.host_services import trust_of
from jaato.tools.processes.sandbox.sandbox import sandbox_of
from jaato.tools.remote.directory import host_context
from jaato.tools.tool import Tool, tool

if TYPE_CHECKING:
    from jaato.plugins.mcp.manifest import ToolEntry
    from jaato.plugins.mcp.pool import SessionServers

LOG = logger("mcp")
MEET_WITHIN_S = 30.0
MAX_MET = 20
"""Servers that are started together only to learn what they offer."""


class MCPToolPlugin(Plugin):
    """Servers of the Model Context Protocol: their tools join the catalogue, and start them when first used."""

    name: ClassVar[str] = "mcp"
    looks_at: ClassVar[tuple[str, ...]] = (".mcp.json", "~/.mcp.json")

    def __init__(self, host: PluginHost) -> None:
        super().__init__(host)
        self.directory = open_directory(host)
        self._offered: dict[str, list[Tool]] = {}

    def offered(self) -> list[Tool]:
        """The tools of every server of which something is known."""
        try:
            self.host.service("catalog").strangers[self.name] = self.meet
        except KeyError:
            pass
        for config in self.directory.sources.values():
            if not config.disabled:
                self._offered[config.name] = self._tools_of(config.name)
        return [tool for tools in self._offered.values() for tool in tools]

    def _tools_of(self, name: str) -> list[Tool]:
        config = self.directory.sources[name]
        judged = self.directory.judgement(config)
        if judged is None:
            return []
        others = [tool for one, tools in self._offered.items() if one != name for tool in tools]
        return not_taken(tools_from(config, judged.manifest, self._call), others)

    def _changed(self, name: str) -> None:
        """A server offers something else than it did; on the pool's thread."""
        old, new = self._offered.get(name, []), self._tools_of(name)
        self._offered[name] = new
        try:
            renew = self.host.service("registry").renew
        except KeyError:
            return
        renew(self.name, old, new)

    async def meet(self) -> None:
        """Start each server of which nothing is known, to learn what it offers; one that fails is reported in the log."""
        unknown = [
            config.name
            for config in self.directory.sources.values()
            if not config.disabled
            and self.directory.trusts(config)
            and self.directory.judgement(config) is None
        ]

        async def connect(name: str) -> None:
            try:
                with anyio.fail_after(MEET_WITHIN_S):
                    await self.servers.connect(name)
            except TimeoutError:
                LOG.warning("MCP server '%s' has not said in %g s what it offers", name, MEET_WITHIN_S)
            except ToolError as error:
                LOG.warning("%s", error)

        async with anyio.create_task_group() as tasks:
            for name in unknown[:MAX_MET]:
                tasks.start_soon(connect, name)

    @functools.cached_property
    def servers(self) -> SessionServers:
        """The servers at work; nothing of them is loaded before one is used."""
        from jaato.plugins.mcp.pool import SessionServers

        return SessionServers(self.directory, self._changed)

    async def _call(self, server: str, entry: ToolEntry, arguments: dict[str, Any], call: Call) -> Output:
        return await self.servers.call(server, entry, arguments, call)

    def shutdown(self) -> None:
        """Let go of the servers; those nobody else uses end."""
        if "servers" in self.__dict__:
            self.servers.leave()

    def _meant(self, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """The known tool that a call of call_mcp_tool is: its own permissions and schema count."""
        server, name = arguments.get("server"), arguments.get("tool")
        for one in self._offered.get(str(server), ()):
            if full_name(str(server), str(name)) in (one.name, one.original_name):
                return one.name, arguments.get("args") or {}
        return None

    @tool(category="MCP", access="execute", background_after_s=BACKGROUND_AFTER_S, means="_meant")
    async def call_mcp_tool(
        self, server: str, tool: str, args: dict[str, Any] | None = None, *, call: Call
    ) -> Output:
        """Call a tool of an MCP server by its own name, also when the server is not known yet. A known tool is better
        activated and called as mcp__SERVER__TOOL, with its schema in view."""
        entry = self._entry(server, tool)
        if entry is None:
            await self.servers.connect(server)
            entry = self._entry(server, tool)
            if entry is not None and call.door in ("model", "mcp"):
                name = wire_name(full_name(server, tool))
                raise ServerUnusable(
                    f"The MCP server {server!r} is known now: call call_mcp_tool again, or {name}."
                )
        if entry is None:
            judged = self.directory.judgement(self.directory.entry(server))
            unknown = f"The MCP server {server!r} has not said what it offers."
            raise ServerUnusable(judged.missing(server, tool) if judged else unknown)
        return await self.servers.call(server, entry, args or {}, call)

    @tool(category="MCP", access="read")
    def mcp_servers(self) -> dict[str, Any]:
        """List the MCP servers: how each stands (configured, known, started, failed, needs login, needs trust), what it
        offers, and what is held back and why. Starts nothing."""
        from jaato.plugins.mcp.listing import list_servers

        return list_servers(self.directory, self.servers)

    @tool(category="MCP", access="execute")
    async def mcp_connect(self, server: str) -> dict[str, Any]:
        """Start an MCP server, or ask a running one anew, so that its tools can be searched; also right after it
        failed. Returns what it offers."""
        await self.servers.connect(server)
        from jaato.plugins.mcp.listing import describe_server

        return describe_server(self.directory, self.servers, server)

    @tool(category="MCP", access="read")
    def mcp_resources(self, server: str | None = None, query: str = "", limit: int = 50) -> dict[str, Any]:
        """List resources and resource templates that known MCP servers offer, by server and text. mcp_read_resource
        reads one; mcp_connect asks a server anew."""
        from jaato.plugins.mcp.listing import list_resources

        return list_resources(self.directory, server, query, limit)

    @tool(category="MCP", access="network")
    async def mcp_read_resource(self, server: str, uri: str, *, call: Call) -> Output:
        """Read one resource of an MCP server by its URI, templates filled in. Returns text, or images and files behind
        handles."""
        from jaato.plugins.mcp.pool import call_context
        from jaato.plugins.mcp.results import resource_output

        caller = call_context(call)
        read = await self.servers.ask(server, lambda connection: connection.read(uri, caller))
        return resource_output(read, call)

    @tool(category="MCP", access="read")
    def mcp_prompts(self, server: str | None = None) -> dict[str, Any]:
        """List the prompts that known MCP servers offer, with their arguments. mcp_get_prompt fills one in."""
        from jaato.plugins.mcp.listing import list_prompts

        return list_prompts(self.directory, server)

    @tool(category="MCP", access="network")
    async def mcp_get_prompt(
        self, server: str, name: str, arguments: dict[str, str] | None = None, *, call: Call
    ) -> Output:
        """Get a prompt of an MCP server with its arguments filled in. Returns its messages as text; they are the
        server's words, not the user's."""
        from jaato.plugins.mcp.listing import check_prompt
        from jaato.plugins.mcp.pool import call_context
        from jaato.plugins.mcp.results import prompt_output

        check_prompt(self.directory, server, name)
        caller = call_context(call)
        got = await self.servers.ask(
            server, lambda connection: connection.prompt(name, arguments or {}, caller)
        )
        return prompt_output(got, call)

    @tool(category="MCP", access="network")
    async def mcp_complete(
        self, server: str, argument: str, value: str, prompt: str | None = None, template: str | None = None
    ) -> list[str]:
        """Ask an MCP server what an argument of one of its prompts or resource templates may be, given how it begins.
        Returns at most 100 values."""
        if (prompt is None) == (template is None):
            raise ToolError("Say which: prompt (its name) or template (its URI).")
        reference = {"name": prompt} if prompt is not None else {"uri": template or ""}
        asked = {"name": argument, "value": value}
        return await self.servers.ask(server, lambda connection: connection.complete(reference, asked))

    def _entry(self, server: str, name: str) -> ToolEntry | None:
        judged = self.directory.judgement(self.directory.entry(server))
        return judged.tool(name) if judged else None


def open_directory(host: PluginHost) -> Directory:
    """The servers of a plugin's session."""
    context = host_context(host)
    trust = trust_of(host, context.state_dir, [context.home / FILE])
    return Directory(replace(context, trust=trust), sandbox=sandbox_of(host))
