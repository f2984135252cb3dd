"""`jaato mcp add` and `remove`."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from typing import Any

from jaato.cli.ending import OK, say
from jaato.cli.mcp import Desk, pairs
from jaato.cli.options import clean_text
from jaato.cli.table import print_line
from jaato.errors import ConfigError
from jaato.plugins.mcp import edit, manifest
from jaato.plugins.mcp.confined import shown, warning
from jaato.plugins.mcp.logs import LogFile
from jaato.plugins.mcp.pins import Pins
from jaato.plugins.mcp.trusted import Trusted
from jaato.tools.configured import Scope

SECRET = re.compile(r"key|token|secret|password|passwd|credential|authorization|cookie", re.IGNORECASE)


def add(desk: Desk, args: Namespace) -> int:
    """Configure a server; one of a workspace is trusted as it was just written."""
    entry = entry_of(args)
    path = desk.file(args.scope)
    edit.add(path, args.scope, args.server, entry, desk.settings.state_dir, replace=args.replace)
    desk.directory.reload()
    config = desk.directory.servers.get(args.server)
    if config is None or config.scope != args.scope:
        reason = next(
            (p.text for p in desk.directory.problems if p.server == args.server), "it is hidden by another"
        )
        say(f"written to {path}, but {reason}")
        return OK
    if config.scope == "workspace":
        Trusted(desk.settings.state_dir).add(config)
    print_line(
        f"added {config.name} to {path}; `jaato mcp tools {config.name}` starts it and shows its tools"
    )
    if config.kind == "stdio":
        print_line(f"sandbox: {shown(config)}")
        if told := warning(config, desk.settings.state_dir):
            say(told)
    for place, name in plain_secrets(entry):
        say(
            f"{place} {name} holds what looks like a secret, readable in {path}. Write ${{{variable_for(name)}}} "
            "there instead, and set that variable."
        )
    return OK


def entry_of(args: Namespace) -> dict[str, Any]:
    """The entry the arguments describe. Raises `ConfigError`."""
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
        entry: dict[str, Any] = {"type": "sse" if args.sse else "http", "url": clean_text(args.url)}
        return entry | ({"headers": headers} if headers else {})
    if headers or args.sse:
        raise ConfigError("--header and --sse are for a URL; a command takes --env.")
    entry = {"type": "stdio", "command": program[0]}
    entry |= {"args": program[1:]} if program[1:] else {}
    entry |= {"env": env} if env else {}
    entry |= sandbox_entry(args)
    return entry | ({"cwd": clean_text(args.cwd)} if args.cwd else {})


def sandbox_entry(args: Namespace) -> dict[str, Any]:
    """What the arguments declare of the sandbox, as an entry has it."""
    domains = [clean_text(one) or "" for one in args.allow_domain]
    paths = [os.path.abspath(os.path.expanduser(clean_text(one) or "")) for one in args.add_dir]
    if not (args.sandbox_profile or domains or paths):
        return {}
    sandbox: dict[str, Any] = {"profile": args.sandbox_profile or "workspace-write"}
    sandbox |= {"domains": domains} if domains else {}
    return {"sandbox": sandbox | ({"paths": paths} if paths else {})}


def plain_secrets(entry: dict[str, Any]) -> list[tuple[str, str]]:
    """Which variables and headers seem to hold a secret as it is."""
    found = [("the variable", name, value) for name, value in entry.get("env", {}).items()]
    found += [("the header", name, value) for name, value in entry.get("headers", {}).items()]
    return [
        (place, name) for place, name, value in found if SECRET.search(name) and value and "${" not in value
    ]


def variable_for(name: str) -> str:
    """What a variable for this secret could be called."""
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "SECRET"


def remove(desk: Desk, args: Namespace) -> int:
    """Take a server out of its file, and forget what is kept of it."""
    config = desk.directory.servers.get(args.server)
    scope: Scope = args.scope or (config.scope if config is not None else scope_of_problem(desk, args.server))
    path = desk.file(scope)
    edit.remove(path, scope, args.server, desk.settings.state_dir)
    if config is not None and config.scope == scope:
        Pins(desk.settings.state_dir).forget(config)
        manifest.forget(desk.settings.cache_dir, config.digest)
        LogFile(desk.settings.state_dir, config).remove()
        if scope == "workspace":
            Trusted(desk.settings.state_dir).remove(config)
    print_line(f"removed {args.server} from {path}")
    return OK


def scope_of_problem(desk: Desk, name: str) -> Scope:
    """In which file a broken entry stands. Raises `ConfigError` when there is none of this name."""
    for problem in desk.directory.problems:
        if problem.server == name:
            return "user" if problem.origin == desk.file("user") else "workspace"
    desk.server(name)
    raise ConfigError(f"There is no MCP server {name!r}.")
