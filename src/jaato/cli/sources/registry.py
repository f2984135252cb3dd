"""`jaato registry`: configure tool registries, call their tools, and register tools."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import anyio.to_thread
import msgspec

from jaato.cli.arguments.values import clean_text, parse_object, read_input
from jaato.cli.exit_codes import DENIED, ERROR, OK, USAGE, print_message
from jaato.cli.output.console import print_json, print_line, print_rows, visible
from jaato.cli.sources.call import call_tool, parse_arguments
from jaato.cli.sources.source_commands import SourceCommands, parse_pairs
from jaato.errors import ConfigError, JaatoError
from jaato.plugins.arp import cache
from jaato.plugins.arp.config import RegistryConfig, registry_from_url, target_of
from jaato.plugins.arp.directory import Directory, RegistryHandle
from jaato.plugins.arp.errors import RegistryUnusable
from jaato.plugins.arp.http_client import ArpRequest, ArpResponse
from jaato.plugins.arp.pins import diff
from jaato.plugins.arp.remote_registry import path_of
from jaato.plugins.arp.tools import RegistryTool, full_name, make_tool
from jaato.plugins.arp.validation import name_problem
from jaato.protocol.arp import ToolView, decode_definition, decode_error
from jaato.tools.filesystem.containment import display_name
from jaato.tools.invisible_text import escape_all, one_line
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.remote.sources import SourceContext

MAX_RESPONSE_BYTES = 4_000_000
EXIT_CODES = {400: USAGE, 401: DENIED, 403: DENIED, 409: USAGE}
"""The exit code of a failed `put` or `delete`, by HTTP status; else 1."""


class RegistryCommands(SourceCommands[RegistryConfig]):
    """The registries of a user and a workspace."""

    plural = "registries"
    verb = "be used"
    tools_hint = "list"
    columns = {"name": "REGISTRY", "scope": "SCOPE", "state": "STATE", "tools": "TOOLS", "url": "URL"}

    directory: Directory

    def __init__(self, args: Namespace) -> None:
        super().__init__(args, args.registry)

    def open_directory(self, context: SourceContext) -> Directory:
        """The configured registries."""
        if self.settings["mask_secrets"]:
            self.secrets = Redactor(shapes=False)
        return Directory(msgspec.structs.replace(context, secrets=self.secrets))

    def handle(self) -> RegistryHandle:
        """The registry of this name or URL. Raises `ConfigError`, and `PermissionDenied` for one that is not trusted."""
        if "://" not in self.name:
            if self.args.token:
                raise ConfigError("--token is for a URL; the token of a registry is in its configuration.")
            return self.directory.handle(self.directory.get_trusted(self.name))
        return self.directory.handle(registry_from_url(self.name, self.args.token or ""))

    def find(self) -> RegistryConfig:
        """The registry of this name. Raises `ConfigError`."""
        return self.directory.get_configured(self.name)

    def entry(self) -> dict[str, Any]:
        """The configuration entry for the arguments of `add`. Raises `ConfigError`."""
        args = self.args
        if "://" in self.name:
            raise ConfigError("The name comes before the URL: jaato registry add NAME URL.")
        fields = {
            "token": args.token,
            "headers": parse_pairs(args.header, ":", "--header"),
            "prefix": args.prefix,
        }
        entry = {"url": args.url} | {name: value for name, value in fields.items() if value}
        return entry | ({"timeout_s": args.timeout} if args.timeout is not None else {})

    def changes(self, config: RegistryConfig) -> tuple[list[tuple[str, str]], Callable[[], object]]:
        """The tool definitions that changed since they were accepted."""
        handle, mask = self.directory.handle(config), self.secrets.mask
        found = [(pinned, handle.definitions.get_cached(name)) for name, pinned in handle.pins.tools.items()]
        changed = [
            (before, now.definition)
            for before, now in found
            if now is not None and handle.pins.describe_change(now.definition)
        ]
        if changed:
            with suppress(RegistryUnusable):  # a key that cannot be read cannot be redacted
                self.directory.open_client(config)
        shown = [
            (f"{visible(mask(now.name))} has changed since it was last allowed:", mask(diff(before, now)))
            for before, now in changed
        ]
        return shown, lambda: handle.pins.pin(*(definition for _, definition in changed))

    def forget(self, config: RegistryConfig) -> None:
        """Delete the cached list and the pins of a registry."""
        cache.forget(self.settings.cache_dir, config.digest)
        self.directory.handle(config).pins.forget()

    async def check(self, config: RegistryConfig) -> None:
        """Fetch the list of a registry. Raises `JaatoError`s."""
        await self.directory.handle(config).source.fetch_list()

    def row(self, config: RegistryConfig, failure: JaatoError | None) -> dict[str, Any]:
        """A registry as data; its `tools` are None while they are unknown."""
        known = self.directory.handle(config).source.kept
        return {
            "name": config.name,
            "scope": config.scope,
            "state": self.directory.state(config),
            "why": "" if failure is None else str(failure),
            "url": target_of(config),
            "file": str(config.origin),
            "prefix": config.prefix,
            "tools": len(known.views) if known.at else None,
            "left_out": known.dropped,
        }

    def remarks(self, row: dict[str, Any]) -> list[str]:
        """What the user must know of a registry besides the table."""
        return super().remarks(row) + [f"left out: {text}" for text in row["left_out"][:5]]


def main(args: Namespace) -> int:
    """Run one action."""
    commands = RegistryCommands(args)
    match args.action:
        case "add":
            return commands.add()
        case "remove":
            return commands.remove()
        case "trust":
            return commands.trust()
        case "put" | "delete":
            config = commands.handle().source.config
            request = put_request(args, config) if args.action == "put" else delete_request(args, config)
            return commands.run(lambda: send(commands, config, request))
    return commands.run(choose_work(commands))


def choose_work(commands: RegistryCommands) -> Callable[[], Awaitable[int]]:
    """The function for `list`, `get` or `invoke`. Raises `ConfigError`, `PermissionDenied`."""
    args = commands.args
    if args.action == "list" and args.registry is None:
        if args.token:
            raise ConfigError("--token is for a registry given as URL.")
        return commands.list_all
    handle = commands.handle()
    if args.action == "list":
        return lambda: list_tools(commands, handle)
    if why := name_problem(args.tool):
        raise ConfigError(f"No tool is called {display_name(args.tool)[:80]!r}: that {why}.")
    if args.action == "get":
        return lambda: get(commands, handle)
    arguments = parse_arguments(args.arguments)
    return lambda: invoke(commands, handle, arguments)


async def list_tools(commands: RegistryCommands, handle: RegistryHandle) -> int:
    """Print the current tools of a registry, or the cached ones when it cannot be reached."""
    code = OK
    source, mask = handle.source, commands.secrets.mask
    try:
        await source.fetch_list()
    except JaatoError as error:
        if not source.kept.at:
            raise
        print_message(f"{mask(str(error))} This is the cached list.")
        code = ERROR
    rows = [(mask(view.name), mask(view.description)) for view in source.kept.views]
    if commands.args.json:
        print_json([{"name": name, "description": description} for name, description in rows])
        return code
    print_rows((name, description.split("\n", 1)[0][:200]) for name, description in rows)
    for text in source.kept.dropped:
        print_message(f"left out: {mask(text)}")
    return code


async def get(commands: RegistryCommands, handle: RegistryHandle) -> int:
    """Print the definition of a tool."""
    known = await handle.definitions.get(commands.args.tool, refresh=True)
    print_json(commands.secrets.mask_data(msgspec.to_builtins(known.definition)))
    return OK


async def invoke(commands: RegistryCommands, handle: RegistryHandle, arguments: dict[str, Any]) -> int:
    """Call a tool."""
    name = commands.args.tool
    known = await handle.definitions.get(name, refresh=True)
    view = ToolView(name, known.definition.description)
    tool = make_tool(RegistryTool(handle.source, handle.definitions, view, handle.pins), known, prefixed=True)
    assert tool.name == full_name(handle.source.config, name)
    return await call_tool(commands, tool, arguments, stream=commands.args.stream, ask=False)


# --- put, delete -----------------------------------------------------------------------------------------------------


def put_request(args: Namespace, config: RegistryConfig) -> ArpRequest:
    """The request that registers a tool. Raises `ConfigError`."""
    body = parse_object(read_input(args.definition), "The definition")
    handler = make_handler(args)
    if handler is not None:
        body["handler"] = handler
    headers = (("If-None-Match", "*"),) if args.create else if_match(args)
    data = json.dumps(body).encode()
    return ArpRequest("PUT", path_of(args.tool), MAX_RESPONSE_BYTES, config.timeout_s, data, headers)


def delete_request(args: Namespace, config: RegistryConfig) -> ArpRequest:
    """The request that removes a tool."""
    path = path_of(args.tool) + (f"?version={quote(args.version, safe='')}" if args.version else "")
    return ArpRequest("DELETE", path, MAX_RESPONSE_BYTES, config.timeout_s, headers=if_match(args))


def if_match(args: Namespace) -> tuple[tuple[str, str], ...]:
    """The If-Match header; the ETag may be given without its quotes. Raises `ConfigError`."""
    text = clean_text(args.if_match)
    if text is None:
        return ()
    if not text.isascii() or not text.isprintable():
        raise ConfigError("--if-match must be an ETag as printed by the registry.")
    return (("If-Match", text if text == "*" or text.startswith('"') else f'"{text}"'),)


def make_handler(args: Namespace) -> dict[str, Any] | None:
    """The handler given by the arguments; None leaves that of the definition. Raises `ConfigError`."""
    headers = parse_pairs(args.header, ":", "--header")
    handler: dict[str, Any] | None = None
    if args.webhook:
        handler = {"type": "webhook", "url": clean_text(args.webhook)}
    elif args.mcp:
        server, slash, tool = str(clean_text(args.mcp)).partition("/")
        if not server or not slash or not tool:
            raise ConfigError("--mcp must be SERVER/TOOL.")
        handler = {"type": "mcp", "server": server, "tool": tool}
    elif args.entry_point:
        handler = {"type": "entry_point", "target": clean_text(args.entry_point)}
    if handler is None:
        if headers or args.timeout is not None:
            raise ConfigError("--header and --timeout need a handler: --webhook, --mcp or --entry-point.")
        return None
    if headers and not args.webhook:
        raise ConfigError("--header needs --webhook.")
    handler |= {"headers": headers} if headers else {}
    return handler | ({"timeout_s": args.timeout} if args.timeout is not None else {})


async def send(commands: RegistryCommands, config: RegistryConfig, request: ArpRequest) -> int:
    """Send a request and print its outcome. Raises `JaatoError`s."""
    args = commands.args
    client = await anyio.to_thread.run_sync(commands.directory.open_client, config)
    answer = await client.send(request)
    if answer.status not in (200, 201, 204):
        return print_refusal(answer, commands.secrets.mask)
    if args.action == "delete":
        version = f" {escape_all(args.version)}" if args.version else ""
        print_line(f"deleted {escape_all(args.tool)}{version}")
        return OK
    tool = decode_definition(answer.body)
    if args.json:
        print_json(commands.secrets.mask_data(json.loads(answer.body)))
    else:
        done = "created" if answer.status == 201 else "replaced"
        print_line(f"{done} {tool.name} {tool.version}, ETag {answer.header('etag')}")
    return OK


def print_refusal(answer: ArpResponse, mask: Callable[[str], str]) -> int:
    """Print why a registry refused a request; return the exit code."""
    try:
        error = decode_error(answer.body)
    except JaatoError:
        print_message(f"The server answered HTTP {answer.status} without an error of a jaato registry.")
        return ERROR
    print_message(mask(f"{one_line(error.message, 2_000)} ({one_line(error.code, 100)})"))
    return EXIT_CODES.get(answer.status, ERROR)
