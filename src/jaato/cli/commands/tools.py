"""`jaato tools`: list, search and show the agent's tools."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import anyio

from jaato.cli.arguments.values import clean_text, workspace_of
from jaato.cli.exit_codes import print_message
from jaato.cli.output.console import print_json, print_line, print_records, print_rows
from jaato.errors import ConfigError
from jaato.protocol.specs import ToolSpec
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.plugins.setup import create_registry
from jaato.runtime.policy_setup import policy_for
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.settings.budgets import format_count
from jaato.tools.call import Call
from jaato.tools.permissions.gate import Gate
from jaato.tools.permissions.policy import Policy
from jaato.tools.search.ranking import access_by, rank_tools
from jaato.tools.tool import Tool

BYTES_PER_TOKEN = 4
EMBEDDINGS_TIMEOUT_S = 5.0


def main(args: Namespace) -> int:
    """Run one action."""
    workspace = workspace_of(args)
    options = SessionOptions(workspace=workspace)
    settings = settings_for(options, workspace)
    registry = create_registry(workspace, settings, settings["model"] or "", options)
    try:
        for name, problem in registry.problems.items():
            print_message(f"The plugin {name} {problem}")
        match args.action:
            case "list":
                list_tools(registry, args)
            case "search":
                search(registry, args, policy_for(options, settings, workspace))
            case "schema":
                schema(registry, args)
            case "tokens":
                tokens(registry, args)
    finally:
        registry.shutdown()
    return 0


def list_tools(registry: PluginRegistry, args: Namespace) -> None:
    """List the tools by category. Raises `ConfigError` for an unknown category."""
    catalog = registry.catalog
    category = clean_text(args.category)
    if category is not None and not catalog.in_category(category):
        known = ", ".join(sorted(catalog.categories))
        raise ConfigError(f"There is no category {category!r}; there are {known}.")
    tools = sorted(catalog, key=lambda tool: (tool.spec.category, tool.spec.discoverability, tool.name))
    records = [record_of(tool) for tool in tools if category in (None, tool.spec.category)]

    def cells(row: dict[str, Any]) -> tuple[str, ...]:
        sentence = row["description"].split("\n", 1)[0].split(". ", 1)[0].rstrip(".")
        return (row["category"], row["name"], row["discoverability"], row["access"], sentence)

    print_records(records, cells, as_json=args.json)


def record_of(tool: Tool) -> dict[str, Any]:
    """A tool as data."""
    return {
        "name": tool.spec.name,
        "category": tool.spec.category,
        "discoverability": tool.spec.discoverability,
        "access": tool.spec.access,
        "plugin": tool.plugin,
        "aliases": list(tool.aliases),
        "description": tool.spec.description,
    }


def search(registry: PluginRegistry, args: Namespace, policy: Policy) -> None:
    """Search as `list_tools` does, with embeddings if they load within the timeout."""
    catalog = registry.catalog
    catalog.await_meaning(EMBEDDINGS_TIMEOUT_S)
    gate = Gate(policy, workspace=registry.workspace)
    access = access_by(gate, catalog, Call(id="", name="", arguments={}, workspace=registry.workspace))
    queries = [clean_text(query) or "" for query in args.query]
    results = [
        rank_tools(catalog, [query], access, limit=args.limit, verbose=args.json)["results"][0]
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
    """Print the definition of a tool. Raises `ConfigError` with similar names, and `ToolError` for a remote tool that cannot
    be fetched."""
    name = clean_text(args.name) or ""
    found = registry.catalog.find(name)
    if found is None:
        similar = registry.catalog.similar(name)
        hint = f"; did you mean {' or '.join(similar)}?" if similar else "."
        raise ConfigError(f"There is no tool {name!r}{hint} `jaato tools list` shows them all.")
    tool = found.tool
    if tool.remote is not None:
        anyio.run(tool.remote.complete, tool)
    print_json(record_of(tool) | {"parameters": tool.spec.parameters, "examples": tool.spec.examples})


def tokens(registry: PluginRegistry, args: Namespace) -> None:
    """Print the size of each tool definition and of the first request, in tokens estimated at four bytes each."""
    from jaato.protocol.codec import encode

    def cost(spec: ToolSpec) -> int:
        whole = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        return -(-len(encode(whole)) // BYTES_PER_TOKEN)

    tools: list[dict[str, Any]] = [
        {
            "name": tool.name,
            "plugin": tool.plugin,
            "discoverability": tool.spec.discoverability,
            "tokens": cost(tool.spec),
        }
        for tool in registry.catalog
    ]
    tools.sort(key=lambda row: (row["discoverability"], -row["tokens"]))
    core = sum(row["tokens"] for row in tools if row["discoverability"] == "core")
    prompt = -(-len(first_prompt(registry).encode()) // BYTES_PER_TOKEN)
    if args.json:
        sums = {"core_tokens": core, "system_prompt_tokens": prompt, "first_request_tokens": core + prompt}
        print_json({"tools": tools, **sums})
        return
    print_rows((str(row["tokens"]), row["discoverability"], row["name"], row["plugin"]) for row in tools)
    more = sum(row["tokens"] for row in tools) - core
    print_line(f"""
declared in the first request: {format_count(core, "token")} in {format_count(len(registry.catalog.core), "tool")}
system prompt: {format_count(prompt, "token")}; first request: about {format_count(core + prompt, "token")} plus your message
on demand: {more} more (estimate: 4 bytes per token)""")


def first_prompt(registry: PluginRegistry) -> str:
    """The system prompt of a new session."""
    from jaato.agent.prompt import system_prompt

    instructions = [toolset.instructions for toolset in registry.toolsets()]
    settings = registry.services["settings"]
    if settings["system_prompt"] is not None:
        return str(settings["system_prompt"])
    return system_prompt(
        registry.workspace, instructions=instructions, user_file=settings.config_dir / "AGENTS.md"
    )
