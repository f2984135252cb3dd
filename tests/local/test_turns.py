"""The form of a turn: its schema, its prompt, and reading it while it is written; no model needed."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.abc.provider import CallDelta, TextDelta
from jaato.errors import ModelNotFound
from jaato.protocol.messages import Media, Message, Problem, Text, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.providers.local.answer import TurnReader
from jaato.providers.local.examples import EXAMPLES
from jaato.providers.local.gguf import read_head
from jaato.providers.local.prompt import CORE, prompt_of, signature
from jaato.providers.local.schema import turn_schema
from jaato.providers.local.state import MAX_STATES, SavedStates

READ = ToolSpec(
    "readFile",
    "Read a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["path"],
    },
)
TREE = ToolSpec(
    "grow",
    "Grow a tree.",
    {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node"}},
        "required": ["root"],
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                },
                "required": ["name"],
            }
        },
    },
)


def test_a_turn_is_one_call_or_an_answer() -> None:
    """Every declared tool can be called with its own arguments, and nothing else can be said."""
    validator = jsonschema_rs.validator_for(turn_schema([READ, TREE]))
    good: list[Any] = [
        {"answer": "done"},
        {"tool": "readFile", "args": {"path": "a"}},
        {"tool": "grow", "args": {"root": {"name": "a", "kids": [{"name": "b"}]}}},
    ]
    bad: list[Any] = [
        {"answer": ""},
        {"answer": "x" * 5000},
        {"tool": "removeFile", "args": {}},
        {"tool": "readFile", "args": {}},
        {"tool": "readFile", "args": {"path": "a", "other": 1}},
        {"tool": "readFile", "args": {"path": "x" * 7000}},
        {"tool": "grow", "args": {"root": {"name": "a", "kids": [{"nom": "b"}]}}},
        {"tool": "readFile", "args": {"path": "a"}, "answer": "both"},
    ]
    assert all(validator.is_valid(turn) for turn in good)
    assert not any(validator.is_valid(turn) for turn in bad)


def test_arguments_are_always_an_object() -> None:
    """A tool that declares no object is still called with one."""
    validator = jsonschema_rs.validator_for(turn_schema([ToolSpec("odd", "Odd.", {"type": "string"})]))
    assert validator.is_valid({"tool": "odd", "args": {}})
    assert not validator.is_valid({"tool": "odd", "args": "text"})


def test_the_tool_comes_before_its_arguments() -> None:
    """The order of the properties is the order the model writes them in."""
    text = json.dumps(turn_schema([READ]))
    assert text.index('"tool"') < text.index('"args"')


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
    assert validator.is_valid({"tool": "odd", "args": arguments})


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
    assert reader.whole() == {"answer": text}


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


@pytest.mark.parametrize(
    "raw", ['{"answer": "a\\ud83d', '{"answer": "\\ud83d\\', '{"answer": "\\ude00x', '{"ans']
)
def test_half_a_character_is_never_given_out(raw: str) -> None:
    """A lone surrogate is replaced or waited for; what is given out can always be encoded."""
    reader = TurnReader()
    for delta in reader.feed(raw):
        assert isinstance(delta, TextDelta)
        delta.text.encode()


def shown(result: ToolResult) -> str:
    """A result as the model reads it."""
    prompt = prompt_of([Message("tool", [result])], "", [READ], frozenset({"readFile"}))
    return prompt.messages[-1]["content"]


def test_results_and_errors_are_told_apart() -> None:
    """A result names its tool, an error says why; what is no text is named instead of left out."""
    assert shown(ToolResult("c1", "readFile", True, [Text("1: a")])) == "Result of readFile:\n1: a"
    failed = ToolResult("c1", "readFile", False, error=Problem("x", "no such file"))
    assert shown(failed) == "Error from readFile: no such file"
    assert "image/png" in shown(ToolResult("c1", "readFile", True, [Media("image/png", "ab")]))


def test_a_result_ends_with_the_task() -> None:
    """Below each result the task stands once more, so that a small model does not stop after the first step; what was
    sent before stays as it was."""
    task = Message("user", [Text("Grow a tree, then read a.")])
    call = Message("assistant", [ToolCall("c1", "readFile", {"path": "a"})])
    result = Message("tool", [ToolResult("c1", "readFile", True, [Text("1: a")])])
    base = frozenset({"readFile"})
    before = prompt_of([task, call], "", [READ], base)
    after = prompt_of([task, call, result, Message("user", [Text("Thanks.")])], "", [READ], base)
    assert after.messages[: len(before.messages)] == before.messages
    assert "Task: Grow a tree, then read a." in after.messages[-2]["content"]
    assert after.messages[-1]["content"] == "Thanks."


def test_a_missing_program_leads_to_the_search_for_a_tool() -> None:
    """When a command's program is not installed, the result points to `list_tools`, where that is declared."""
    search = ToolSpec("list_tools", "Find tools.", {"type": "object", "properties": {}})
    for output, tools, told in (
        ("exit code 127\nbash: mail: command not found", [READ, search], True),
        ("exit code 127\nbash: mail: command not found", [READ], False),
        ("exit code 0\nsent", [READ, search], False),
    ):
        result = Message("tool", [ToolResult("c1", "run", True, [Text(output)])])
        prompt = prompt_of([result], "", tools, frozenset(tool.name for tool in tools))
        assert ("Call list_tools" in prompt.messages[-1]["content"]) is told


