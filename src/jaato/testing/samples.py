"""Arguments that fit a schema, as far as one can guess them."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 12


def sample(schema: Any, whole: dict[str, Any] | None = None, depth: int = 0) -> Any:
    """A value that should fit this schema; `whole` is where its references point."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return None
    whole = schema if whole is None else whole
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    if reference := schema.get("$ref"):
        return sample(resolved(reference, whole), whole, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            merged = {**{k: v for k, v in schema.items() if k != key}, **schema[key][0]}
            return sample(merged, whole, depth + 1)
    return plain_sample(schema, whole, depth)


def plain_sample(schema: dict[str, Any], whole: dict[str, Any], depth: int) -> Any:
    """A value of the schema's type."""
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            properties = schema.get("properties", {})
            return {
                name: sample(properties.get(name, {}), whole, depth + 1)
                for name in schema.get("required", [])
            }
        case "array":
            items = schema.get("items", {})
            return [sample(items, whole, depth + 1) for _ in range(schema.get("minItems", 0))]
        case "integer" | "number":
            least = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
            return min(max(least, 0), schema.get("maximum", max(least, 0)))
        case "boolean":
            return False
        case "null":
            return None
    text = {"date": "2026-01-02", "date-time": "2026-01-02T03:04:05Z", "uri": "https://example.com/"}
    return text.get(schema.get("format", ""), "a" * max(1, schema.get("minLength", 1)))


def resolved(reference: str, whole: dict[str, Any]) -> Any:
    """The definition a local reference points to; an empty one when there is none."""
    found: Any = whole
    for step in reference.removeprefix("#").strip("/").split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(found, dict) else {}
    return found
