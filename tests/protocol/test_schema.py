"""The published JSON Schema of the protocol."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from docs.generate import REFERENCE, generators, main
from hypothesis import given, settings
from tests.protocol.strategies import COMMAND_TYPES, EVENT_TYPES, MESSAGES, values_of

from jaato.protocol.codec import encode, json_schema

FEW = settings(max_examples=5, deadline=None, derandomize=True, database=None)


@cache
def schema_of(part: str) -> dict[str, Any]:
    """The schema of an event, a command or a message alone."""
    whole = json_schema()
    return {"$schema": whole["$schema"], "$defs": whole["$defs"], **whole["properties"][part]}


@cache
def validator_of(part: str) -> Any:
    """What holds values against the schema of a part."""
    return jsonschema_rs.validator_for(schema_of(part))


def test_the_published_file_is_the_one_of_the_code() -> None:
    """The file in the reference is, to the byte, what the code makes."""
    path = REFERENCE / "protocol.schema.json"
    assert path.read_text(encoding="utf-8") == generators()[path]()
    assert json.loads(path.read_text(encoding="utf-8")) == json.loads(encode(json_schema()))
    assert main(["--check"]) == 0


def test_it_is_a_json_schema() -> None:
    """The schema is valid under the meta-schema of JSON Schema 2020-12, each part by itself too."""
    jsonschema_rs.meta.validate(json_schema())
    for part in ("event", "command", "message"):
        jsonschema_rs.meta.validate(schema_of(part))


def test_every_struct_is_described() -> None:
    """Everything in the schema has a description, as readers in other languages have no docstrings."""
    for name, definition in json_schema()["$defs"].items():
        assert definition["description"].endswith("."), name


@pytest.mark.parametrize("kind", [*EVENT_TYPES, *COMMAND_TYPES])
def test_what_is_encoded_is_valid(kind: type[Any]) -> None:
    """Every encoded event and command is valid, and no longer with a required field taken away."""
    part = "event" if kind in EVENT_TYPES else "command"
    validator, whole = validator_of(part), schema_of(part)
    required = whole["$defs"][kind.__name__]["required"]
    if part == "event":
        assert {"type", "session_id", "agent_id", "seq", "timestamp"} <= set(required)

    @FEW
    @given(values_of(kind))
    def check(value: Any) -> None:
        fields = msgspec.json.decode(encode(value))
        validator.validate(fields)
        for name in required:
            assert not validator.is_valid({key: item for key, item in fields.items() if key != name})

    check()


@FEW
@given(MESSAGES)
def test_messages_are_valid(message: Any) -> None:
    """Every encoded message is valid."""
    validator_of("message").validate(msgspec.json.decode(encode(message)))
