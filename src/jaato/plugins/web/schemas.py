"""The schema of an operation as JSON Schema that stands alone: of a document, only what it refers to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaato.errors import ToolError

MAX_PARTS = 50_000
MAX_NAMED = 2_000
MAX_DEPTH = 150
IDENTITY = frozenset(("$id", "$schema", "$anchor", "$dynamicAnchor"))
"""Words by which a schema would be found or read otherwise than from where it stands in the document."""
MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
"""Words under which any name may stand, with a schema each."""
DATA = frozenset(("enum", "const", "default", "example", "examples"))


class DocumentInvalid(ToolError):
    """The document is no OpenAPI 3 document, or leads outside itself."""

    code = "openapi_invalid"


def alone(schema: dict[str, Any], at: Callable[[str], Any], *, old: bool) -> dict[str, Any]:
    """The schema with all it refers to under `$defs`; `at` looks a reference up, `old` reads it as OpenAPI 3.0 has it.

    Raises `DocumentInvalid` for a reference out of the document and for more than can be checked in a moment.
    """
    gathered = Gathered(at)
    found: dict[str, Any] = gathered.copied(schema, 0)
    whole = {**found, "$defs": gathered.definitions()}
    return modern(whole) if old else whole


class Gathered:
    """What a schema refers to, each under a name of its own."""

    def __init__(self, at: Callable[[str], Any]) -> None:
        self._at = at
        self._names: dict[str, str] = {}
        self._left = MAX_PARTS

    def definitions(self) -> dict[str, Any]:
        """What was referred to, and what that refers to."""
        made: dict[str, Any] = {}
        while len(made) < len(self._names):
            for reference, name in list(self._names.items())[len(made) :]:
                made[name] = self.copied(self._at(reference), 0)
        return made

    def copied(self, value: Any, depth: int) -> Any:
        """A part of a schema whose references lead to the definitions."""
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH or len(self._names) > MAX_NAMED:
            raise DocumentInvalid(
                "The schema of this operation is too large or too deep to be checked. Use http_request instead."
            )
        match value:
            case list():
                return [self.copied(one, depth + 1) for one in value]
            case dict():
                found = {
                    key: self._entry(key, one, depth) for key, one in value.items() if key not in IDENTITY
                }
                return found | (
                    {"$ref": self._name(value["$ref"])} if isinstance(value.get("$ref"), str) else {}
                )
        return value

    def _entry(self, key: str, value: Any, depth: int) -> Any:
        if key in DATA:
            return value
        if key in MAPS and isinstance(value, dict):
            return {name: self.copied(one, depth + 2) for name, one in value.items()}
        return self.copied(value, depth + 1)

    def _name(self, reference: str) -> str:
        return "#/$defs/" + self._names.setdefault(reference, f"part{len(self._names)}")


def modern(schema: Any, depth: int = 0) -> Any:
    """A schema of OpenAPI 3.0 as JSON Schema says it: `nullable`, and exclusive bounds as numbers."""
    if isinstance(schema, list):
        return [modern(one, depth + 1) for one in schema] if depth < 200 else schema
    if not isinstance(schema, dict) or depth >= 200:
        return schema
    found = {key: modern(value, depth + 1) for key, value in schema.items()}
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if found.get(exclusive) is True and bound in found:
            found[exclusive] = found.pop(bound)
        elif isinstance(found.get(exclusive), bool):
            del found[exclusive]
    if found.get("nullable") is True:
        del found["nullable"]
        if isinstance(found.get("type"), str):
            found["type"] = [found["type"], "null"]
            if isinstance(found.get("enum"), list) and None not in found["enum"]:
                found["enum"] = [*found["enum"], None]
        else:
            return {"anyOf": [found, {"type": "null"}]}
    return found
