"""The conversation as the embedded model reads it; no model needed."""

from __future__ import annotations

import json

from tests.local.tools import READ, TREE

from jaato.protocol.messages import Media, Message, Part, Problem, Text, Thinking, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.providers.local.examples import EXAMPLES
from jaato.providers.local.prompt import CORE, build_prompt, signature


def shown(result: ToolResult) -> str:
    """A result as the model reads it."""
    prompt = build_prompt([Message("tool", [result])], "", [READ], frozenset({"readFile"}))
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
    before = build_prompt([task, call], "", [READ], base)
    after = build_prompt([task, call, result, Message("user", [Text("Thanks.")])], "", [READ], base)
    assert after.messages[: len(before.messages)] == before.messages
    assert "Task: Grow a tree, then read a." in after.messages[-2]["content"]
    assert after.messages[-1]["content"] == "Thanks."


def test_a_call_stays_as_the_model_wrote_it() -> None:
    """A call of its own is shown with the step it was made for; what another model thought is not shown at all."""
    parts: list[Part] = [Thinking("read a"), ToolCall("c1", "readFile", {"path": "a"})]
    shown = {
        provider: build_prompt(
            [Message("assistant", parts, provider=provider)], "", [READ], frozenset({"readFile"})
        )
        for provider in ("local", "other")
    }
    own = shown["local"].messages[-1]["content"]
    assert own == '{"step": "read a", "tool": "readFile", "args": {"path": "a"}}'
    assert shown["other"].messages[-1]["content"] == own.replace("read a", "use readFile")


def test_an_example_of_a_missing_tool_goes_when_the_tool_is_there() -> None:
    """The copy that has to be searched for is no example where `copyFile` is declared."""
    search = ToolSpec("list_tools", "Find tools.", {"type": "object", "properties": {}})
    copy = ToolSpec("copyFile", "Copy a file.", {"type": "object", "properties": {}})
    without, with_it = (
        build_prompt([], "", tools, frozenset(tool.name for tool in tools)).messages
        for tools in ([READ, search], [READ, search, copy])
    )
    assert any("plan.md" in message["content"] for message in without)
    assert not any("plan.md" in message["content"] for message in with_it)


def test_a_missing_program_leads_to_the_search_for_a_tool() -> None:
    """When a command's program is not installed, the result points to `list_tools`, where that is declared."""
    search = ToolSpec("list_tools", "Find tools.", {"type": "object", "properties": {}})
    for output, tools, told in (
        ("exit code 127\nbash: mail: command not found", [READ, search], True),
        ("exit code 127\nbash: mail: command not found", [READ], False),
        ("exit code 0\nsent", [READ, search], False),
    ):
        result = Message("tool", [ToolResult("c1", "run", True, [Text(output)])])
        prompt = build_prompt([result], "", tools, frozenset(tool.name for tool in tools))
        assert ("Call list_tools" in prompt.messages[-1]["content"]) is told


def test_activation_leaves_everything_before_it_as_it_was() -> None:
    """A tool activated in mid-session is added behind: the messages sent before stay the same, and it has a
    line."""
    base = frozenset({"readFile", "get_tool_schemas"})
    search = ToolSpec("get_tool_schemas", "Get tools.", {"type": "object", "properties": {}})
    said = [Message("user", [Text("Grow.")])]
    before = build_prompt(said, "Be brief.", [READ, search], base)
    call = Message("assistant", [ToolCall("c1", "get_tool_schemas", {"names": ["grow"]})])
    schema = {"name": "grow", "description": TREE.description, "parameters": TREE.parameters}
    result = Message("tool", [ToolResult("c1", "get_tool_schemas", True, structured={"schemas": [schema]})])
    after = build_prompt([*said, call, result], "Be brief.", [READ, search, TREE], base)
    assert after.messages[: len(before.messages)] == before.messages
    assert after.fixed == before.fixed
    assert signature(TREE) in after.messages[-1]["content"]


def test_a_tool_whose_schema_was_forgotten_is_listed_again() -> None:
    """When compaction took the result that showed a tool, the tool still has its line."""
    prompt = build_prompt([Message("user", [Text("Grow.")])], "", [READ, TREE], frozenset({"readFile"}))
    assert any(signature(TREE) in message["content"] for message in prompt.messages)


def test_messages_that_are_not_the_users_say_so() -> None:
    """A message from the system or a child is marked."""
    message = Message("user", [Text("Stop.")], source="system")
    assert build_prompt([message], "", [], frozenset()).messages[-1]["content"] == "[system] Stop."


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
    alone = build_prompt([], "", [READ], frozenset({"readFile"}))
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
