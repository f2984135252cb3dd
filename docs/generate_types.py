"""The TypeScript types of the protocol, generated from the same schema as the reference, for clients in `clients/web`."""

from __future__ import annotations

import json
from inspect import cleandoc
from typing import Any, get_args

import msgspec

from jaato.protocol.commands import Command
from jaato.protocol.events import Event
from jaato.protocol.frames import Hello, Reply, Welcome

SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
RENAMED = {"Event": "ProtocolEvent"}
"""Names that would hide a global type."""
HEAD = """// Generated from the protocol's schema by `python -m docs.generate`. Do not edit.
"""


def types_file() -> str:
    """The module with one type for each definition, and the unions of events and commands."""
    (events, commands, *_), definitions = msgspec.json.schema_components(
        (Event, Command, Hello, Welcome, Reply)
    )
    for kind in get_args(Event):
        definitions[kind.__name__]["required"].append("timestamp")  # it has a default only for who makes one
    parts = [HEAD]
    for name, definition in sorted(definitions.items()):
        comment = cleandoc(definition.get("description", ""))
        parts.append(doc_comment(comment) + declaration(name, definition))
    parts.append("/** Every event. */\nexport type ProtocolEvent =" + union(events) + ";\n")
    ephemeral = sorted(kind.__struct_config__.tag for kind in get_args(Event) if not kind.durable)
    names = "".join(f"\n  {json.dumps(name)}," for name in ephemeral)
    parts.append(
        "/** The types of events that are in no log. */\n"
        f"export const EPHEMERAL: ReadonlySet<string> = new Set([{names}\n]);\n"
    )
    parts.append("/** Every command. */\nexport type Command =" + union(commands) + ";\n")
    return "\n".join(parts)


def doc_comment(text: str) -> str:
    """A description as a comment."""
    if not text:
        return ""
    text = text.replace("*/", "* /")
    lines = text.splitlines()
    if len(lines) == 1:
        return f"/** {text} */\n"
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def declaration(name: str, definition: dict[str, Any]) -> str:
    """The type of one definition."""
    if "properties" not in definition:
        return f"export type {name} = {type_of(definition)};\n"
    required = set(definition.get("required", ()))
    fields = [
        f"  readonly {field}{'' if field in required else '?'}: {type_of(schema)};\n"
        for field, schema in definition["properties"].items()
    ]
    return f"export interface {name} {{\n{''.join(fields)}}}\n"


def union(schema: dict[str, Any]) -> str:
    """A union of many types, one a line."""
    return "".join(f"\n  | {type_of(one)}" for one in schema["anyOf"])


def type_of(schema: dict[str, Any]) -> str:
    """The type of a schema."""
    if "$ref" in schema:
        name: str = schema["$ref"].rpartition("/")[2]
        return RENAMED.get(name, name)
    if "anyOf" in schema:
        return " | ".join(type_of(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return f"readonly [{', '.join(type_of(one) for one in schema['prefixItems'])}]"
        case "array":
            item = type_of(schema.get("items", {}))
            return f"readonly ({item})[]" if " " in item else f"readonly {item}[]"
        case "object":
            inner = schema.get("additionalProperties")
            return f"Readonly<Record<string, {type_of(inner) if isinstance(inner, dict) else 'unknown'}>>"
        case str() as kind:
            return SIMPLE[kind]
    return "unknown"
