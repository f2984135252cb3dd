"""What a small model is shown of the tools and of what a search for tools finds."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from jaato.protocol.messages import Text, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.providers.local.tool_views import MAX_FOUND, NEXT, VIEWS, format_found_tools, visible_tool

SEARCH = ToolSpec(
    "grep_content",
    "Search file contents. Returns matching lines by file, sorted by path, and the total.",
    {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "regular expression"},
            "path": {"type": "string", "default": "."},
            "context": {"type": "integer"},
        },
        "required": ["pattern"],
    },
)


def searched(value: Any, *, as_text: bool = False) -> str | None:
    """A result of `list_tools` as the model reads it."""
    if as_text:
        return format_found_tools(ToolResult("c1", "list_tools", True, [Text(json.dumps(value))]))
    return format_found_tools(ToolResult("c1", "list_tools", True, structured=value))


def test_a_known_tool_is_shown_with_what_a_user_would_name() -> None:
    """A tool with a view has its short line and few parameters; what fits them fits the tool's own schema."""
    small = visible_tool(SEARCH)
    assert small.description == VIEWS["grep_content"].description
    assert list(small.parameters["properties"]) == ["path", "pattern"]
    whole = jsonschema_rs.validator_for(SEARCH.parameters)
    narrow = jsonschema_rs.validator_for(small.parameters)
    good: dict[str, Any] = {"path": "shop", "pattern": "tea"}
    assert narrow.is_valid(good)
    assert whole.is_valid(good)
    assert not narrow.is_valid({**good, "context": 2})
    assert not narrow.is_valid(
        {"pattern": "tea"}
    )  # where is always said: left open, it was left out or made up


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        {
            "type": "object",
            "properties": {"pattern": {"type": "string"}, "where": {"type": "string"}},
            "required": ["pattern", "where"],
        },
        {"type": "object"},
    ],
)
def test_another_tool_of_the_same_name_stays_as_it_is(parameters: dict[str, Any]) -> None:
    """A tool that lacks a parameter of the view, or requires one the view leaves out, is shown whole."""
    other = ToolSpec("grep_content", "Another search.", parameters)
    assert visible_tool(other) is other


def test_a_list_or_one_is_a_list() -> None:
    """Where a tool takes one name or several, the model gives a list."""
    texts = {"type": "array", "items": {"type": "string"}}
    names = {"anyOf": [texts, {"type": "string"}]}
    tool = ToolSpec("get_tool_schemas", "Get.", {"type": "object", "properties": {"names": names}})
    assert visible_tool(tool).parameters["properties"]["names"] == texts


@pytest.mark.parametrize("as_text", [False, True])
def test_found_tools_are_a_line_each(as_text: bool) -> None:
    """What a search found is read as one line for each tool, each once, few of them, and what to do next; nothing
    found is said so."""
    tools = [{"name": "copyFile", "description": "Copy\na file."}, {"name": "zip", "description": "Pack."}]
    both = {"results": [{"query": "copy", "tools": tools}, {"query": "pack", "tools": tools[1:]}]}
    assert searched(both, as_text=as_text) == f"- copyFile: Copy a file.\n- zip: Pack.\n{NEXT}"
    assert searched({"results": [{"query": "x", "tools": []}]}, as_text=as_text) == "There is no such tool."
    many = {"tools": [{"name": f"t{index}", "description": ""} for index in range(50)]}
    assert len(str(searched(many, as_text=as_text)).splitlines()) == MAX_FOUND + 1
    assert searched({"categories": []}, as_text=as_text) is None
