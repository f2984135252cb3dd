"""`jaato registry list`, `get` and `invoke`: registries asked, under the same guards as for an agent."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import anyio
import msgspec

from jaato.cli.ending import ERROR, OK, say
from jaato.cli.mcp_call import OneCall, Terminal
from jaato.cli.mcp_use import arguments_of, carried, ended
from jaato.cli.registry_desk import Desk
from jaato.cli.table import print_json, print_line, print_rows
from jaato.errors import JaatoError
from jaato.plugins.arp.directory import Shelf
from jaato.plugins.arp.entry import target_of
from jaato.plugins.arp.tools import Far, full_name, make_tool
from jaato.protocol.arp import ToolView
from jaato.protocol.ids import new_id
from jaato.tools.call import Call, Outcome, Output, no_output
from jaato.tools.pipeline import run
from jaato.tools.secrets import Secrets, Stream


def main(args: Namespace) -> int:
    """Carry out one of them."""
    desk = Desk(args)
    work = work_of(desk, args)
    return anyio.run(carried, lambda: desk.unsaid(work))


def work_of(desk: Desk, args: Namespace) -> Callable[[], Awaitable[int]]:
    """What is to be done. Raises `ConfigError`, `PermissionDenied`."""
    if args.action == "list" and not args.registry:
        return lambda: registries(desk, args)
    shelf = desk.shelf(args.registry, args.token)
    match args.action:
        case "list":
            return lambda: tools(desk, shelf, args)
        case "get":
            return lambda: get(desk, shelf, args)
    arguments = arguments_of(args.arguments)
    return lambda: invoke(desk, shelf, args, arguments)


async def registries(desk: Desk, args: Namespace) -> int:
    """All registries with their state, and what is wrong with the files."""
    failures: dict[str, str] = {}

    async def check(shelf: Shelf) -> None:
        try:
            await shelf.source.ask_list()
        except JaatoError as error:
            failures[shelf.source.name] = str(error)

    if args.check:
        async with anyio.create_task_group() as tasks:
            for config in desk.directory.usable():
                tasks.start_soon(check, desk.directory.shelf(config))
    rows = desk.secrets.masked([described(desk, name, failures) for name in desk.directory.registries])
    if args.json:
        problems = [
            {"registry": one.registry, "file": str(one.origin), "text": one.text}
            for one in desk.directory.problems
        ]
        print_json({"registries": rows, "problems": problems})
    else:
        print_registries(rows)
        for problem in desk.directory.problems:
            say(str(problem))
    return ERROR if failures or (args.check and desk.directory.problems) else OK


def described(desk: Desk, name: str, failures: dict[str, str]) -> dict[str, Any]:
    """One registry as data; its `tools` are None while they are not known."""
    config = desk.directory.registries[name]
    state = desk.directory.state(config)
    kept = desk.directory.shelf(config).source.kept
    return {
        "name": name,
        "scope": config.scope,
        "state": state,
        "why": failures.get(name, ""),
        "url": target_of(config),
        "file": str(config.origin),
        "prefix": config.prefix,
        "tools": len(kept.views) if kept.at else None,
        "left_out": kept.dropped,
    }


def print_registries(rows: list[dict[str, Any]]) -> None:
    """The registries for people."""
    if not rows:
        print_line("No registry is configured; `jaato registry add` adds one.")
        return
    print_rows(
        [
            ("REGISTRY", "SCOPE", "STATE", "TOOLS", "URL"),
            *(
                (
                    row["name"],
                    row["scope"],
                    row["state"],
                    "-" if row["tools"] is None else str(row["tools"]),
                    row["url"],
                )
                for row in rows
            ),
        ]
    )
    for row in rows:
        if row["why"]:
            say(f"{row['name']}: {row['why']}")
        if row["state"] == "needs trust":
            say(f"{row['name']}: look at it and trust it with `jaato registry trust {row['name']}`")
        for text in row["left_out"][:5]:
            say(f"{row['name']}: left out: {text}")


async def tools(desk: Desk, shelf: Shelf, args: Namespace) -> int:
    """The tools of one registry, as it offers them now; as it did, where it cannot be asked."""
    code = OK
    source, mask = shelf.source, desk.secrets.mask
    try:
        await source.ask_list()
    except JaatoError as error:
        if not source.kept.at:
            raise
        say(f"{mask(str(error))} These are the tools it had.")
        code = ERROR
    rows = [(mask(view.name), mask(view.description)) for view in source.kept.views]
    if args.json:
        print_json([{"name": name, "description": description} for name, description in rows])
        return code
    print_rows((name, first_line(description)) for name, description in rows)
    for text in source.kept.dropped:
        say(f"left out: {mask(text)}")
    return code


def first_line(text: str) -> str:
    """The beginning of a description."""
    return text.split("\n", 1)[0][:200]


async def get(desk: Desk, shelf: Shelf, args: Namespace) -> int:
    """The definition of one tool."""
    known = await shelf.definitions.get(args.tool, anew=True)
    print_json(desk.secrets.masked(msgspec.to_builtins(known.definition)))
    return OK


async def invoke(desk: Desk, shelf: Shelf, args: Namespace, arguments: dict[str, Any]) -> int:
    """One call of one tool, through the pipeline: valid, permitted, run; its result on stdout."""
    known = await shelf.definitions.get(args.tool, anew=True)
    view = ToolView(args.tool, known.definition.description)
    tool = make_tool(Far(shelf.source, shelf.definitions, view, shelf.pins), known, prefixed=True)
    assert tool.name == full_name(shelf.source.config, args.tool)
    terminal = Terminal()
    heard = Stream(desk.secrets)
    call = Call(
        id=new_id("c"),
        name=tool.name,
        arguments=arguments,
        door="user",
        output=(lambda text: terminal.show(heard.feed(text))) if args.stream else no_output,
        keep=terminal.keep,
        workspace=desk.workspace,
    )
    outcome = await run(call, OneCall(tool, desk.settings, desk.workspace))
    terminal.show(heard.end())
    return ended(unsaid(outcome, desk.secrets), terminal, as_json=args.json)


def unsaid(outcome: Outcome, secrets: Secrets) -> Outcome:
    """How a call ended, without what was secret in what it was asked with."""
    if outcome.problem is not None:
        outcome.problem = msgspec.structs.replace(
            outcome.problem, message=secrets.mask(outcome.problem.message)
        )
    if isinstance(outcome.value, Output):
        text, structured = secrets.mask(outcome.value.text), secrets.masked(outcome.value.structured)
        outcome.value = replace(outcome.value, text=text, structured=structured)
    return outcome
