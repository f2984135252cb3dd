"""`jaato mcp`: the servers that are configured, and what may become of them."""

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
from jaato.cli.ending import ERROR, OK, USAGE, say
from jaato.cli.output.tables import print_json, print_line, print_rows
from jaato.cli.output.terminal import printable, visible
from jaato.cli.sources import edit
from jaato.cli.sources.call import arguments_of, call_tool
from jaato.cli.sources.sources import SourceCommands, list_sources, pairs
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
from jaato.tools.catalog import wire_name
from jaato.tools.remote.fields import JsonObject, Malformed
from jaato.tools.remote.sources import SourceContext

if TYPE_CHECKING:
    from jaato.plugins.mcp.oauth.callback import Ask

BYTES_PER_TOKEN = 4


class McpCommands(SourceCommands[ServerConfig]):
    """The MCP servers of one workspace and its user, as a command sees them."""

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
        """The servers in these places."""
        args = self.args
        asks = args.action in ("tools", "call") and (args.login or sys.stderr.isatty())
        sandbox = sandbox_for(self.workspace, self.settings, self.settings.state_dir)
        return Directory(context, ask=login_prompt(context.environ) if asks else None, sandbox=sandbox)

    def find(self) -> ServerConfig:
        """The server of this name or, for a URL, one made of it for this command. Raises `ConfigError`."""
        text, sse = self.name, getattr(self.args, "sse", False)
        headers = pairs(getattr(self.args, "header", ()), ":", "--header")
        if "://" not in text:
            if headers or sse:
                raise ConfigError(
                    "--header and --sse are for a URL; a server's own stand in its configuration."
                )
            return self.directory.configured(text)
        entry = JsonObject([("type", "sse" if sse else "http"), ("url", text), ("headers", headers)])
        name = (urlsplit(text).netloc.rpartition("@")[2] or "url")[:100] if text.isprintable() else "url"
        try:
            config = ServerConfig.parse(name, entry, "argument", Path(text))
        except Malformed as error:
            raise ConfigError(f"The address {error}.") from None
        self.directory.sources[config.name] = config
        return config

    def entry(self) -> dict[str, Any]:
        """The entry the arguments describe. Raises `ConfigError`."""
        args = self.args
        program = [clean_text(part) or "" for part in args.program]
        if bool(program) == bool(args.url):
            raise ConfigError("Give either --url URL, or -- and the command that starts the server.")
        env, headers = pairs(args.env, "=", "--env"), pairs(args.header, ":", "--header")
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

    def added(self, config: ServerConfig) -> None:
        """Say what the server's process may reach."""
        if config.kind == "stdio":
            print_line(f"sandbox: {describe_sandbox(config)}")
            if text := warn_unconfined(config, self.settings.state_dir):
                say(text)

    def changes(self, config: ServerConfig) -> tuple[list[tuple[str, str]], Callable[[], object]]:
        """The definitions that are held back."""
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
        """Keep neither pins nor manifest nor log of a server."""
        self._pins.forget(config)
        manifest.forget(self.settings.cache_dir, config.digest)
        LogFile(self.settings.state_dir, config).remove()

    async def check(self, config: ServerConfig) -> None:
        """Start a server. Raises `JaatoError`s."""
        await self.host.connect(config.name)

    def row(self, config: ServerConfig, failure: JaatoError | None) -> dict[str, Any]:
        """One server as data; its `tools` are None while they are not known."""
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
            # what may hold a secret is left out
            "target": " ".join((config.command, *config.args))
            if is_process
            else config.url.partition("?")[0],
            "sandbox": describe_sandbox(config) if is_process else None,
            "file": str(config.origin),
            "server": named_by(known.server_info) if known else None,
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
        """A row as it is shown to people."""
        seen = ago(row["age_s"]) + (" (stale)" if row["stale"] else "")
        return row | {
            "seen": seen,
            "sandbox": (row["sandbox"] or "-").partition(":")[0],
            "era": row["era"] or "-",
        }

    def remarks(self, row: dict[str, Any]) -> list[str]:
        """What a person has to know of a server beside the columns."""
        found = super().remarks(row) if row["state"] in ("failed", "needs login", "needs trust") else []
        if row["held_back"]:
            names = ", ".join(repr(name) for name in row["held_back"][:5])
            command = f"`jaato mcp trust {row['name']}`"
            found.append(f"held back until you accept them with {command}: {names or 'its instructions'}")
        return found + [f"left out: {text}" for text in row["dropped"][:5]]

    async def known(self, config: ServerConfig, *, refresh: bool) -> ManifestReview:
        """What a server offers; it is started when that is not known. Raises `PermissionDenied` for one that is not
        trusted, `ToolError`s."""
        if not config.disabled:
            self.directory.check_trust(config)
        if refresh or self.directory.review(config) is None:
            await self.host.connect(config.name)
        found = self.directory.review(config)
        if found is None:
            raise ConfigError(f"{config.origin} changed meanwhile; try again.")
        return found


