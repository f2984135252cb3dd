"""`jaato mcp`: configure MCP servers, list and call their tools, log in to them."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jaato.cli.arguments.values import clean_text
from jaato.cli.exit_codes import ERROR, OK, USAGE, print_message
from jaato.cli.output.console import print_json, print_line, print_rows, printable, visible
from jaato.cli.sources.call import call_tool, parse_arguments
from jaato.cli.sources.source_commands import SourceCommands, parse_pairs
from jaato.errors import ConfigError, JaatoError, PermissionDenied
from jaato.plugins.mcp import manifest
from jaato.plugins.mcp.config import ServerConfig, describe_sandbox, warn_unconfined
from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.manifest import ToolEntry
from jaato.plugins.mcp.pins import ManifestReview, Pins
from jaato.plugins.mcp.pool import SERVER_POOL, SessionServers
from jaato.plugins.mcp.server_log import LogFile
from jaato.plugins.mcp.tools import full_name, make_tool
from jaato.runtime.plugins.setup import sandbox_for
from jaato.settings.budgets import format_count
from jaato.tools.catalog import wire_name
from jaato.tools.remote.fields import JsonObject, Malformed
from jaato.tools.remote.sources import SourceContext

if TYPE_CHECKING:
    from jaato.plugins.mcp.oauth.callback import Ask

BYTES_PER_TOKEN = 4
NEEDS_EXTRA = "MCP servers need the extra mcp: pip install 'jaato[mcp]'."


class McpCommands(SourceCommands[ServerConfig]):
    """The MCP servers of a user and a workspace."""

    plural = "servers"
    verb = "start"
    tools_hint = "tools"
    columns = {
        "name": "SERVER",
        "scope": "SCOPE",
        "kind": "KIND",
        "state": "STATE",
        "era": "ERA",
        "tools": "TOOLS",
        "seen": "SEEN",
        "sandbox": "SANDBOX",
        "target": "WHAT",
    }

    directory: Directory

    def __init__(self, args: Namespace) -> None:
        super().__init__(args, getattr(args, "server", None))
        self._pins = Pins(self.settings.state_dir)
        self.host = SessionServers(self.directory, lambda _name: None)

    def open_directory(self, context: SourceContext) -> Directory:
        """The configured servers."""
        args = self.args
        asks = args.action in ("tools", "call") and (args.login or sys.stderr.isatty())
        sandbox = sandbox_for(self.workspace, self.settings, self.settings.state_dir)
        return Directory(context, ask=login_prompt(context.environ) if asks else None, sandbox=sandbox)

    def find(self) -> ServerConfig:
        """The server of this name, or one for this URL. Raises `ConfigError`."""
        text, sse = self.name, getattr(self.args, "sse", False)
        headers = parse_pairs(getattr(self.args, "header", ()), ":", "--header")
        if "://" not in text:
            if headers or sse:
                raise ConfigError(
                    "--header and --sse are for a URL; those of a server are in its configuration."
                )
            return self.directory.get_configured(text)
        entry = JsonObject([("type", "sse" if sse else "http"), ("url", text), ("headers", headers)])
        name = (urlsplit(text).netloc.rpartition("@")[2] or "url")[:100] if text.isprintable() else "url"
        try:
            config = ServerConfig.parse(name, entry, "argument", Path(text))
        except Malformed as error:
            raise ConfigError(f"The URL {error}.") from None
        self.directory.sources[config.name] = config
        return config

    def entry(self) -> dict[str, Any]:
        """The configuration entry for the arguments of `add`. Raises `ConfigError`."""
        args = self.args
        program = [clean_text(part) or "" for part in args.program]
        if bool(program) == bool(args.url):
            raise ConfigError("Pass either --url URL, or -- and the command that starts the server.")
        env, headers = parse_pairs(args.env, "=", "--env"), parse_pairs(args.header, ":", "--header")
        if args.url:
            if args.sandbox_profile or args.allow_domain or args.add_dir:
                raise ConfigError(
                    "--sandbox-profile, --allow-domain and --add-dir are for a command; a URL starts no process."
                )
            if env or args.cwd:
                raise ConfigError("--env and --cwd are for a command; a URL takes --header.")
            entry: dict[str, Any] = {"type": "sse" if args.sse else "http", "url": args.url}
            return entry | ({"headers": headers} if headers else {})
        if headers or args.sse:
            raise ConfigError("--header and --sse are for a URL; a command takes --env.")
        entry = {"type": "stdio", "command": program[0]}
        entry |= {"args": program[1:]} if program[1:] else {}
        entry |= {"env": env} if env else {}
        entry |= sandbox_entry(args)
        return entry | ({"cwd": clean_text(args.cwd)} if args.cwd else {})

    def print_added(self, config: ServerConfig) -> None:
        """Print the sandbox of the server's process."""
        if config.kind == "stdio":
            print_line(f"sandbox: {describe_sandbox(config)}")
            if text := warn_unconfined(config, self.settings.state_dir):
                print_message(text)

    def changes(self, config: ServerConfig) -> tuple[list[tuple[str, str]], Callable[[], object]]:
        """The definitions that are held back until they are accepted."""
        known = manifest.load(self.settings.cache_dir, config.digest)
        if known is None:
            return [], int
        changes = self._pins.review(config, known).changes
        shown = [
            (f"the {f'{one.kind} {visible(one.name)}'.strip()} is held back: {one.detail}", one.diff)
            for one in changes
        ]
        return shown, partial(self._pins.accept, config, known, changes)

    def forget(self, config: ServerConfig) -> None:
        """Delete the pins, manifest and log of a server."""
        self._pins.forget(config)
        manifest.forget(self.settings.cache_dir, config.digest)
        LogFile(self.settings.state_dir, config).remove()

    async def check(self, config: ServerConfig) -> None:
        """Start a server. Raises `JaatoError`s."""
        await self.host.connect(config.name)

    def row(self, config: ServerConfig, failure: JaatoError | None) -> dict[str, Any]:
        """A server as data; its `tools` are None while they are unknown."""
        state, why = self.host.state(config.name)
        if failure is not None:
            state, why = ("needs login" if failure.code == "login_needed" else "failed"), str(failure)
        judged = self.directory.review(config)
        known = judged.manifest if judged is not None else None
        age_s = known.age_s(time.time()) if known is not None else None
        health = "failed" if failure is not None else "ok"
        is_process = config.kind == "stdio"
        return {
            "name": config.name,
            "scope": config.scope,
            "kind": config.kind,
            "state": state,
            "health": health if self.args.check and state != "needs trust" else None,
            "why": why,
            # without the query, which may contain a secret
            "target": " ".join((config.command, *config.args))
            if is_process
            else config.url.partition("?")[0],
            "sandbox": describe_sandbox(config) if is_process else None,
            "file": str(config.origin),
            "server": server_title(known.server_info) if known else None,
            "era": known.protocol_version if known else None,
            "tools": len(known.tools) if known else None,
            "prompts": len(known.prompts) if known else None,
            "resources": len(known.resources) if known else None,
            "held_back": [change.name for change in judged.changes] if judged else [],
            "dropped": known.dropped if known else [],
            "age_s": round(age_s, 1) if age_s is not None else None,
            "stale": bool(known and known.ttl_s and (age_s or 0) > known.ttl_s),
        }

    def cells(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row as displayed in the table."""
        seen = age_text(row["age_s"]) + (" (stale)" if row["stale"] else "")
        return row | {
            "seen": seen,
            "sandbox": (row["sandbox"] or "-").partition(":")[0],
            "era": row["era"] or "-",
        }

    def remarks(self, row: dict[str, Any]) -> list[str]:
        """What the user must know of a server besides the table."""
        found = super().remarks(row) if row["state"] in ("failed", "needs login", "needs trust") else []
        if row["held_back"]:
            names = ", ".join(repr(name) for name in row["held_back"][:5])
            command = f"`jaato mcp trust {row['name']}`"
            found.append(f"held back until you accept them with {command}: {names or 'its instructions'}")
        return found + [f"left out: {text}" for text in row["dropped"][:5]]

    async def fetch(self, config: ServerConfig, *, refresh: bool) -> ManifestReview:
        """The tools of a server, which is started when they are not cached. Raises `PermissionDenied` for one that is not
        trusted, `ToolError`s."""
        if not config.disabled:
            self.directory.check_trust(config)
        if refresh or self.directory.review(config) is None:
            await self.host.connect(config.name)
        found = self.directory.review(config)
        if found is None:
            raise ConfigError(f"{config.origin} changed in the meantime; try again.")
        return found


def main(args: Namespace) -> int:
    """Run one action."""
    commands = McpCommands(args)
    try:
        match args.action:
            case "list":
                return list_servers(commands)
            case "add":
                return commands.add()
            case "remove":
                return commands.remove()
            case "trust":
                return commands.trust()
            case "logs":
                return logs(commands)
            case "login" | "logout":
                config = commands.find()
                check_login(commands, config)
                return commands.run(lambda: login(commands, config))
            case "call":
                config, arguments = commands.find(), parse_arguments(args.arguments)
                return commands.run(lambda: call(commands, config, arguments))
        servers = [commands.find()] if commands.name else list(commands.directory.sources.values())
        return commands.run(lambda: list_tools(commands, servers))
    finally:
        commands.host.leave()
        SERVER_POOL.close()


def login_prompt(environ: Mapping[str, str]) -> Ask:
    """Prints where to log in."""
    from jaato.plugins.mcp.oauth.callback import browser_prompt

    def write(text: str) -> None:
        sys.stderr.write(printable(text))
        sys.stderr.flush()

    return browser_prompt(write, environ)


def sandbox_entry(args: Namespace) -> dict[str, Any]:
    """The sandbox of a configuration entry, from the arguments of `add`."""
    domains = [clean_text(one) or "" for one in args.allow_domain]
    paths = [os.path.abspath(os.path.expanduser(clean_text(one) or "")) for one in args.add_dir]
    if not (args.sandbox_profile or domains or paths):
        return {}
    sandbox: dict[str, Any] = {"profile": args.sandbox_profile or "workspace-write"}
    sandbox |= {"domains": domains} if domains else {}
    return {"sandbox": sandbox | ({"paths": paths} if paths else {})}


def list_servers(commands: McpCommands) -> int:
    """List all servers, and warn of those without a sandbox."""
    code = commands.run(commands.list_all)
    if not commands.args.json:
        if commands.directory.sources and find_spec("mcp") is None:
            print_message(NEEDS_EXTRA)
        for config in commands.directory.sources.values():
            if text := warn_unconfined(config, commands.settings.state_dir):
                print_message(text)
    return code


def server_title(info: dict[str, Any]) -> str:
    """The name and version that a server reports."""
    return " ".join(str(info[key])[:200] for key in ("name", "version") if info.get(key))


def age_text(age_s: float | None) -> str:
    """An age, such as `3 h ago`."""
    if age_s is None:
        return "never"
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if age_s >= seconds:
            return f"{age_s // seconds:.0f} {unit} ago"
    return "now"


def logs(commands: McpCommands) -> int:
    """Print the last lines of a server's stderr output."""
    config = commands.directory.get_configured(commands.name)
    file = LogFile(commands.settings.state_dir, config)
    text = file.tail(commands.args.lines)
    if text:
        print_line(text)
    else:
        print_message(f"{config.name} has printed nothing on stderr yet; its log is {file.path}")
    return OK


def check_login(commands: McpCommands, config: ServerConfig) -> None:
    """Raise `ConfigError` for a server without login, `PermissionDenied` for one that is not trusted."""
    if find_spec("mcp") is None:
        raise ConfigError(NEEDS_EXTRA)
    if config.kind == "stdio":
        raise ConfigError(
            f"{config.name} runs on this machine and has no login; pass it a key in an environment variable: "
            f"`jaato mcp add {config.name} --replace --env NAME='${{NAME}}' -- …`."
        )
    commands.directory.check_trust(config)


async def login(commands: McpCommands, config: ServerConfig) -> int:
    """Log in or out."""
    from jaato.plugins.mcp.http_transport import make_allowed_hosts
    from jaato.plugins.mcp.oauth.login import login, logout
    from jaato.plugins.mcp.oauth.token_store import open_store

    filled = commands.directory.options(config.name).config
    if any(name.lower() == "authorization" for name in filled.headers):
        print_message(
            f"{config.name} has an Authorization header in its configuration; a login would not be used."
        )
        return USAGE
    store, environ = open_store(commands.settings.state_dir), commands.settings.environ
    allowed = make_allowed_hosts(filled, commands.directory.context.allow_hosts)
    if commands.args.action == "logout":
        print_line(await logout(filled, store, environ=environ, allowed=allowed))
        return OK
    state = await login(filled, store, login_prompt(environ), environ=environ, allowed=allowed)
    scope = f" for {', '.join(state.scope)}" if state.scope else ""
    until = ""
    if state.expires_at is not None and not state.renews:
        until = f" until {time.strftime('%Y-%m-%d %H:%M', time.localtime(state.expires_at))}"
    print_line(f"logged in to {config.name} at {state.issuer}{scope}{until}")
    return OK


async def list_tools(commands: McpCommands, servers: list[ServerConfig]) -> int:
    """Print the tools of servers with their size in tokens; a failing server does not prevent the others."""
    args = commands.args
    rows: list[dict[str, Any]] = []
    code = OK
    for config in servers:
        if config.disabled and not args.server:
            continue
        try:
            found = await commands.fetch(config, refresh=args.refresh or config.scope == "argument")
        except JaatoError as error:
            if args.server:
                raise
            print_message(str(error))
            code = ERROR
            continue
        rows += [tool_row(config, entry) for entry in found.manifest.tools]
        for change in found.changes:
            print_message(change.why(args.server or config.name))
        for text in found.manifest.dropped[:20]:
            print_message(f"{config.name}: left out: {text}")
    if args.json:
        print_json(rows)
        return code
    print_rows((str(row["tokens"]), row["server"], row["name"], row["summary"]) for row in rows)
    total = sum(row["tokens"] for row in rows)
    print_line(
        f"{format_count(len(rows), 'tool')}, {format_count(total, 'token')} if all are declared; tools are declared on demand "
        "(estimate: 4 bytes per token)"
    )
    return code


def tool_row(config: ServerConfig, entry: ToolEntry) -> dict[str, Any]:
    """A tool as data."""
    name = wire_name(full_name(config.name, entry.name))
    declared = {"name": name, "description": entry.description, "parameters": entry.input_schema}
    return {
        "server": config.name,
        "name": entry.name,
        "as": name,
        "tokens": -(-len(json.dumps(declared, ensure_ascii=False).encode()) // BYTES_PER_TOKEN),
        "title": entry.title,
        "description": entry.description,
        "summary": (entry.description or entry.title).strip().split("\n", 1)[0].split(". ", 1)[0],
        "parameters": entry.input_schema,
        "output": entry.output_schema,
        "annotations": entry.annotations,
    }


async def call(commands: McpCommands, config: ServerConfig, arguments: dict[str, Any]) -> int:
    """Call a tool. Raises `ConfigError` for an unknown tool, `PermissionDenied` for one that is held back."""
    name = commands.args.tool
    found = await commands.fetch(config, refresh=config.scope == "argument")
    if found.tool(name) is None and config.scope != "argument" and name not in found.disabled:
        found = await commands.fetch(config, refresh=True)
    entry = found.tool(name)
    if entry is None:
        why = found.missing(commands.name, name)
        raise PermissionDenied(why) if name in found.disabled else ConfigError(why)
    tool = make_tool(config, entry, commands.host.call)
    return await call_tool(commands, tool, arguments, stream=True, ask=True)
