"""The JSON Schema that constrains a turn of the embedded model: a call of one declared tool, or the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaato.protocol.specs import ToolSpec
from jaato.tools.schema import closed_object

MAX_STRING_CHARS = 6000
MAX_ANSWER_CHARS = 4000
MAX_ITEMS = 32
MAX_STEP_CHARS = 80
STEP = {"type": "string", "maxLength": MAX_STEP_CHARS}
PROSE = frozenset({"title", "description", "default", "examples", "$comment", "deprecated", "$schema", "$id"})
NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
VERBATIM = frozenset({"const", "enum", "required"})
GUIDANCE: dict[str, Any] = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "lenient": True,
}
"""No free whitespace, which small models lose themselves in; keywords the grammar cannot hold are left to the
check."""


def turn_schema(
    tools: Sequence[ToolSpec], response: dict[str, Any] | None = None, *, exact: bool = True
) -> dict[str, Any]:
    """The schema of a turn over these tools; `response` is the schema of the answer when it is not text.

    Every string and list is bounded, no object has properties its tool does not know, `tool` comes before
    `args`. With `exact` false the arguments are any object: for schemas that the grammar cannot express.
    """
    definitions: dict[str, Any] = {}
    choices: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        key = f"t{index}"
        parameters = tool.parameters if exact else {"type": "object"}
        definitions[key] = limit_schema({**parameters, "type": "object"}, f"#/$defs/{key}")
        choices.append(
            closed_object({"step": STEP, "tool": {"const": tool.name}, "args": {"$ref": f"#/$defs/{key}"}})
        )
    if response is None:
        answer: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": MAX_ANSWER_CHARS}
    else:
        definitions["answer"] = limit_schema(response, "#/$defs/answer")
        answer = {"$ref": "#/$defs/answer"}
    choices.append(closed_object({"answer": answer}))
    return {"x-guidance": GUIDANCE, "anyOf": choices, "$defs": definitions}


def limit_schema(schema: Any, root: str) -> Any:
    """A tool's own schema with bounds where it has none, without prose, its references moved below `root`."""
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        match key, value:
            case _ if key in PROSE:
                continue
            case "$ref", str() as target if target.startswith("#"):
                result[key] = root + target[1:]
            case _, dict() if key in NAMED:
                result[key] = {name: limit_schema(entry, root) for name, entry in value.items()}
            case _, list() if key not in VERBATIM:
                result[key] = [limit_schema(entry, root) for entry in value]
            case _, dict() if key not in VERBATIM:
                result[key] = limit_schema(value, root)
            case _:
                result[key] = value
    return with_bounds(result)


def with_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with a longest string, a longest list and no further properties, where it says nothing of
    them."""
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if "string" in kinds and "enum" not in schema and "const" not in schema:
        schema["maxLength"] = min(schema.get("maxLength", MAX_STRING_CHARS), MAX_STRING_CHARS)
    if "array" in kinds:
        schema["maxItems"] = min(schema.get("maxItems", MAX_ITEMS), MAX_ITEMS)
    combined = any(key in schema for key in ("allOf", "anyOf", "oneOf", "$ref", "patternProperties"))
    if "object" in kinds and not combined and "properties" in schema:
        schema.setdefault("additionalProperties", False)
    return schema
