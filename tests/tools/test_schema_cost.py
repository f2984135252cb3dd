"""Schemas that would hold the program: counted first, refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.tools.schema import SchemaCost, Validator


def doubling(levels: int) -> dict[str, Any]:
    """Each definition refers to the one before it twice."""
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, levels + 1):
        before = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"anyOf": [before, before]}
    return {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{levels}"}}, "$defs": definitions}


EXPRESSION: dict[str, Any] = {
    "$defs": {
        "e": {
            "anyOf": [
                {"type": "number"},
                {"type": "object", "properties": {"add": {"$ref": "#/$defs/e"}}, "required": ["add"]},
                {"type": "object", "properties": {"mul": {"$ref": "#/$defs/e"}}, "required": ["mul"]},
            ]
        }
    },
    "type": "object",
    "properties": {"e": {"$ref": "#/$defs/e"}},
}
TWICE: dict[str, Any] = {
    "$defs": {
        "t": {
            "anyOf": [
                {"properties": {"a": {"$ref": "#/$defs/t"}, "x": {"type": "number"}}},
                {"properties": {"a": {"$ref": "#/$defs/t"}, "x": {"type": "number"}}},
            ]
        }
    },
    "$ref": "#/$defs/t",
}


def nested(key: str, levels: int, inner: Any) -> Any:
    """A value inside as many objects."""
    value = inner
    for _ in range(levels):
        value = {key: value}
    return value


@pytest.mark.parametrize("levels", [30, 64, 5000])
def test_doubling_references_are_refused_at_once(levels: int) -> None:
    """A schema of a few kilobytes that would validate for ever gives a reason instead."""
    issues = Validator(doubling(levels)).issues({"a": 1})
    assert "too many alternatives" in issues[0][1]
    assert Validator(doubling(levels)).issues({}) == []


def test_depth_that_doubles_is_refused() -> None:
    """Recursion through a member doubles with every level of the value, not of the schema."""
    assert "too many" in Validator(TWICE).issues(nested("a", 60, {"x": "no"}))[0][1]
    assert Validator(TWICE).issues(nested("a", 8, {"x": 1})) == []
    assert Validator(TWICE).issues(nested("a", 8, {"x": "no"})) != []


def test_unevaluated_properties_double_too() -> None:
    """Working out what was evaluated applies the same subschemas again."""
    schema: dict[str, Any] = {"properties": {"z": {"type": "number"}}}
    for _ in range(40):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    assert SchemaCost({"$defs": {"s": schema}, "$ref": "#/$defs/s"}).exceeds({"z": 1})


def test_ordinary_recursion_is_checked() -> None:
    """A recursive schema as people write them is validated as deep as values may go."""
    validator = Validator(EXPRESSION)
    assert validator.issues({"e": nested("add", 90, 1)}) == []
    assert validator.issues({"e": nested("add", 90, "x")}) != []
    assert not validator._cost.bounded


def test_a_schema_without_recursion_is_not_counted() -> None:
    """What cannot explode costs nothing at the call."""
    plain = {"$defs": {"p": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/p"}}}
    assert SchemaCost(plain).bounded
    assert SchemaCost({"type": "object"}).bounded
    assert not SchemaCost(doubling(30)).bounded


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {
            "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}},
            "$ref": "#/$defs/a",
        },
        {"$ref": "#/nowhere/1/~0~1%20"},
        {"$ref": "#name", "$defs": {"x": {"$anchor": "name", "anyOf": [{"$ref": "#name"}]}}},
        {"allOf": "no list", "properties": 3, "items": [True, {"$ref": "#"}], "not": None},
    ],
)
def test_odd_references_are_counted_without_falling_over(schema: dict[str, Any]) -> None:
    """Circles, references to nowhere and keywords of the wrong type neither hang nor raise."""
    assert SchemaCost(schema).exceeds({"a": [1, {"b": [[]]}]}) in (True, False)


KEYWORDS = st.sampled_from(["anyOf", "allOf", "oneOf"])


@given(data=st.data(), levels=st.integers(1, 7), width=st.integers(1, 3))
def test_the_count_is_no_less_than_the_work(data: st.DataObject, levels: int, width: int) -> None:
    """Expanding every reference by hand gives as many steps as were counted."""
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, levels + 1):
        targets = data.draw(st.lists(st.integers(0, level - 1), min_size=1, max_size=width))
        definitions[f"d{level}"] = {data.draw(KEYWORDS): [{"$ref": f"#/$defs/d{one}"} for one in targets]}

    def expanded(name: str) -> int:
        (nodes,) = [value for value in definitions[name].values() if isinstance(value, list)] or [[]]
        return 1 + sum(1 + expanded(node["$ref"].rpartition("/")[2]) for node in nodes)

    top = {"$defs": definitions, "$ref": f"#/$defs/d{levels}"}
    steps = SchemaCost(top)._closure(top).total()
    assert steps == 1 + expanded(f"d{levels}")
