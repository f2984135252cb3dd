"""The form of a turn: its schema, its prompt, and reading it while it is written; no model needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.local.tools import READ, TREE

from jaato.abc.provider import CallDelta, TextDelta, ThinkingDelta
from jaato.protocol.specs import ToolSpec
from jaato.providers.local.grammar import turn_schema
from jaato.providers.local.prompt_cache import MAX_STATES, SavedStates
from jaato.providers.local.turn_reader import TurnReader


def test_a_turn_is_one_call_or_an_answer() -> None:
    """Every declared tool can be called with its own arguments, and nothing else can be said."""
    validator = jsonschema_rs.validator_for(turn_schema([READ, TREE]))
    good: list[Any] = [
        {"answer": "done"},
        {"step": "read a", "tool": "readFile", "args": {"path": "a"}},
        {"step": "", "tool": "grow", "args": {"root": {"name": "a", "kids": [{"name": "b"}]}}},
    ]
    bad: list[Any] = [
        {"answer": ""},
        {"answer": "x" * 5000},
        {"tool": "readFile", "args": {"path": "a"}},
        {"step": "s" * 100, "tool": "readFile", "args": {"path": "a"}},
        {"step": "s", "tool": "removeFile", "args": {}},
        {"step": "s", "tool": "readFile", "args": {}},
        {"step": "s", "tool": "readFile", "args": {"path": "a", "other": 1}},
        {"step": "s", "tool": "readFile", "args": {"path": "x" * 7000}},
        {"step": "s", "tool": "grow", "args": {"root": {"name": "a", "kids": [{"nom": "b"}]}}},
        {"step": "s", "tool": "readFile", "args": {"path": "a"}, "answer": "both"},
    ]
    assert all(validator.is_valid(turn) for turn in good)
    assert not any(validator.is_valid(turn) for turn in bad)


def test_arguments_are_always_an_object() -> None:
    """A tool that declares no object is still called with one."""
    validator = jsonschema_rs.validator_for(turn_schema([ToolSpec("odd", "Odd.", {"type": "string"})]))
    assert validator.is_valid({"step": "try", "tool": "odd", "args": {}})
    assert not validator.is_valid({"step": "try", "tool": "odd", "args": "text"})


def test_what_to_do_comes_before_the_tool_and_the_tool_before_its_arguments() -> None:
    """The order of the properties is the order the model writes them in."""
    text = json.dumps(turn_schema([READ]))
    assert text.index('"step"') < text.index('"tool"') < text.index('"args"')


def test_arguments_called_like_keywords_survive() -> None:
    """A parameter named `title`, `default` or `required` is a parameter, and enumerations stay as they
    are."""
    properties = {
        "title": {"type": "string"},
        "default": {"enum": [["a"], None]},
        "required": {"type": "boolean"},
    }
    spec = ToolSpec("odd", "Odd.", {"type": "object", "properties": properties, "required": ["title"]})
    validator = jsonschema_rs.validator_for(turn_schema([spec]))
    arguments = {"title": "t", "default": ["a"], "required": True}
    assert validator.is_valid({"step": "try", "tool": "odd", "args": arguments})


@given(st.text(st.characters(codec="utf-8")), st.lists(st.integers(1, 7)), st.booleans())
def test_an_answer_is_decoded_in_pieces_of_any_size(text: str, sizes: list[int], ascii_only: bool) -> None:
    """However the JSON is cut, the pieces of text are those of the answer."""
    raw = json.dumps({"answer": text}, ensure_ascii=ascii_only)
    reader = TurnReader()
    said: list[str] = []
    at = 0
    for size in [*sizes, len(raw)]:
        for delta in reader.feed(raw[at : at + size]):
            assert isinstance(delta, TextDelta)
            said.append(delta.text)
        at += size
    assert "".join(said) == text == reader.answer
    assert reader.parse() == {"answer": text}


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers()), st.integers(1, 9))
def test_a_call_is_read_in_pieces_of_any_size(arguments: dict[str, Any], size: int) -> None:
    """The pieces of the arguments make up the arguments, without the brace that closes the turn."""
    raw = json.dumps({"tool": "paint", "args": arguments})
    reader = TurnReader()
    pieces: list[str] = []
    for at in range(0, len(raw), size):
        for delta in reader.feed(raw[at : at + size]):
            assert isinstance(delta, CallDelta)
            assert delta.name == "paint"
            pieces.append(delta.arguments)
    assert json.loads("".join(pieces)) == arguments


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), st.integers(1, 9))
def test_a_step_is_thought_before_its_call(step: str, size: int) -> None:
    """What the model says it does now comes whole, as a thought, before the call it is for."""
    raw = json.dumps({"step": step, "tool": "paint", "args": {"colour": "red"}})
    reader = TurnReader()
    deltas = [delta for at in range(0, len(raw), size) for delta in reader.feed(raw[at : at + size])]
    assert deltas[0] == ThinkingDelta(step)
    assert all(isinstance(delta, CallDelta) for delta in deltas[1:])
    assert (reader.step, reader.call) == (step, "paint")


@pytest.mark.parametrize(
    "raw", ['{"answer": "a\\ud83d', '{"answer": "\\ud83d\\', '{"answer": "\\ude00x', '{"ans']
)
def test_half_a_character_is_never_given_out(raw: str) -> None:
    """A lone surrogate is replaced or waited for; what is given out can always be encoded."""
    reader = TurnReader()
    for delta in reader.feed(raw):
        assert isinstance(delta, TextDelta)
        delta.text.encode()


def test_states_are_bounded(tmp_path: Path) -> None:
    """Of the saved states the oldest go when they are too many, or too large together."""
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    states = SavedStates(tmp_path / "prompts", model, max_bytes=1000)
    for number in range(MAX_STATES + 3):
        source = tmp_path / "s"
        source.write_bytes(b"x" * 100)
        states.keep(f"k{number}", source)
    assert len(list((tmp_path / "prompts").iterdir())) == MAX_STATES
    source = tmp_path / "large"
    source.write_bytes(b"x" * 1001)
    states.keep("large", source)
    assert not (tmp_path / "prompts" / "large.state").exists()
