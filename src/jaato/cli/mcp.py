"""`jaato mcp`: the servers that are configured, and what may become of them."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio

from jaato.cli.ending import ERROR, OK, say
from jaato.cli.options import clean_text, workspace_of
from jaato.cli.screen import printable
from jaato.cli.table import print_json, print_line, print_rows
from jaato.errors import ConfigError, JaatoError
from jaato.plugins.mcp.config import FILE, ServerConfig, document_of, search
from jaato.plugins.mcp.confined import shown, warning
from jaato.plugins.mcp.directory import Directory, Places
from jaato.plugins.mcp.host import Host
from jaato.plugins.mcp.logs import LogFile
from jaato.plugins.mcp.pool import POOL
from jaato.runtime.assemble import settings_for
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.outfit import sandbox_for
from jaato.settings import Settings, home_of
from jaato.tools.configured import Malformed, Scope

if TYPE_CHECKING:
    from jaato.plugins.mcp.oauth_browser import Ask

CHECKS_AT_ONCE = 8


class Desk:
    """The servers of one workspace, as a command sees them."""

    def __init__(self, args: Namespace) -> None:
        self.workspace = workspace_of(args)
        self.settings: Settings = settings_for(Blueprint(workspace=self.workspace), self.workspace)
        environ = self.settings.environ
        self.home = home_of(environ)
        asks = args.action in ("tools", "call") and (args.login or sys.stderr.isatty())
        self.places = Places(
            self.workspace,
            self.home,
            self.settings.state_dir,
            self.settings.cache_dir,
            environ,
            tuple(self.settings["allow_hosts"]),
            asker(environ) if asks else None,
            sandbox=sandbox_for(self.workspace, self.settings, self.settings.state_dir),
        )
        self.directory = Directory(self.places)

    def file(self, scope: Scope) -> Path:
        """The configuration file of a scope."""
        return (self.home if scope == "user" else self.workspace) / FILE

    def server(self, name: str) -> ServerConfig:
        """The server of this name. Raises `ConfigError` with what is wrong with it, or the names there are."""
        for problem in self.directory.problems:
            if problem.server == name and name not in self.directory.servers:
                raise ConfigError(str(problem))
        return search(self.directory.servers, name)

    def named(self, text: str, headers: Sequence[str] = (), *, sse: bool = False) -> ServerConfig:
        """The server of this name or, for a URL, one made of it for this command. Raises `ConfigError`."""
        if "://" not in text:
            if headers or sse:
                raise ConfigError(
                    "--header and --sse are for a URL; a server's own stand in its configuration."
                )
            return self.server(text)
        from jaato.plugins.mcp.entry import server_of

        entry = {"type": "sse" if sse else "http", "url": text, "headers": pairs(headers, ":", "--header")}
        name = (urlsplit(text).netloc.rpartition("@")[2] or "url")[:100] if text.isprintable() else "url"
        try:
            config = server_of(name, document_of(encoded(entry)), "argument", Path(text))
        except Malformed as error:
            raise ConfigError(f"The address {error}.") from None
        self.directory.servers[config.name] = config
        return config


def asker(environ: Mapping[str, str]) -> Ask:
    """Shows the person at the terminal where to log in."""
    from jaato.plugins.mcp.oauth_browser import asking

    def write(text: str) -> None:
        sys.stderr.write(printable(text))
        sys.stderr.flush()

    return asking(write, environ)


def encoded(entry: dict[str, Any]) -> bytes:
    """An entry as it would stand in a file."""
    import json

    return json.dumps(entry).encode()


def pairs(texts: Sequence[str], mark: str, flag: str) -> dict[str, str]:
    """`NAME=VALUE` or `NAME: VALUE` texts as a table. Raises `ConfigError`."""
    found: dict[str, str] = {}
    for text in texts:
        name, parted, value = (clean_text(text) or "").partition(mark)
        if not parted or not name.strip():
            raise ConfigError(f"{flag} is written NAME{mark}VALUE, not {text[:80]!r}.")
        found[name.strip()] = value.strip() if mark == ":" else value
    return found


def main(args: Namespace) -> int:
    """Do one thing with MCP servers."""
    for name in ("server", "tool", "arguments"):
        if isinstance(getattr(args, name, None), str):
            setattr(args, name, clean_text(getattr(args, name)))
    desk = Desk(args)
    try:
        match args.action:
            case "list":
                return listing(desk, args)
            case "add":
                from jaato.cli.mcp_edit import add

                return add(desk, args)
            case "remove":
                from jaato.cli.mcp_edit import remove

                return remove(desk, args)
            case "logs":
                return logs(desk, args)
            case "trust":
                from jaato.cli.mcp_trust import trust

                return trust(desk, args)
            case "login" | "logout":
                from jaato.cli.mcp_login import main as login

                return login(desk, args)
        from jaato.cli.mcp_use import main as use

        return use(desk, args)
    finally:
        POOL.close()


def listing(desk: Desk, args: Namespace) -> int:
    """All servers with their state, and what is wrong with the files."""
    directory = desk.directory
    host = Host(directory, lambda _name: None)
    failures: dict[str, JaatoError] = {}
    try:
        if args.check:
            failures = anyio.run(check, host, directory)
        servers = [described(host, config, failures, args.check) for config in directory.servers.values()]
    finally:
        host.leave()
    if args.json:
        problems = [
            {"server": problem.server, "file": str(problem.origin), "text": problem.text}
            for problem in directory.problems
        ]
        print_json({"servers": servers, "problems": problems})
    else:
        print_servers(servers)
        for config in directory.servers.values():
            if told := warning(config, desk.settings.state_dir):
                say(told)
        for problem in directory.problems:
            say(str(problem))
    return ERROR if failures or (args.check and directory.problems) else OK


async def check(host: Host, directory: Directory) -> dict[str, JaatoError]:
    """Start every server that may be started; why those failed that did."""
    failures: dict[str, JaatoError] = {}
    limiter = anyio.CapacityLimiter(CHECKS_AT_ONCE)

    async def connect(name: str) -> None:
        async with limiter:
            try:
                await host.connect(name)
            except JaatoError as error:
                failures[name] = error

    async with anyio.create_task_group() as tasks:
        for config in directory.servers.values():
            if not config.disabled and directory.trusts(config):
                tasks.start_soon(connect, config.name)
    return failures


def described(
    host: Host, config: ServerConfig, failures: dict[str, JaatoError], checked: bool
) -> dict[str, Any]:
    """One server as data; its `tools` are None while they are not known."""
    state, why = host.state(config.name)
    if config.name in failures:
        error = failures[config.name]
        state, why = ("needs login" if error.code == "login_needed" else "failed"), str(error)
    judged = host.directory.judgement(config)
    manifest = judged.manifest if judged is not None else None
    age_s = manifest.age_s(time.time()) if manifest is not None else None
    return {
        "name": config.name,
        "scope": config.scope,
        "kind": config.kind,
        "state": state,
        "health": ("failed" if config.name in failures else "ok")
        if checked and state != "needs trust"
        else None,
        "why": why,
        "target": target_of(config),
        "sandbox": shown(config) if config.kind == "stdio" else None,
        "file": str(config.origin),
        "server": named_by(manifest.server_info) if manifest else None,
        "era": manifest.protocol_version if manifest else None,
        "tools": len(manifest.tools) if manifest else None,
        "prompts": len(manifest.prompts) if manifest else None,
        "resources": len(manifest.resources) if manifest else None,
        "held_back": [change.name for change in judged.changes] if judged else [],
        "dropped": manifest.dropped if manifest else [],
        "age_s": round(age_s, 1) if age_s is not None else None,
        "stale": bool(manifest and manifest.ttl_s and (age_s or 0) > manifest.ttl_s),
    }


def named_by(info: dict[str, Any]) -> str:
    """What a server calls itself, with its version."""
    return " ".join(str(info[key])[:200] for key in ("name", "version") if info.get(key))


def target_of(config: ServerConfig) -> str:
    """What runs, or where it is; what may hold a secret is left out."""
    if config.kind == "stdio":
        return " ".join((config.command, *config.args))
    return config.url.partition("?")[0]


def print_servers(servers: list[dict[str, Any]]) -> None:
    """The servers for people."""
    if not servers:
        print_line("No MCP server is configured; `jaato mcp add` adds one.")
        return
    heading = ("SERVER", "SCOPE", "KIND", "STATE", "ERA", "TOOLS", "SEEN", "SANDBOX", "WHAT")
    rows = [
        (
            one["name"],
            one["scope"],
            one["kind"],
            one["state"],
            one["era"] or "-",
            "-" if one["tools"] is None else str(one["tools"]),
            ago(one["age_s"]) + (" (stale)" if one["stale"] else ""),
            (one["sandbox"] or "-").partition(":")[0],
            one["target"],
        )
        for one in servers
    ]
    print_rows([heading, *rows])
    for one in servers:
        if one["state"] in ("failed", "needs login") and one["why"]:
            say(f"{one['name']}: {one['why']}")
        if one["state"] == "needs trust":
            say(f"{one['name']}: look at it and trust it with `jaato mcp trust {one['name']}`")
        if one["held_back"]:
            names = ", ".join(repr(name) for name in one["held_back"][:5])
            say(
                f"{one['name']}: held back until you accept them with `jaato mcp trust {one['name']}`: "
                f"{names or 'its instructions'}"
            )
        for text in one["dropped"][:5]:
            say(f"{one['name']}: left out: {text}")


def ago(age_s: float | None) -> str:
    """An age for people."""
    if age_s is None:
        return "never"
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if age_s >= seconds:
            return f"{age_s // seconds:.0f} {unit} ago"
    return "now"


def logs(desk: Desk, args: Namespace) -> int:
    """The end of a server's errors."""
    config = desk.server(args.server)
    file = LogFile(desk.settings.state_dir, config)
    text = file.tail(args.lines)
    if text:
        print_line(text)
    else:
        say(f"{config.name} has printed no errors yet; they are kept in {file.path}")
    return OK
