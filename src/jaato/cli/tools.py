"""`jaato tools`: what the agent can do."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import anyio

from jaato.cli.ending import say
from jaato.cli.options import clean_text, workspace_of
from jaato.cli.table import print_json, print_line, print_rows
from jaato.errors import ConfigError
from jaato.protocol.specs import ToolSpec
from jaato.runtime.assemble import policy_for, settings_for
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.outfit import make_registry
from jaato.runtime.registry import PluginRegistry
from jaato.tools.call import Call
from jaato.tools.found import access_by, ranked
from jaato.tools.permissions import Gate
from jaato.tools.policy import Policy

BYTES_PER_TOKEN = 4
MEANING_WAIT_S = 5.0


def main(args: Namespace) -> int:
    """List, search, show or weigh the tools."""
    workspace = workspace_of(args)
    blueprint = Blueprint(workspace=workspace)
    settings = settings_for(blueprint, workspace)
    registry = make_registry(workspace, settings, settings["model"] or "", blueprint)
    try:
        for name, problem in registry.problems.items():
            say(f"The plugin {name} {problem}")
        match args.action:
            case "list":
                listing(registry, args)
            case "search":
                search(registry, args, policy_for(blueprint, settings, workspace))
            case "schema":
                schema(registry, args)
            case "tokens":
                tokens(registry, args)
    finally:
        registry.shutdown()
    return 0


def summary(spec: ToolSpec) -> str:
    """The first sentence of a description."""
    return spec.description.split("\n", 1)[0].split(". ", 1)[0].rstrip(".")


def listing(registry: PluginRegistry, args: Namespace) -> None:
    """All tools by category. Raises `ConfigError` for a category there is none of."""
    catalog = registry.catalog
    category = clean_text(args.category)
    if category is not None and not catalog.in_category(category):
        known = ", ".join(sorted(catalog.categories))
        raise ConfigError(f"There is no category {category!r}; there are {known}.")
    tools = sorted(catalog, key=lambda tool: (tool.spec.category, tool.spec.discoverability, tool.name))
    found = [tool for tool in tools if category in (None, tool.spec.category)]
    if args.json:
        print_json([described(tool.spec, tool.plugin, list(tool.aliases)) for tool in found])
        return
    print_rows(
        (tool.spec.category, tool.name, tool.spec.discoverability, tool.spec.access, summary(tool.spec))
        for tool in found
    )


def described(spec: ToolSpec, plugin: str, aliases: list[str]) -> dict[str, Any]:
    """A tool in a list, as data."""
    return {
        "name": spec.name,
        "category": spec.category,
        "discoverability": spec.discoverability,
        "access": spec.access,
        "plugin": plugin,
        "aliases": aliases,
        "description": spec.description,
    }


def search(registry: PluginRegistry, args: Namespace, policy: Policy) -> None:
    """What `list_tools` answers to these queries, by meaning too where that can be had soon."""
    catalog = registry.catalog
    catalog.await_meaning(MEANING_WAIT_S)
    gate = Gate(policy, workspace=registry.workspace)
    access = access_by(gate, catalog, Call(id="", name="", arguments={}, workspace=registry.workspace))
    queries = [clean_text(query) or "" for query in args.query]
    results = [
        ranked(catalog, [query], access, limit=args.limit, verbose=args.json)["results"][0]
        for query in queries
    ]
    if args.json:
        print_json(results)
        return
    for result in results:
        if len(results) > 1:
            print_line(f"{result['query']}:")
        print_rows(
            (f"{row['score']:.2f}", row["name"], row["category"], row["access"], row["description"])
            for row in result["tools"]
        )
        if "note" in result:
            print_line(f"{result['note']} There are: {', '.join(result['categories'])}.")


def schema(registry: PluginRegistry, args: Namespace) -> None:
    """Everything about one tool. Raises `ConfigError`, with names that are like it; `ToolError` where it is elsewhere and
    cannot be asked for."""
    name = clean_text(args.name) or ""
    found = registry.catalog.find(name)
    if found is None:
        similar = registry.catalog.similar(name)
        hint = f"; is it {' or '.join(similar)}?" if similar else "."
        raise ConfigError(f"There is no tool {name!r}{hint} `jaato tools list` shows them all.")
    tool = found.tool
    if tool.remote is not None:
        anyio.run(tool.remote.complete, tool)
    print_json(
        described(tool.spec, tool.plugin, list(tool.aliases))
        | {"parameters": tool.spec.parameters, "examples": tool.spec.examples}
    )


def tokens(registry: PluginRegistry, args: Namespace) -> None:
    """What declaring each tool costs, and the first request as a whole; estimates of four bytes a token."""
    from jaato.protocol.codec import encode

    def cost(spec: ToolSpec) -> int:
        whole = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        return -(-len(encode(whole)) // BYTES_PER_TOKEN)

    rows = [(tool.spec.discoverability, cost(tool.spec), tool.name, tool.plugin) for tool in registry.catalog]
    rows.sort(key=lambda row: (row[0], -row[1]))
    core = sum(row[1] for row in rows if row[0] == "core")
    prompt = -(-len(first_prompt(registry).encode()) // BYTES_PER_TOKEN)
    if args.json:
        print_json(
            {
                "tools": [
                    {"name": name, "plugin": plugin, "discoverability": kind, "tokens": count}
                    for kind, count, name, plugin in rows
                ],
                "core_tokens": core,
                "system_prompt_tokens": prompt,
                "first_request_tokens": core + prompt,
            }
        )
        return
    print_rows((str(count), kind, name, plugin) for kind, count, name, plugin in rows)
    print_line("")
    print_line(f"declared in the first request: {core} tokens in {len(registry.catalog.core)} tools")
    print_line(
        f"system prompt: {prompt} tokens; first request: about {core + prompt} tokens and your message"
    )
    print_line(f"when asked for: {sum(row[1] for row in rows) - core} more (estimates of four bytes a token)")


def first_prompt(registry: PluginRegistry) -> str:
    """The system prompt a new session here would have."""
    from jaato.agent.prompt import system_prompt

    instructions = [toolset.instructions for toolset in registry.toolsets()]
    settings = registry.services["settings"]
    if settings["system_prompt"] is not None:
        return str(settings["system_prompt"])
    return system_prompt(
        registry.workspace, instructions=instructions, user_file=settings.config_dir / "AGENTS.md"
    )
