"""A server's tool as a tool of ours: its name, its whole schema, and the access class we give it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Set
from typing import Any

from jaato.errors import PluginError
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.manifest import Manifest, ToolEntry
from jaato.protocol.specs import Access, ToolSpec
from jaato.tools.call import Call
from jaato.tools.catalog import other_names, wire_name
from jaato.tools.schema import Validator
from jaato.tools.tool import Tool

CATEGORY = "MCP"
PREFIX = "mcp__"
MAX_DESCRIPTION_CHARS = 4_000
BACKGROUND_AFTER_S = 10.0
HINTS = (
    ("readOnlyHint", True, "only reads"),
    ("destructiveHint", True, "may destroy"),
    ("idempotentHint", True, "may be repeated"),
    ("openWorldHint", True, "reaches other systems"),
)
Run = Callable[[str, ToolEntry, dict[str, Any], Call], Awaitable[Any]]


def full_name(server: str, tool: str) -> str:
    """The name of a server's tool in the catalogue, before `wire_name` makes it valid for providers."""
    return f"{PREFIX}{server}__{tool}"


def access_of(config: ServerConfig) -> Access:
    """The access class of its tools: never a lower one, whatever hints the server gives."""
    return "execute" if config.kind == "stdio" else "network"


def tools_from(config: ServerConfig, manifest: Manifest, run: Run) -> list[Tool]:
    """The tools of a manifest; two with the same name, or the same wire name, are both left out."""
    made = [make_tool(config, entry, run) for entry in manifest.tools]
    counts = Counter([tool.spec.name for tool in made])
    return [tool for tool in made if counts[tool.spec.name] == 1]


def names_of(tools: Iterable[Tool]) -> set[str]:
    """Every name of these tools."""
    return {name for tool in tools for name in (tool.spec.name, *other_names(tool))}


def drop_name_conflicts(tools: list[Tool], taken: Set[str]) -> list[Tool]:
    """The tools without a name that another server has too: names of servers and tools may contain two underscores."""
    if taken.isdisjoint(names_of(tools)):
        return tools
    return [tool for tool in tools if taken.isdisjoint(names_of([tool]))]


def make_tool(config: ServerConfig, entry: ToolEntry, run: Run) -> Tool:
    """One tool."""
    full = full_name(config.name, entry.name)
    name = wire_name(full)
    spec = ToolSpec(
        name=name,
        description=describe(entry),
        parameters=entry.input_schema,
        category=CATEGORY,
        access=access_of(config),
    )

    async def call_it(arguments: dict[str, Any], call: Call) -> Any:
        return await run(config.name, entry, arguments, call)

    return Tool(
        spec=spec,
        run=call_it,
        is_async=True,
        plugin="mcp",
        checked=entry.input_schema,
        original_name=full if full != name else None,
        background_after_s=BACKGROUND_AFTER_S,
    )


def describe(entry: ToolEntry) -> str:
    """The description of a tool, bounded, with the hints of its server as such."""
    text = entry.description.strip() or entry.title.strip() or entry.name
    if len(text) > MAX_DESCRIPTION_CHARS:
        text = text[:MAX_DESCRIPTION_CHARS] + "…"
    if not entry.annotations:
        return text
    hints = [words for key, value, words in HINTS if entry.annotations.get(key) is value]
    return f"{text}\n(By its server's word it {', '.join(hints)}.)" if hints else text


def unusable_reason(entry: ToolEntry) -> str:
    """Why the schema of a tool makes it unusable; empty when it is usable."""
    kind = entry.input_schema.get("type", "object")
    if kind != "object":
        return f"its parameters are of type {str(kind)[:40]!r}, not object"
    try:
        Validator(entry.input_schema)
    except PluginError as error:
        return str(error)
    return ""
