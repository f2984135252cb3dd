"""`jaato mcp tools` and `call`: a server at work, under the same guards as for an agent."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import anyio

from jaato.cli.ending import DENIED, ERROR, INTERRUPTED, OK, USAGE, say
from jaato.cli.mcp import Desk
from jaato.cli.mcp_call import OneCall, Terminal
from jaato.cli.signals import interruptible
from jaato.cli.table import print_json, print_line, print_rows
from jaato.errors import ConfigError, JaatoError, PermissionDenied
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.host import Host
from jaato.plugins.mcp.manifest import ToolEntry
from jaato.plugins.mcp.pins import Judgement
from jaato.plugins.mcp.tools import full_name, make_tool
from jaato.protocol.ids import new_id
from jaato.tools.call import Call, Outcome
from jaato.tools.catalog import wire_name
from jaato.tools.pipeline import run

BYTES_PER_TOKEN = 4
MAX_STDIN_BYTES = 4_000_000
CODES = {
    "permission_denied": DENIED,
    "mcp_definition_held": DENIED,
    "arguments_invalid": USAGE,
    "mcp_server_unusable": USAGE,
    "permission.denied": DENIED,
    "registry_unusable": USAGE,
    "tool.invalid_args": USAGE,
}
"""How a call ends that failed, by the problem's code; else 1."""


def main(desk: Desk, args: Namespace) -> int:
    """Carry out `tools` or `call`."""
    config = desk.named(args.server, args.header, sse=args.sse) if args.server else None
    host = Host(desk.directory, lambda _name: None)
    try:
        if args.action == "call":
            assert config is not None
            arguments = arguments_of(args.arguments)
            return anyio.run(carried, lambda: call(desk, host, config, args, arguments))
        servers = [config] if config is not None else list(desk.directory.servers.values())
        return anyio.run(carried, lambda: tools(host, servers, args))
    finally:
        host.leave()


async def carried(work: Callable[[], Any]) -> int:
    """The exit code of some work that Ctrl-C may end."""
    with interruptible():
        try:
            code: int = await work()
        except anyio.get_cancelled_exc_class():
            say("Interrupted.")
            return INTERRUPTED
        return code


def arguments_of(text: str | None) -> dict[str, Any]:
    """The arguments of a call from JSON text, or from stdin for `-`. Raises `ConfigError`."""
    if text == "-":
        data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
        if len(data) > MAX_STDIN_BYTES:
            raise ConfigError(f"More than {MAX_STDIN_BYTES:,} bytes of arguments came on stdin.")
        text = data.decode("utf-8", "replace")
    if not text or not text.strip():
        return {}
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The arguments are not JSON: {error}.") from None
    if not isinstance(arguments, dict):
        raise ConfigError('The arguments are a JSON object, such as {"a": 1}.')
    return arguments


async def judged(host: Host, config: ServerConfig, *, refresh: bool) -> Judgement:
    """What a server offers; it is started when that is not known. Raises `PermissionDenied` for one that is not
    trusted, `ToolError`s."""
    if not config.disabled and not host.directory.trusts(config):
        raise PermissionDenied(
            f"The MCP server {config.name!r} is named by {config.origin} and not trusted as it is now; look at it "
            f"and trust it with `jaato mcp trust {config.name}`."
        )
    if refresh or host.directory.judgement(config) is None:
        await host.connect(config.name)
    found = host.directory.judgement(config)
    if found is None:
        raise ConfigError(f"{config.origin} changed meanwhile; try again.")
    return found


async def tools(host: Host, servers: Sequence[ServerConfig], args: Namespace) -> int:
    """The tools of servers, with what declaring each costs; one that fails is reported, and the others are shown."""
    rows: list[dict[str, Any]] = []
    code = OK
    for config in servers:
        try:
            if config.disabled and not args.server:
                continue
            refresh = args.refresh or config.scope == "argument"
            found = await judged(host, config, refresh=refresh)
        except JaatoError as error:
            if args.server:
                raise
            say(str(error))
            code = ERROR
            continue
        rows += [shown(config, entry) for entry in found.manifest.tools]
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


def shown(config: ServerConfig, entry: ToolEntry) -> dict[str, Any]:
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


async def call(
    desk: Desk, host: Host, config: ServerConfig, args: Namespace, arguments: dict[str, Any]
) -> int:
    """One call of one tool, through the pipeline: valid, permitted, run; its result on stdout."""
    found = await judged(host, config, refresh=config.scope == "argument")
    entry = entry_of(found, args.tool)
    if entry is None and config.scope != "argument" and args.tool not in found.disabled:
        found = await judged(host, config, refresh=True)
        entry = entry_of(found, args.tool)
    if entry is None:
        change = found.disabled.get(args.tool)
        if change is not None:
            raise PermissionDenied(change.why(args.server))
        raise ConfigError(missing(config, found, args.tool))
    tool = make_tool(config, entry, host.call)
    terminal = Terminal()
    made = Call(
        id=new_id("c"),
        name=tool.name,
        arguments=arguments,
        door="user",
        output=terminal.show,
        keep=terminal.keep,
        services={"clarify": terminal.clarify},
        workspace=desk.workspace,
    )
    steps = OneCall(tool, desk.settings, desk.workspace)
    return ended(await run(made, steps), terminal, as_json=args.json)


def entry_of(found: Judgement, name: str) -> ToolEntry | None:
    """The only tool of this name."""
    named = [entry for entry in found.manifest.tools if entry.name == name]
    return named[0] if len(named) == 1 else None


def missing(config: ServerConfig, found: Judgement, name: str) -> str:
    """That a server has no such tool, with those it has."""
    from jaato.tools.names import alike

    names = [entry.name for entry in found.manifest.tools]
    if names.count(name) > 1:
        return f"The MCP server {config.name!r} has {names.count(name)} tools {name!r}; which is meant cannot be told."
    near = alike(name, names)
    hint = f"Is it {' or '.join(map(repr, near))}? " if near else ""
    return f"The MCP server {config.name!r} has no tool {name!r}. {hint}It has {', '.join(names[:20]) or 'none'}."


def ended(outcome: Outcome, terminal: Terminal, *, as_json: bool) -> int:
    """Show how a call went; gives the exit code."""
    problem = outcome.problem
    media = terminal.media(outcome)
    if as_json:
        print_json(
            {
                "ok": outcome.ok,
                "text": terminal.text(outcome),
                "structured": getattr(outcome.value, "structured", None),
                "media": media,
                "error": {"code": problem.code, "message": problem.message} if problem else None,
                "duration_s": round(outcome.duration_s, 3),
            }
        )
    elif outcome.ok:
        text = terminal.text(outcome)
        if text:
            print_line(text)
        for one in media:
            say(f"{one['type']}, {one['size_bytes']:,} bytes; --json gives it in base64")
    if outcome.ok:
        return OK
    if problem is not None and not as_json:
        say(problem.message)
    if problem is None:
        return ERROR
    return CODES.get(problem.code, ERROR)
