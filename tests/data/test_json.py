"""`json_query` and `json_validate` on documents of every kind and size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.data_workspace import Desk

from jaato.errors import ToolError
from jaato.plugins.data.plugin import DataPlugin

SHOP = {
    "items": [{"n": i, "name": f"i{i}", "ok": i % 2 == 0} for i in range(1000)],
    "meta": {"a b": [1, None]},
}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A workspace with a document in each format."""
    made = Desk(DataPlugin, tmp_path / "w")
    (made.workspace / "s.json").write_text(json.dumps(SHOP))
    (made.workspace / "s.jsonl").write_text("\n".join(json.dumps(item) for item in SHOP["items"]) + "\n")
    (made.workspace / "s.yaml").write_text("a: &x [1, 2]\nb: *x\nwhen: 2024-01-02\n")
    (made.workspace / "two.yml").write_text("a: 1\n---\na: 2\n")
    (made.workspace / "s.toml").write_text("[tool.x]\ny = 1.5\nwhen = 2024-01-02\n")
    return made


def refused(desk: Desk, name: str, **arguments: Any) -> str:
    """The message of a call that must fail."""
    with pytest.raises(ToolError) as caught:
        desk.call(name, **arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "expression", "wanted"),
    [
        ("s.json", "items[?ok].n | [:3]", [0, 2, 4]),
        ("s.json", "length(items)", 1000),
        ("s.json", 'meta."a b"', [1, None]),
        ("s.json", "nothing.here", None),
        ("s.jsonl", "[?n > `997`].name", ["i998", "i999"]),
        ("s.yaml", "b", [1, 2]),
        ("s.yaml", "when", "2024-01-02"),
        ("two.yml", "[].a", [1, 2]),
        ("s.toml", "tool.x", {"y": 1.5, "when": "2024-01-02"}),
    ],
)
def test_an_expression_finds_its_part(desk: Desk, path: str, expression: str, wanted: Any) -> None:
    """JSON, JSON Lines, YAML and TOML are questioned alike."""
    assert desk.call("json_query", path=path, expression=expression)["result"] == wanted


def test_a_text_can_be_given_instead(desk: Desk) -> None:
    """The document itself, in any of the formats."""
    assert desk.call("json_query", text='{"a": [1, 2]}', expression="a[1]") == {"result": 2}
    assert desk.call("json_query", text="a: [x]", format="yaml", expression="a[0]") == {"result": "x"}
    assert "either" in refused(desk, "json_query", expression="a")
    assert "either" in refused(desk, "json_query", expression="a", text="1", path="s.json")


def test_a_file_of_any_size_is_read_item_by_item(desk: Desk) -> None:
    """`each` goes through JSON Lines and through a top-level array larger than is read whole."""
    said = desk.call("json_query", path="s.jsonl", expression="ok && name", each=True, max_items=5)
    assert (said["result"][:2], len(said["result"]), said["more"]) == (["i0", "i2"], 5, True)
    filler = json.dumps({"pad": "x" * 10_000, "n": 1})
    with open(desk.workspace / "big.json", "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join([filler] * 11_000) + ',{"last": 12345678}]')
    assert "each=true" in refused(desk, "json_query", path="big.json", expression="@")
    said = desk.call("json_query", path="big.json", expression="last", each=True)
    assert said == {"result": [12345678], "items_read": 11_001}


def test_long_results_are_cut_and_say_so(desk: Desk) -> None:
    """Of a long list the first items are given; a value that is too long begins as text."""
    said = desk.call("json_query", path="s.json", expression="items", max_items=2)
    assert (len(said["result"]), said["more"]) == (2, True)
    (desk.workspace / "long.json").write_text(json.dumps({"a": "x" * 3_000_000}))
    said = desk.call("json_query", path="long.json", expression="@")
    assert (said["more"], len(said["result"])) == (True, 1_000_000)


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("{", "json", "line 1, column 2"),
        ('{"a": 1}\n{"a": 2}', "json", "jsonl"),
        ('{"a": 1}\n{"a"', "jsonl", "line 2"),
        ("[" * 200_000, "json", "nested"),
        ("a: [", "yaml", "YAML"),
        ("a: !!python/object/apply:os.system [x]", "yaml", "YAML"),
        ("x = ", "toml", "TOML"),
        ("9" * 5_000, "json", "JSON"),
    ],
)
def test_a_broken_document_is_named_with_its_place(desk: Desk, text: str, kind: str, says: str) -> None:
    """What cannot be read says where; nothing in a document is ever run."""
    assert says in refused(desk, "json_query", text=text, format=kind, expression="@")


