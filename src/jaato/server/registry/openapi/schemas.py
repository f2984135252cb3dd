"""The schemas of the types that cross the wire, made of the types themselves and of what is known beyond them."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import msgspec

from jaato.protocol.arp import SCHEMA_VERSION, SPOKEN
from jaato.server.registry.openapi.writing import PUT_FIELDS
from jaato.server.registry.responses import STATUS

REF = "#/components/schemas/{name}"


def types_of(bodies: Any) -> list[Any]:
    """The types that are named in these, each once."""
    found = dict.fromkeys(part for body in bodies if body is not None for part in parts_of(body))
    return [one for one in found if isinstance(one, type) and issubclass(one, msgspec.Struct)]


def parts_of(body: Any) -> tuple[Any, ...]:
    """The types in a list or a union; else the type."""
    return get_args(body) if get_origin(body) in (list, types.UnionType) else (body,)


def schema_of(body: Any) -> dict[str, Any]:
    """The schema of a type, by reference where it has a name."""
    (made,), _ = msgspec.json.schema_components([body], ref_template=REF)
    return dict(made)


NARROWED: dict[str, dict[str, Any]] = {
    "Invocation": {"schema_version": {"pattern": f"^{SPOKEN.pattern}$"}},
    "ToolError": {"code": {"enum": sorted(STATUS)}, "schema_version": {"const": SCHEMA_VERSION}},
    "ToolResult": {"schema_version": {"const": SCHEMA_VERSION}},
    "ToolDefinition": {"schema_version": {"const": SCHEMA_VERSION}},
    "Metrics": {"latency_ms": {"minimum": 0}},
    **PUT_FIELDS,
}
"""What is known of some fields beyond their types."""


def narrowed(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with what is known beyond the types."""
    for field, more in NARROWED.get(name, {}).items():
        schema["properties"][field].update(more)
    return schema


def schemas(named: list[Any], *, closed: bool) -> Mapping[str, Any]:
    """The types by their names; what is answered has no other fields than those that are told."""
    _, made = msgspec.json.schema_components(named, ref_template=REF)
    found = {name: narrowed(name, schema) for name, schema in made.items()}
    if closed:
        return {name: {**schema, "additionalProperties": False} for name, schema in found.items()}
    return found