def main(args: Namespace) -> int:
    """Do one thing with MCP servers."""
    commands = McpCommands(args)
    try:
        match args.action:
            case "list":
                return list_servers(commands)
            case "add":
                return edit.add(commands)
            case "remove":
                return edit.remove(commands)
            case "trust":
                return edit.trust(commands)
            case "logs":
                return logs(commands)
            case "login" | "logout":
                config = commands.find()
                check_login(commands, config)
                return commands.run(lambda: login(commands, config))
            case "call":
                config, arguments = commands.find(), arguments_of(args.arguments)
                return commands.run(lambda: call(commands, config, arguments))
        servers = [commands.find()] if commands.name else list(commands.directory.sources.values())
        return commands.run(lambda: tools(commands, servers))
    finally:
        commands.host.leave()
        SERVER_POOL.close()


def login_prompt(environ: Mapping[str, str]) -> Ask:
    """Shows the person at the terminal where to log in."""
    from jaato.plugins.mcp.oauth.callback import asking

    def write(text: str) -> None:
        sys.stderr.write(printable(text))
        sys.stderr.flush()

    return asking(write, environ)


def sandbox_entry(args: Namespace) -> dict[str, Any]:
    """What the arguments declare of the sandbox, as an entry has it."""
    domains = [clean_text(one) or "" for one in args.allow_domain]
    paths = [os.path.abspath(os.path.expanduser(clean_text(one) or "")) for one in args.add_dir]
    if not (args.sandbox_profile or domains or paths):
        return {}
    sandbox: dict[str, Any] = {"profile": args.sandbox_profile or "workspace-write"}
    sandbox |= {"domains": domains} if domains else {}
    return {"sandbox": sandbox | ({"paths": paths} if paths else {})}


def list_servers(commands: McpCommands) -> int:
    """All servers, and once each that runs without a sandbox."""
    code = commands.run(lambda: list_sources(commands))
    if not commands.args.json:
        for config in commands.directory.sources.values():
            if text := warn_unconfined(config, commands.settings.state_dir):
                say(text)
    return code


def named_by(info: dict[str, Any]) -> str:
    """What a server calls itself, with its version."""
    return " ".join(str(info[key])[:200] for key in ("name", "version") if info.get(key))


def ago(age_s: float | None) -> str:
    """An age for people."""
    if age_s is None:
        return "never"
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if age_s >= seconds:
            return f"{age_s // seconds:.0f} {unit} ago"
    return "now"


def logs(commands: McpCommands) -> int:
    """The end of a server's errors."""
    config = commands.directory.configured(commands.name)
    file = LogFile(commands.settings.state_dir, config)
    text = file.tail(commands.args.lines)
    if text:
        print_line(text)
    else:
        say(f"{config.name} has printed no errors yet; they are kept in {file.path}")
    return OK


def check_login(commands: McpCommands, config: ServerConfig) -> None:
    """Raise `ConfigError` for a server that knows no login, `PermissionDenied` for one that is not trusted."""
    if find_spec("mcp") is None:
        raise ConfigError("MCP servers need the extra mcp: pip install 'jaato[mcp]'.")
    if config.kind == "stdio":
        raise ConfigError(
            f"{config.name} is started on this machine and knows no login; give it a key as a variable: "
            f"`jaato mcp add {config.name} --replace --env NAME='${{NAME}}' -- …`."
        )
    commands.directory.check_trust(config)


async def login(commands: McpCommands, config: ServerConfig) -> int:
    """Log in or out, until it is done or Ctrl-C ends it."""
    from jaato.plugins.mcp.http_transport import allowed_for
    from jaato.plugins.mcp.oauth.login import login, logout
    from jaato.plugins.mcp.oauth.token_store import open_store

    filled = commands.directory.options(config.name).config
    if any(name.lower() == "authorization" for name in filled.headers):
        say(f"{config.name} is sent the Authorization that its configuration has; a login would not be used.")
        return USAGE
    store, environ = open_store(commands.settings.state_dir), commands.settings.environ
    allowed = allowed_for(filled, commands.directory.context.allow_hosts)
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


async def tools(commands: McpCommands, servers: list[ServerConfig]) -> int:
    """The tools of servers, with what declaring each costs; one that fails is reported, and the others are shown."""
    args = commands.args
    rows: list[dict[str, Any]] = []
    code = OK
    for config in servers:
        if config.disabled and not args.server:
            continue
        try:
            found = await commands.known(config, refresh=args.refresh or config.scope == "argument")
        except JaatoError as error:
            if args.server:
                raise
            say(str(error))
            code = ERROR
            continue
        rows += [tool_row(config, entry) for entry in found.manifest.tools]
        for change in found.changes:
            say(change.why(args.server or config.name))
        for text in found.manifest.dropped[:20]:
            say(f"{config.name}: left out: {text}")
    if args.json:
        print_json(rows)
        return code
    print_rows((str(row["tokens"]), row["server"], row["name"], row["summary"]) for row in rows)
    total = sum(row["tokens"] for row in rows)
    print_line(
        f"{len(rows)} tools, {total} tokens if all were declared; they are, once asked for (4 bytes a token)"
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
    """One call of one tool. Raises `ConfigError` for a tool that is not there, `PermissionDenied` for one that is held
    back."""
    name = commands.args.tool
    found = await commands.known(config, refresh=config.scope == "argument")
    if found.tool(name) is None and config.scope != "argument" and name not in found.disabled:
        found = await commands.known(config, refresh=True)
    entry = found.tool(name)
    if entry is None:
        why = found.missing(commands.name, name)
        raise PermissionDenied(why) if name in found.disabled else ConfigError(why)
    tool = make_tool(config, entry, commands.host.call)
    return await call_tool(commands, tool, arguments, stream=True, ask=True)
