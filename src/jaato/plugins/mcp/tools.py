"""A server's tool as a tool of ours: its name, its schema whole, and no privilege that it claims for itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from jaato.errors import PluginError
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.manifest import Manifest, ToolEntry
from jaato.protocol.specs import Access, ToolSpec
from jaato.tools.call import Call, Output
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
    """What a server's tool is called here, before it is made fit for the wire."""
    return f"{PREFIX}{server}__{tool}"


def access_of(config: ServerConfig) -> Access:
    """What its tools may touch: never less than everything, whatever the server says of them."""
    return "execute" if config.kind == "stdio" else "network"


def tools_from(config: ServerConfig, manifest: Manifest, run: Run) -> list[Tool]:
    """The tools of a manifest; of two with one name, or one name on the wire, there is neither."""
    made = [make_tool(config, entry, run) for entry in manifest.tools]
    counts = Counter(tool.name for tool in made)
    return [tool for tool in made if counts[tool.name] == 1]


def not_taken(tools: list[Tool], others: list[Tool]) -> list[Tool]:
    """Those tools that have no name of another server's: two underscores can be part of a server's name or a tool's."""
    taken = {name for tool in others for name in (tool.name, *other_names(tool))}
    return [tool for tool in tools if taken.isdisjoint((tool.name, *other_names(tool)))]


def make_tool(config: ServerConfig, entry: ToolEntry, run: Run) -> Tool:
    """One tool."""
    full = full_name(config.name, entry.name)
    name = wire_name(full)
    spec = ToolSpec(
        name=name,
        description=described(entry),
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


def described(entry: ToolEntry) -> str:
    """What the server says of its tool, and the hints it gives, as what it says."""
    text = entry.description.strip() or entry.title.strip() or entry.name
    if len(text) > MAX_DESCRIPTION_CHARS:
        text = text[:MAX_DESCRIPTION_CHARS] + "…"
    hints = [words for key, value, words in HINTS if entry.annotations.get(key) is value]
    return f"{text}\n(By its server's word it {', '.join(hints)}.)" if hints else text


def unusable(entry: ToolEntry) -> str:
    """Why a tool's own schema makes it unusable; empty when it can be used."""
    kind = entry.input_schema.get("type", "object")
    if kind != "object":
        return f"its parameters are of type {str(kind)[:40]!r}, not object"
    try:
        Validator(entry.input_schema)
    except PluginError as error:
        return str(error)
    return ""


def checked_output(entry: ToolEntry, output: Output) -> Output:
    """The output without structured data that does not fit the schema the server declared for it."""
    if entry.output_schema is None:
        return output
    if output.structured is None:
        why = "there is none"
    else:
        try:
            issues = Validator(entry.output_schema).issues(output.structured)
        except PluginError as error:
            issues = [("", str(error))]
        if not issues:
            return output
        why = "; ".join(f"{path or '/'} {text}" for path, text in issues[:3])
    note = f"[The structured data this tool declares is left out: {why}]"
    return Output(f"{output.text}\n{note}" if output.text else note, None, output.media)
