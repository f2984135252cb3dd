"""`jaato registry list`, `get`, `invoke`, `add`, `remove` and `trust`: registries configured and used, under the same guards
as for an agent."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from jaato.cli.ending import ERROR, OK, say
from jaato.cli.output.tables import print_json, print_rows
from jaato.cli.output.terminal import visible
from jaato.cli.sources import edit
from jaato.cli.sources.call import arguments_of, call_tool
from jaato.cli.sources.sources import SourceCommands, list_sources, pairs
from jaato.errors import ConfigError, JaatoError
from jaato.plugins.arp import cache
from jaato.plugins.arp.config import RegistryConfig, registry_from_url, target_of
from jaato.plugins.arp.directory import Directory, Shelf
from jaato.plugins.arp.errors import RegistryUnusable
from jaato.plugins.arp.pins import diff
from jaato.plugins.arp.tools import Far, full_name, make_tool
from jaato.plugins.arp.validation import name_problem
from jaato.protocol.arp import ToolView
from jaato.tools.filesystem.containment import shown_name
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.remote.sources import SourceContext


class RegistryCommands(SourceCommands[RegistryConfig]):
    """The registries of one workspace and its user, as a command sees them."""

    plural = "registries"
    verb = "be asked"
    tools_hint = "list"
    columns = {"name": "REGISTRY", "scope": "SCOPE", "state": "STATE", "tools": "TOOLS", "url": "URL"}

    directory: Directory

    def __init__(self, args: Namespace) -> None:
        super().__init__(args, args.registry)

    def open_directory(self, context: SourceContext) -> Directory:
        """The registries in these places."""
        if self.settings["mask_secrets"]:
            self.secrets = Redactor(shapes=False)
        return Directory(replace(context, secrets=self.secrets))

    def shelf(self) -> Shelf:
        """The registry of this name or, for a URL, one made of it for this command. Raises `ConfigError`, and
        `PermissionDenied` for one that is not trusted."""
        if "://" not in self.name:
            if self.args.token:
                raise ConfigError("--token is for a URL; a registry's own stands in its configuration.")
            return self.directory.shelf(self.directory.chosen(self.name))
        return self.directory.shelf(registry_from_url(self.name, self.args.token or ""))

    def find(self) -> RegistryConfig:
        """The registry of this name. Raises `ConfigError`."""
        return self.directory.configured(self.name)

    def entry(self) -> dict[str, Any]:
        """The entry the arguments describe. Raises `ConfigError`."""
        args = self.args
        if "://" in self.name:
            raise ConfigError("A name comes first, and is no URL: jaato registry add NAME URL.")
        headers = pairs(args.header, ":", "--header")
        entry: dict[str, Any] = {"url": args.url}
        entry |= {"token": args.token} if args.token else {}
        entry |= {"headers": headers} if headers else {}
        entry |= {"prefix": args.prefix} if args.prefix else {}
        return entry | ({"timeout_s": args.timeout} if args.timeout is not None else {})

    def changes(self, config: RegistryConfig) -> tuple[list[tuple[str, str]], Callable[[], object]]:
        """The tools that have changed since they were last allowed."""
        shelf, mask = self.directory.shelf(config), self.secrets.mask
        found = [(pinned, shelf.definitions.at_hand(name)) for name, pinned in shelf.pins.tools.items()]
        changed = [
            (before, now.definition)
            for before, now in found
            if now is not None and shelf.pins.changed(now.definition)
        ]
        if changed:
            with suppress(RegistryUnusable):  # a key that cannot be had is not known to what is masked
                self.directory.open_client(config)
        shown = [
            (f"{visible(mask(now.name))} has changed since it was last allowed:", mask(diff(before, now)))
            for before, now in changed
        ]
        return shown, lambda: shelf.pins.pin(*(definition for _, definition in changed))

    def forget(self, config: RegistryConfig) -> None:
        """Keep neither lists nor pins of a registry."""
        cache.forget(self.settings.cache_dir, config.digest)
        self.directory.shelf(config).pins.forget()

    async def check(self, config: RegistryConfig) -> None:
        """Ask a registry for its list. Raises `JaatoError`s."""
        await self.directory.shelf(config).source.ask_list()

    def row(self, config: RegistryConfig, failure: JaatoError | None) -> dict[str, Any]:
        """One registry as data; its `tools` are None while they are not known."""
        state = self.directory.state(config)
        known = self.directory.shelf(config).source.kept
        return {
            "name": config.name,
            "scope": config.scope,
            "state": state,
            "why": "" if failure is None else str(failure),
            "url": target_of(config),
            "file": str(config.origin),
            "prefix": config.prefix,
            "tools": len(known.views) if known.at else None,
            "left_out": known.dropped,
        }

    def remarks(self, row: dict[str, Any]) -> list[str]:
        """What a person has to know of a registry beside the columns."""
        return super().remarks(row) + [f"left out: {text}" for text in row["left_out"][:5]]


def main(args: Namespace) -> int:
    """Carry out one of them."""
    commands = RegistryCommands(args)
    match args.action:
        case "add":
            return edit.add(commands)
        case "remove":
            return edit.remove(commands)
        case "trust":
            return edit.trust(commands)
    return commands.run(work_of(commands))


def work_of(commands: RegistryCommands) -> Callable[[], Awaitable[int]]:
    """What is to be done. Raises `ConfigError`, `PermissionDenied`."""
    args = commands.args
    if args.action == "list" and args.registry is None:
        if args.token:
            raise ConfigError("--token is for one registry that is named by its URL.")
        return lambda: list_sources(commands)
    shelf = commands.shelf()
    if args.action == "list":
        return lambda: tools(commands, shelf)
    if why := name_problem(args.tool):
        raise ConfigError(f"No tool is called {shown_name(args.tool)[:80]!r}: that {why}.")
    if args.action == "get":
        return lambda: get(commands, shelf)
    arguments = arguments_of(args.arguments)
    return lambda: invoke(commands, shelf, arguments)


async def tools(commands: RegistryCommands, shelf: Shelf) -> int:
    """The tools of one registry, as it offers them now; as it did, where it cannot be asked."""
    code = OK
    source, mask = shelf.source, commands.secrets.mask
    try:
        await source.ask_list()
    except JaatoError as error:
        if not source.kept.at:
            raise
        say(f"{mask(str(error))} These are the tools it had.")
        code = ERROR
    rows = [(mask(view.name), mask(view.description)) for view in source.kept.views]
    if commands.args.json:
        print_json([{"name": name, "description": description} for name, description in rows])
        return code
    print_rows((name, description.split("\n", 1)[0][:200]) for name, description in rows)
    for text in source.kept.dropped:
        say(f"left out: {mask(text)}")
    return code


async def get(commands: RegistryCommands, shelf: Shelf) -> int:
    """The definition of one tool."""
    known = await shelf.definitions.get(commands.args.tool, anew=True)
    print_json(commands.secrets.mask_data(msgspec.to_builtins(known.definition)))
    return OK


async def invoke(commands: RegistryCommands, shelf: Shelf, arguments: dict[str, Any]) -> int:
    """One call of one tool."""
    name = commands.args.tool
    known = await shelf.definitions.get(name, anew=True)
    view = ToolView(name, known.definition.description)
    tool = make_tool(Far(shelf.source, shelf.definitions, view, shelf.pins), known, prefixed=True)
    assert tool.name == full_name(shelf.source.config, name)
    return await call_tool(commands, tool, arguments, stream=commands.args.stream, ask=False)