def test_aliases_that_multiply_are_bounded(desk: Desk) -> None:
    """A YAML document of a few lines that means billions of values is refused."""
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
    )
    (desk.workspace / "bomb.yaml").write_text(bomb)
    assert "aliases" in refused(desk, "json_query", path="bomb.yaml", expression="@")
    assert "aliases" in refused(desk, "json_validate", path="bomb.yaml", schema={"type": "object"})


def test_numbers_json_has_no_spelling_for_are_text(desk: Desk) -> None:
    """NaN and infinity, which some programs write, do not break the result."""
    assert desk.call("json_query", text="[NaN, Infinity]", expression="@") == {"result": ["NaN", "Infinity"]}
    assert desk.call("json_query", text="a: .nan", format="yaml", expression="a") == {"result": "NaN"}


def test_a_wrong_expression_is_explained(desk: Desk) -> None:
    """Syntax errors, unknown functions and wrong types each say what JMESPath wants."""
    for expression in ("a[[", "nope(@)", "length(`1`)", "[" * 3000):
        assert refused(desk, "json_query", path="s.json", expression=expression)


def test_a_document_is_held_against_a_schema(desk: Desk) -> None:
    """Every problem comes with its place; schemas refer to nothing outside."""
    schema = {
        "type": "object",
        "required": ["b"],
        "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
    }
    (desk.workspace / "schema.json").write_text(json.dumps(schema))
    said = desk.call("json_validate", text='{"a": [1, "x"]}', schema_path="schema.json")
    assert said["valid"] is False
    assert {problem["path"] for problem in said["problems"]} == {"/b", "/a/1"}
    assert desk.call("json_validate", text='{"a": [1], "b": 0}', schema=schema) == {"valid": True}
    assert desk.call("json_validate", path="s.toml", schema={"required": ["tool"]}) == {"valid": True}
    assert refused(desk, "json_validate", text="1", schema={"$ref": "file:///etc/passwd"})
    assert refused(desk, "json_validate", text="1", schema={"type": "nonsense"})
    many = desk.call("json_validate", text=json.dumps(["x"] * 500), schema={"items": {"type": "integer"}})
    assert (len(many["problems"]), many["more"]) == (50, 450)


def test_yaml_and_toml_are_plain_json_to_an_expression(desk: Desk) -> None:
    """Dates, keys that are no text, sets and bytes are what JSON has for them, and shared parts stay shared."""
    text = "2024-01-02: x\n7: y\n~: z\ntrue: t\nset: !!set {b, a}\nraw: !!binary aGk=\nat: 2024-01-02T03:04:05Z\n"
    said = desk.call("json_query", text=text, format="yaml", expression="@")["result"]
    assert said == {"2024-01-02": "x", "7": "y", "null": "z", "true": "t", "set": ["a", "b"], "raw": "aGk=",
                    "at": "2024-01-02T03:04:05+00:00"}  # fmt: skip
    assert desk.call("json_query", text=text, format="yaml", expression='"7"')["result"] == "y"
    said = desk.call("json_query", text="[2024-01-03, 2024-01-02]", format="yaml", expression="sort(@)")
    assert said["result"] == ["2024-01-02", "2024-01-03"]
    schema = {"required": ["2024-01-02"]}
    assert desk.call("json_validate", text=text, format="yaml", schema=schema) == {"valid": True}
    pairs = "a0: &a0 !!pairs [x: 1]\n" + "".join(
        f"a{one}: &a{one} !!pairs [x: *a{one - 1}, y: *a{one - 1}, z: *a{one - 1}]\n" for one in range(1, 20)
    )
    assert "by its aliases" in refused(desk, "json_query", text=pairs, format="yaml", expression="@")


@pytest.mark.parametrize("expression", ["[?a < `3`]", "[::0]", "contains([0].a, `1`)"])
def test_an_expression_that_meets_unfit_values_is_told_so(desk: Desk, expression: str) -> None:
    """Values an expression cannot compare or slice are named, with what to do."""
    message = refused(desk, "json_query", text='[{"a": "x"}, {"a": 1}]', expression=expression)
    assert "meets values it cannot work with" in message
    assert "type(a)" in message


def test_json_lines_end_at_newlines_alone(desk: Desk) -> None:
    """The other line breaks of Unicode may stand within a JSON text."""
    text = '{"a": "x\u2028y\x85z"}\r\n{"a": 1}\n'
    assert desk.call("json_query", text=text, format="jsonl", expression="[].a")["result"] == [
        "x\u2028y\x85z",
        1,
    ]
