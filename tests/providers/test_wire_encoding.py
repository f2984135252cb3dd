"""JSON of any value we may hold, and what a result shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from tests.providers.histories import values

from jaato.protocol.messages import Media, Problem, Text, ToolResult
from jaato.providers.wire_encoding import encode_json, result_content


@given(values)
def test_any_value_can_be_written(value: Any) -> None:
    """Lone surrogates, integers of any size, NaN and infinity: the result is JSON in UTF-8 all the same."""
    json.loads(encode_json({"a": value}).decode())


def test_what_json_cannot_carry_becomes_something_near() -> None:
    """A lone surrogate becomes a question mark, infinity null, a bottomless value ends."""
    odd = ["a\ud800b", 2**70, float("inf"), {"k\udfff": 1}]
    assert json.loads(encode_json(odd)) == ["a\ufffdb", 2**70, None, {"k\ufffd": 1}]
    bottomless: list[Any] = []
    bottomless.append(bottomless)
    assert encode_json(bottomless).count(b"[") < 200


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (ToolResult("c", "t", ok=True), "(no output)"),
        (ToolResult("c", "t", ok=True, structured={"a": 1}), '{"a":1}'),
        (ToolResult("c", "t", ok=True, content=[Text(" ")]), "(no output)"),
        (ToolResult("c", "t", ok=False, error=Problem("denied", "no")), "denied: no"),
        (ToolResult("c", "t", ok=False), "the call failed"),
        (ToolResult("c", "t", ok=False, content=[Media("image/png", "x")]), "the call failed"),
    ],
)
def test_a_result_always_says_something(result: ToolResult, shown: str) -> None:
    """An empty result, a structured one and a failure each have words for the model."""
    first = result_content(result)[0]
    assert isinstance(first, Text)
    assert first.text == shown
