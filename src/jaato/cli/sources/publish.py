"""`jaato registry put` and `delete`: tools put into a registry, and taken out of it."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio.to_thread

from jaato.cli.arguments.values import clean_text
from jaato.cli.ending import DENIED, ERROR, OK, USAGE, say
from jaato.cli.output.tables import print_json, print_line
from jaato.cli.sources.registry import RegistryCommands
from jaato.cli.sources.sources import pairs
from jaato.errors import ConfigError, JaatoError
from jaato.plugins.arp.config import RegistryConfig
from jaato.plugins.arp.http_client import ArpRequest, ArpResponse
from jaato.plugins.arp.remote_registry import path_of
from jaato.protocol.arp import decode_definition, decode_error
from jaato.tools.invisible_text import escape_all, one_line

MAX_BYTES = 4_000_000
CODES = {400: USAGE, 401: DENIED, 403: DENIED, 409: USAGE}
"""How a command ends that was refused, by the status; else 1."""


def main(args: Namespace) -> int:
    """Carry out one of them."""
    commands = RegistryCommands(args)
    config = commands.shelf().source.config
    ask = put(args, config) if args.action == "put" else delete(args, config)
    return commands.run(lambda: sent(commands, config, ask))


def put(args: Namespace, config: RegistryConfig) -> ArpRequest:
    """The request that puts a tool. Raises `ConfigError`."""
    body = definition(args.definition)
    handler = handler_of(args)
    if handler is not None:
        body["handler"] = handler
    condition = conditions(args)
    if args.create:
        condition = (("If-None-Match", "*"),)
    data = json.dumps(body).encode()
    return ArpRequest("PUT", path_of(args.tool), MAX_BYTES, config.timeout_s, data, condition)


def delete(args: Namespace, config: RegistryConfig) -> ArpRequest:
    """The request that takes a tool away."""
    query = f"?version={quote(args.version, safe='')}" if args.version else ""
    return ArpRequest(
        "DELETE", path_of(args.tool) + query, MAX_BYTES, config.timeout_s, headers=conditions(args)
    )


def conditions(args: Namespace) -> tuple[tuple[str, str], ...]:
    """What has to be so; an ETag is taken with and without its quotes. Raises `ConfigError`."""
    text = clean_text(args.if_match)
    if text is None:
        return ()
    if not text.isascii() or not text.isprintable():
        raise ConfigError("--if-match is an ETag as the registry gave it.")
    return (("If-Match", text if text == "*" or text.startswith('"') else f'"{text}"'),)


def definition(place: str) -> dict[str, Any]:
    """A definition from a file, or from stdin for `-`. Raises `ConfigError`."""
    try:
        if place == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(place).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{place} cannot be read: {getattr(error, 'strerror', error)}.") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"A definition has at most {MAX_BYTES:,} bytes.")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The definition is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise ConfigError('A definition is a JSON object with "description", "version" and "parameters".')
    return found


def handler_of(args: Namespace) -> dict[str, Any] | None:
    """Who carries out the calls, as the arguments say; None where the definition says it. Raises `ConfigError`."""
    headers = pairs(args.header, ":", "--header")
    handler: dict[str, Any] | None = None
    if args.webhook:
        handler = {"type": "webhook", "url": clean_text(args.webhook)}
    elif args.mcp:
        server, slash, tool = str(clean_text(args.mcp)).partition("/")
        if not server or not slash or not tool:
            raise ConfigError("--mcp is written SERVER/TOOL.")
        handler = {"type": "mcp", "server": server, "tool": tool}
    elif args.entry_point:
        handler = {"type": "entry_point", "target": clean_text(args.entry_point)}
    if handler is None:
        if headers or args.timeout is not None:
            raise ConfigError(
                "--header and --timeout belong to a handler: --webhook, --mcp or --entry-point."
            )
        return None
    if headers and not args.webhook:
        raise ConfigError("--header is for --webhook.")
    handler |= {"headers": headers} if headers else {}
    return handler | ({"timeout_s": args.timeout} if args.timeout is not None else {})


async def sent(commands: RegistryCommands, config: RegistryConfig, ask: ArpRequest) -> int:
    """Send a request and say what came of it. Raises `JaatoError`s."""
    args = commands.args
    way = await anyio.to_thread.run_sync(commands.directory.open_client, config)
    answer = await way.send(ask)
    if answer.status not in (200, 201, 204):
        return refused(answer, commands.secrets.mask)
    if args.action == "delete":
        print_line(
            f"deleted {escape_all(args.tool)}" + (f" {escape_all(args.version)}" if args.version else "")
        )
        return OK
    made = decode_definition(answer.body)
    if args.json:
        print_json(commands.secrets.mask_data(json.loads(answer.body)))
    else:
        done = "created" if answer.status == 201 else "replaced"
        print_line(f"{done} {made.name} {made.version}, ETag {answer.header('etag')}")
    return OK


def refused(answer: ArpResponse, mask: Callable[[str], str]) -> int:
    """Say why a registry did not do it; gives the exit code."""
    try:
        error = decode_error(answer.body)
    except JaatoError:
        say(f"The registry answered HTTP {answer.status}, and not as a registry of ours does.")
        return ERROR
    say(mask(f"{one_line(error.message, 2_000)} ({one_line(error.code, 100)})"))
    return CODES.get(answer.status, ERROR)
