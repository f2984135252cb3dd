"""The reference of the tools, from the plugins that come with jaato."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from jaato.abc.plugin import Plugin
from jaato.plugins import BUILTIN
from jaato.protocol.codec import encode
from jaato.runtime.plugins.adapter import Toolset, adapt, requirements
from jaato.runtime.plugins.lazy import Builtin, KnownTool, PluginManifest, copy_fields
from jaato.runtime.plugins.lifecycle import PluginHost
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.catalog import CATEGORY_TEXTS
from jaato.tools.tool import Tool

HEAD = """\
# Tools

Every tool that comes with jaato. *Core* tools are declared to the model from the start; the others are found with
[`list_tools`](#list_tools) and declared by [`get_tool_schemas`](#get_tool_schemas). Tools with access `read` run without asking; `write`,
`execute` and `network` ask, unless a rule allows them ([permissions](../guides/permissions.md)). The price is what the declaration costs in
each request, in tokens, estimated at four bytes a token.

This page is made from the code by `make docs`.
"""
BYTES_PER_TOKEN = 4


def toolsets() -> list[Toolset]:
    """The records of all built-in plugins, from their code, in the order they are declared in."""
    with tempfile.TemporaryDirectory() as place:
        registry = PluginRegistry(workspace=Path(place), services={"environ": {"HOME": place}})
        made = [
            adapt(Builtin(name, path)()(PluginHost(registry, MappingProxyType({}))))
            for name, path in BUILTIN.items()
        ]
        for toolset in made:
            toolset.plugin.shutdown()
        return made


def tools() -> list[Tool]:
    """Their tools."""
    return [tool for toolset in toolsets() for tool in toolset.tools]


def known_file() -> str:
    """`known.json`: what is known of a plugin before it is imported."""
    known = {
        toolset.name: entry
        for toolset in toolsets()
        if (entry := manifest_of(toolset, toolset.plugin, requirements(toolset.plugin)))
    }
    return msgspec.json.format(msgspec.json.encode(known), indent=1).decode() + "\n"


def manifest_of(toolset: Toolset, plugin: Plugin, requirements: list[str]) -> PluginManifest | None:
    """What to write down of an exposed plugin; None when it cannot wait."""
    if toolset.background is not None:
        return None
    tools = [
        KnownTool(
            **copy_fields(tool),
            aliases={alias: dict(rename) for alias, rename in tool.aliases.items()},
            examines=tool.examines is not None,
            reaches=tool.reaches is not None,
            previews=tool.previews is not None,
        )
        for tool in toolset.tools
    ]
    commands = [command for command, _ in toolset.commands.values()]
    enrichment = toolset.enrichment if toolset.enrich is not None else None
    return PluginManifest(
        tools, commands, toolset.instructions, requirements, list(plugin.looks_at), enrichment
    )


def tools_page() -> str:
    """`tools.md`."""
    known = tools()
    core = [tool for tool in known if tool.spec.discoverability == "core"]
    price = sum(tokens(tool) for tool in core)
    lines = [
        HEAD,
        f"There are {len(known)} tools; the {len(core)} core tools cost about {price:,} tokens together.\n",
    ]
    lines += ["| tool | category | declared | access | plugin | tokens |", "|---|---|---|---|---|---:|"]
    for tool in known:
        spec = tool.spec
        lines.append(
            f"| [`{tool.name}`](#{tool.name.lower()}) | {spec.category} | {declared(tool)} | {spec.access} | {tool.plugin} "
            f"| {tokens(tool)} |"
        )
    categories = list(dict.fromkeys(tool.spec.category for tool in known))
    for category in categories:
        lines += ["", f"## {category.capitalize()}", "", CATEGORY_TEXTS[category].capitalize() + "."]
        for tool in known:
            if tool.spec.category == category:
                lines += ["", *entry(tool)]
    return "\n".join(lines) + "\n"


def declared(tool: Tool) -> str:
    """When the model sees it."""
    return "core" if tool.spec.discoverability == "core" else "on demand"


def tokens(tool: Tool) -> int:
    """About what the declaration costs."""
    spec = tool.spec
    whole = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return -(-len(encode(whole)) // BYTES_PER_TOKEN)


def entry(tool: Tool) -> list[str]:
    """One tool in full."""
    spec = tool.spec
    facts = [declared(tool), f"access {spec.access}", f"about {tokens(tool)} tokens"]
    if tool.background_after_s is not None:
        facts.append(f"continues in the background after {tool.background_after_s:g} s")
    if tool.timeout_s is not None:
        facts.append(f"ends after {tool.timeout_s:g} s")
    lines = [f"### {tool.name}", "", f"{', '.join(facts).capitalize()}."]
    if tool.aliases:
        lines.append(
            f"Also called {', '.join(alias_text(name, dict(rename)) for name, rename in tool.aliases.items())}."
        )
    lines += ["", *[f"> {line}".rstrip() for line in spec.description.splitlines()]]
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    if properties:
        required = spec.parameters.get("required", [])
        lines += ["", "| parameter | type | default | |", "|---|---|---|---|"]
        lines += [row(name, schema, name in required, spec.parameters) for name, schema in properties.items()]
    return lines


def alias_text(name: str, rename: dict[str, str]) -> str:
    """Another name, and what its arguments are called."""
    changed = ", ".join(f"`{old}` for `{new}`" for old, new in rename.items() if old != new)
    return f"`{name}`" + (f" (with {changed})" if changed else "")


def row(name: str, schema: dict[str, Any], required: bool, whole: dict[str, Any]) -> str:
    """One parameter."""
    default = (
        "required" if required else f"`{encode(schema['default']).decode()}`" if "default" in schema else ""
    )
    text = str(schema.get("description", "")).replace("|", "\\|")
    return f"| `{name}` | {kind(schema, whole)} | {default} | {text} |"


def kind(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    """The type of a value, in words."""
    match schema:
        case {"$ref": str(reference)}:
            found = whole.get("$defs", {}).get(reference.rsplit("/", 1)[1], {})
            inner = ", ".join(f"`{name}`" for name in found.get("properties", {}))
            return f"object ({inner})" if inner else "object"
        case {"enum": list(values)}:
            return ", ".join(f"`{value}`" for value in values)
        case {"anyOf": list(choices)}:
            return " or ".join(kind(choice, whole) for choice in choices)
        case {"type": "array", "items": dict(item)}:
            return f"list of {kind(item, whole)}"
        case {"type": str(name)}:
            return name
    return "any"
