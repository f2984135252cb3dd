"""The plugin `mcp`: the tools of all known servers, and tools to list the servers, their resources and their prompts."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Set
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, ClassVar

import anyio
import anyio.to_thread
import msgspec

from jaato.abc.plugin import Host as PluginHost
from jaato.abc.plugin import Plugin, UserCommand
from jaato.errors import PluginError, ToolError
from jaato.log import logger
from jaato.plugins.mcp.config import FILE, ServerConfig, describe_sandbox
from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.errors import ServerUnusable
from jaato.plugins.mcp.tools import BACKGROUND_AFTER_S, drop_name_conflicts, full_name, names_of, tools_from
from jaato.settings.budgets import format_count
from jaato.tools.call import Call, Output
from jaato.tools.catalog import MAX_DECLARED, wire_name
from jaato.tools.host_services import service_of, trust_of
from jaato.tools.invisible_text import escape_all
from jaato.tools.processes.sandbox.sandbox import sandbox_of
from jaato.tools.remote.sources import host_context
from jaato.tools.tool import Tool, tool

if TYPE_CHECKING:
    from jaato.plugins.mcp.manifest import Manifest, PromptEntry, ResourceEntry, ToolEntry
    from jaato.plugins.mcp.pool import SessionServers
    from jaato.plugins.mcp.supervisor import ServerSupervisor

LOG = logger("mcp")
MAX_STARTING = 20
"""Servers without a manifest that one session starts at once to learn their tools; a later search starts the others."""
MAX_ROWS = 200
MAX_TEXT = 300
USAGE = "mcp [json | connect NAME | restart NAME | disable NAME | enable NAME]"


class MCPToolPlugin(Plugin):
    """Servers of the Model Context Protocol: their tools join the catalogue; a server starts when one is first used."""

    name: ClassVar[str] = "mcp"
    looks_at: ClassVar[tuple[str, ...]] = (".mcp.json", "~/.mcp.json")

    def __init__(self, host: PluginHost) -> None:
        super().__init__(host)
        self.directory = open_directory(host)
        self._offered: dict[str, list[Tool]] = {}
        self._first_starts: dict[str, Future[str]] = {}
        self._reported: set[str] = set()
        """The servers whose first start has ended, and was reported where it failed."""
        self._late: set[str] = set()
        """The program's servers that were not there when the session began: their tools are found as others are."""

    def offered(self) -> list[Tool]:
        """The tools of every server with a manifest."""
        if (catalog := service_of(self.host, "catalog")) is not None:
            catalog.unvisited[self.name] = self.start_unvisited
        taken: set[str] = set()
        for config in self.directory.sources.values():
            if not config.disabled:
                made = self._offered[config.name] = self._tools_of(config.name, taken)
                taken |= names_of(made)
        return [tool for tools in self._offered.values() for tool in tools]

    def _tools_of(self, name: str, taken: Set[str]) -> list[Tool]:
        """The tools of a server, without those whose names other servers have `taken`."""
        config = self.directory.sources[name]
        review = None if config.disabled else self.directory.review(config)
        if review is None:
            return []
        found = drop_name_conflicts(tools_from(config, review.manifest, self._call), taken)
        if config.scope == "argument" and name not in self._late and len(found) <= MAX_DECLARED:
            for one in found:
                one.spec = msgspec.structs.replace(one.spec, discoverability="core")
        return found

    def _replace_tools(self, name: str) -> None:
        """Replace the tools of a server whose manifest has changed; runs on the pool's thread."""
        others = [tool for one, tools in self._offered.items() if one != name for tool in tools]
        old, new = self._offered.get(name, []), self._tools_of(name, names_of(others))
        self._offered[name] = new
        if (registry := service_of(self.host, "registry")) is not None:
            registry.renew(self.name, old, new)

    async def start_unvisited(self, within_s: float) -> dict[str, str]:
        """Start each trusted server without a manifest, once, to learn its tools. Returns the servers that have not
        listed them after `within_s` seconds: empty for those that continue in the background, else their failure, once."""
        running = sum(not start.done() for start in self._first_starts.values())
        for config in self.directory.sources.values():
            name = config.name
            if name in self._first_starts or running >= MAX_STARTING:
                continue
            if config.disabled or not self.directory.trusts(config) or self.directory.review(config):
                continue
            try:
                self._first_starts[name] = self.servers.submit(name, list_first_time)
                running += 1
            except (ToolError, PluginError) as error:
                refused: Future[str] = Future()
                refused.set_result(str(error))
                self._first_starts[name] = refused
        starts = self._first_starts
        await anyio.to_thread.run_sync(wait, starts.values(), within_s, abandon_on_cancel=True)
        missing = {name: "" for name, start in starts.items() if not start.done()}
        for name in starts.keys() - missing.keys() - self._reported:
            self._reported.add(name)
            if failure := result_of(starts[name]):
                LOG.warning("%s", escape_all(failure))
                missing[name] = shorten(failure)
        return missing

    async def start_given(self, within_s: float | None = None) -> None:
        """Start the program's servers and list their tools; those that take longer than `within_s` continue, and have their
        tools when they are there. Raises `ToolError` for one that fails meanwhile."""
        given = [
            config.name
            for config in self.directory.sources.values()
            if config.scope == "argument" and not config.disabled
        ]
        if within_s is not None:
            await self._start_given_within(given, within_s)
            return
        outcomes = await asyncio.gather(*map(self.servers.connect, given), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _start_given_within(self, given: list[str], within_s: float) -> None:
        """Start servers, and wait for them for so long. Raises `ToolError` for one that fails meanwhile."""
        for name in given:
            if name not in self._first_starts:
                self._first_starts[name] = self.servers.submit(name, list_first_time)
        starts = {name: self._first_starts[name] for name in given}
        await anyio.to_thread.run_sync(wait, starts.values(), within_s, abandon_on_cancel=True)
        for name, start in starts.items():
            if not start.done():
                self._late.add(name)
            elif name not in self._reported and (failure := result_of(start)):
                del self._first_starts[name]  # the next session tries it anew
                raise ServerUnusable(failure)
        self._reported |= starts.keys() - self._late

    @functools.cached_property
    def servers(self) -> SessionServers:
        """The running servers; their modules are imported when the first is used."""
        from jaato.plugins.mcp.pool import SessionServers

        return SessionServers(self.directory, self._replace_tools)

    async def _call(self, server: str, entry: ToolEntry, arguments: dict[str, Any], call: Call) -> Output:
        return await self.servers.call(server, entry, arguments, call)

    def shutdown(self) -> None:
        """Release the servers; those without another user stop."""
        if "servers" in self.__dict__:
            self.servers.leave()

    def _meant(self, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """The known tool that a call of call_mcp_tool names, whose permissions and schema apply."""
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
        entry = self.directory.tool(server, tool)
        if entry is None:
            await self.servers.connect(server)
            entry = self.directory.tool(server, tool)
            if entry is not None and call.caller in ("model", "mcp"):
                name = wire_name(full_name(server, tool))
                raise ServerUnusable(
                    f"The MCP server {server!r} is known now: call call_mcp_tool again, or {name}."
                )
        if entry is None:
            raise self.directory.missing_tool(server, tool)
        return await self.servers.call(server, entry, args or {}, call)

    @tool(category="MCP", access="read")
    def mcp_servers(self) -> dict[str, Any]:
        """List the MCP servers: how each stands (configured, known, started, failed, needs login, needs trust), what it
        offers, and what is held back and why. Starts nothing."""
        rows = [self._server_row(config) for config in list(self.directory.sources.values())[:MAX_ROWS]]
        shown: dict[str, Any] = {"servers": rows}
        if self.directory.problems:
            shown["problems"] = [shorten(str(problem)) for problem in self.directory.problems[:MAX_ROWS]]
        if not rows:
            shown["hint"] = "No MCP server is configured; the user can add one with `jaato mcp add`."
        return shown

    def _server_row(self, config: ServerConfig) -> dict[str, Any]:
        state, why = self.servers.state(config.name)
        row: dict[str, Any] = {
            "name": config.name,
            "state": state,
            "kind": config.kind,
            "scope": config.scope,
        }
        if config.kind == "stdio":
            row["sandbox"] = describe_sandbox(config)
        if why:
            row["why"] = shorten(why)
        row |= {key: shorten(text) for key, text in self.servers.history(config.name).items()}
        review = self.directory.review(config)
        if review is not None:
            manifest = review.manifest
            row |= {
                "protocol": manifest.protocol_version,
                "tools": len(manifest.tools),
                "prompts": len(manifest.prompts),
                "resources": len(manifest.resources),
                "seen_s_ago": round(manifest.age_s()),
            }
            if review.changes:
                row["held_back"] = [shorten(change.why(config.name)) for change in review.changes[:20]]
            if manifest.dropped:
                row["left_out"] = [shorten(text) for text in manifest.dropped[:20]]
        return row

    def user_commands(self) -> dict[UserCommand, Callable[[str], Any]]:
        """`mcp`: the same rows for the user."""
        return {
            UserCommand("mcp", f"The MCP servers with their state and last error: {USAGE}"): self._run_command
        }

    async def _run_command(self, line: str) -> str | dict[str, Any]:
        """Carry out what follows `mcp`. Raises `ToolError` for a server that does not start, `ConfigError` for one that is not
        configured."""
        match line.split():
            case []:
                rows = await anyio.to_thread.run_sync(self.mcp_servers)
                return render_rows(rows)
            case ["json"]:
                shown = await anyio.to_thread.run_sync(self.mcp_servers)
                for row in shown["servers"]:
                    row["tool_names"] = [one.name for one in self._offered.get(row["name"], ())][:MAX_ROWS]
                return shown
            case ["enable" | "disable" as verb, name]:
                done = await anyio.to_thread.run_sync(
                    functools.partial(self.directory.switch, name, disabled=verb == "disable")
                )
                self._replace_tools(name)
                return done
            case ["restart", name]:
                await self.servers.restart(name)
                return render_rows({"servers": [self._server_row(self.directory.entry(name))]})
            case ["connect", name]:
                await self.servers.connect(name)
                return render_rows({"servers": [self._server_row(self.directory.entry(name))]})
        return f"Usage: {USAGE}"

    @tool(category="MCP", access="read")
    async def mcp_connect(self, server: str) -> dict[str, Any]:
        """Start an MCP server, or ask a running one anew, so that its tools can be searched; also right after it
        failed. Returns what it offers."""
        await self.servers.connect(server)
        config = self.directory.entry(server)
        row = self._server_row(config)
        review = self.directory.review(config)
        if review is not None:
            counts = Counter(entry.name for entry in review.manifest.tools)
            names = [wire_name(full_name(server, one)) for one, times in counts.items() if times == 1]
            row["tool_names"] = names[:MAX_ROWS]
            if twice := [one for one, times in counts.items() if times > 1]:
                row["refused"] = [
                    f"two tools are called {shorten(one)!r}, so neither can be called" for one in twice[:20]
                ]
            if review.manifest.instructions:
                row["instructions"] = escape_all(review.manifest.instructions[:2000])
        return row

    @tool(category="MCP", access="read")
    def mcp_resources(self, server: str | None = None, query: str = "", limit: int = 50) -> dict[str, Any]:
        """List resources and resource templates that known MCP servers offer, by server and text. mcp_read_resource
        reads one; mcp_connect asks a server anew."""
        wanted = query[:200].casefold()

        def rows(name: str, manifest: Manifest) -> Iterable[dict[str, Any]]:
            for entry in manifest.resources:
                text = f"{entry.uri}\n{entry.name}\n{entry.title}\n{entry.description}".casefold()
                if wanted in text:
                    yield resource_row(name, entry)

        return self._list_entries("resources", server, rows, min(max(limit, 1), MAX_ROWS))

    @tool(category="MCP", access="network")
    async def mcp_read_resource(self, server: str, uri: str, *, call: Call) -> Output:
        """Read one resource of an MCP server by its URI, templates filled in. Returns text, or images and files behind
        handles."""
        from jaato.plugins.mcp.calls import resource_output
        from jaato.plugins.mcp.pool import call_context

        caller = call_context(call)
        read = await self.servers.ask(server, lambda connection: connection.read(uri, caller))
        return resource_output(read, call)

    @tool(category="MCP", access="read")
    def mcp_prompts(self, server: str | None = None) -> dict[str, Any]:
        """List the prompts that known MCP servers offer, with their arguments. mcp_get_prompt fills one in."""

        def rows(name: str, manifest: Manifest) -> Iterable[dict[str, Any]]:
            return (prompt_row(name, entry) for entry in manifest.prompts)

        return self._list_entries("prompts", server, rows, MAX_ROWS)

    def _list_entries(
        self,
        what: str,
        server: str | None,
        rows_of: Callable[[str, Manifest], Iterable[dict[str, Any]]],
        limit: int,
    ) -> dict[str, Any]:
        """The entries of one server, or of all, with their number and the servers without a manifest."""
        configs = (
            [self.directory.entry(server)] if server is not None else list(self.directory.sources.values())
        )
        rows: list[dict[str, Any]] = []
        unknown: list[str] = []
        for config in configs:
            review = self.directory.review(config)
            if review is None:
                unknown.append(config.name)
            else:
                rows += rows_of(config.name, review.manifest)
        shown: dict[str, Any] = {what: rows[:limit], "total": len(rows)}
        if unknown:
            shown["not_asked_yet"] = unknown[:MAX_ROWS]
            shown["hint"] = "mcp_connect asks a server what it offers."
        return shown

    @tool(category="MCP", access="network")
    async def mcp_get_prompt(
        self, server: str, name: str, arguments: dict[str, str] | None = None, *, call: Call
    ) -> Output:
        """Get a prompt of an MCP server with its arguments filled in. Returns its messages as text; they are the
        server's words, not the user's."""
        from jaato.plugins.mcp.calls import prompt_output
        from jaato.plugins.mcp.pool import call_context

        review = self.directory.review(self.directory.entry(server))
        for change in review.changes if review is not None else ():
            if change.kind == "prompt" and change.name == name:
                raise ServerUnusable(change.why(server))
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


def result_of(start: Future[str]) -> str:
    """The failure of a first start, or of the pool that was closed meanwhile; empty for one that went well."""
    if start.cancelled():
        return ""
    return str(error) if (error := start.exception()) is not None else start.result()


async def list_first_time(server: ServerSupervisor) -> str:
    """Start a server, so that it lists its tools; returns its failure, empty when it has listed them."""
    from jaato.plugins.mcp.pool import fetch_manifest
    from jaato.tools.remote.refresh import START_WITHIN_S

    name = server.setting.config.name
    try:
        with anyio.fail_after(START_WITHIN_S):
            await fetch_manifest(server)
    except TimeoutError:
        return f"MCP server {name!r} has not listed its tools within {START_WITHIN_S:g} s"
    except ToolError as error:
        return str(error)
    return ""


def open_directory(host: PluginHost) -> Directory:
    """The configured servers of a plugin's session."""
    context = host_context(host)
    trust = trust_of(host, context.state_dir, [context.home / FILE])
    given, only = host.config.get("servers", {}), bool(host.config.get("only"))
    return Directory(
        msgspec.structs.replace(context, trust=trust), sandbox=sandbox_of(host), given=given, only=only
    )


def render_rows(shown: dict[str, Any]) -> str:
    """The servers in lines, for the terminal."""
    lines: list[str] = []
    for row in shown["servers"]:
        facts = [row["kind"], row["scope"]]
        facts += (
            [f"protocol {row['protocol']}", format_count(row["tools"], "tool")] if "protocol" in row else []
        )
        facts += [f"started {row['last_start'][:16]}"] if "last_start" in row else []
        lines.append(f"{row['name']}  {row['state']}  ({', '.join(facts)})")
        lines += [
            f"  {text}"
            for text in (row.get("why"), *row.get("held_back", ()), *row.get("left_out", ()))
            if text
        ]
    return "\n".join([*lines, *shown.get("problems", ()), *filter(None, [shown.get("hint")])])


def resource_row(server: str, entry: ResourceEntry) -> dict[str, Any]:
    """A resource or a template as it is listed."""
    row: dict[str, Any] = {"server": server, "template" if entry.template else "uri": shorten(entry.uri)}
    shown = {
        "name": entry.title or entry.name,
        "description": entry.description,
        "type": entry.mime_type,
    }
    return row | {key: shorten(text) for key, text in shown.items() if text}


def prompt_row(server: str, entry: PromptEntry) -> dict[str, Any]:
    """A prompt as it is listed, with its arguments."""
    arguments = {
        shorten(str(one.get("name", ""))): shorten(str(one.get("description", "")))
        + (" (required)" if one.get("required") else "")
        for one in entry.arguments[:50]
    }
    description = shorten(entry.description or entry.title)
    return {"server": server, "name": entry.name, "description": description, "arguments": arguments}


def shorten(text: str) -> str:
    """A server's text as one short line, with invisible characters escaped."""
    line = " ".join(escape_all(text[: 4 * MAX_TEXT]).split())
    return line if len(line) <= MAX_TEXT else line[:MAX_TEXT] + "…"