def test_activation_leaves_everything_before_it_as_it_was() -> None:
    """A tool activated in mid-session is added behind: the messages sent before stay the same, and it has a
    line."""
    base = frozenset({"readFile", "get_tool_schemas"})
    search = ToolSpec("get_tool_schemas", "Get tools.", {"type": "object", "properties": {}})
    said = [Message("user", [Text("Grow.")])]
    before = prompt_of(said, "Be brief.", [READ, search], base)
    call = Message("assistant", [ToolCall("c1", "get_tool_schemas", {"names": ["grow"]})])
    schema = {"name": "grow", "description": TREE.description, "parameters": TREE.parameters}
    result = Message("tool", [ToolResult("c1", "get_tool_schemas", True, structured={"schemas": [schema]})])
    after = prompt_of([*said, call, result], "Be brief.", [READ, search, TREE], base)
    assert after.messages[: len(before.messages)] == before.messages
    assert after.fixed == before.fixed
    assert signature(TREE) in after.messages[-1]["content"]


def test_a_tool_whose_schema_was_forgotten_is_listed_again() -> None:
    """When compaction took the result that showed a tool, the tool still has its line."""
    prompt = prompt_of([Message("user", [Text("Grow.")])], "", [READ, TREE], frozenset({"readFile"}))
    assert any(signature(TREE) in message["content"] for message in prompt.messages)


def test_messages_that_are_not_the_users_say_so() -> None:
    """A message from the system or a child is marked."""
    message = Message("user", [Text("Stop.")], source="system")
    assert prompt_of([message], "", [], frozenset()).messages[-1]["content"] == "[system] Stop."


def test_examples_use_what_is_declared() -> None:
    """Each of them alternates and ends with a turn of the model, the last one with an answer, and one is shown only
    when its tools are declared."""
    assert len(EXAMPLES) <= 20
    assert "answer" in json.loads(EXAMPLES[-1].turns[-1])
    for example in EXAMPLES:
        assert len(example.turns) % 2 == 0
        assert example.uses <= set(CORE)
        for turn in example.turns[1::2]:
            json.loads(turn)
    alone = prompt_of([], "", [READ], frozenset({"readFile"}))
    assert not any("writeNewFile" in message["content"] for message in alone.messages)


def test_a_signature_is_one_line() -> None:
    """Names, types, choices and what is optional, on one line however long the description."""
    spec = ToolSpec(
        "pick",
        "Pick.\nOne of many. " + "word " * 100,
        {
            "properties": {
                "kind": {"enum": ["a", "b"]},
                "many": {"type": "array", "items": {"type": "integer"}},
                "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "deep": {"type": "object", "properties": {"x": {"type": "number"}}},
            },
            "required": ["kind"],
        },
    )
    line = signature(spec)
    assert line.startswith(
        '- pick(kind: "a"|"b", many?: [integer], maybe?: string, deep?: {x: number}): Pick. One'
    )
    assert "\n" not in line
    assert len(line) < 350


def gguf(*entries: tuple[str, int, bytes]) -> bytes:
    """A GGUF head with these entries."""
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries))
    for key, kind, value in entries:
        data += struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value
    return data


def test_the_head_tells_the_context_limit(tmp_path: Path) -> None:
    """The trained context is read without reading the vocabulary behind it."""
    path = tmp_path / "m.gguf"
    name = struct.pack("<Q", 5) + b"qwen2"
    path.write_bytes(
        gguf(
            ("general.architecture", 8, name),
            ("qwen2.context_length", 4, struct.pack("<I", 4096)),
            ("tokenizer.ggml.tokens", 9, b""),
        )
    )
    head = read_head(path)
    assert (head.architecture, head.context_limit) == ("qwen2", 4096)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GGUF",
        b"GGUF" + struct.pack("<IQQ", 9, 0, 0),
        gguf(("a", 8, struct.pack("<Q", 1 << 60))),
        gguf(("a", 77, b"")),
        gguf(("general.architecture", 8, struct.pack("<Q", 2) + b"\xff\xfe")),
    ],
)
def test_a_damaged_head_is_an_error_of_ours(tmp_path: Path, data: bytes) -> None:
    """Whatever the bytes, what is raised is `ModelNotFound` with the file's name."""
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(ModelNotFound, match=r"m\.gguf"):
        read_head(path)


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
