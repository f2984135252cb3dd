"""Shortened declarations of the built-in tools for a small model: one line each, and few parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from jaato.protocol.messages import Text, ToolResult
from jaato.protocol.specs import ToolSpec

MAX_FOUND = 6
FOUND_CHARS = 100
NEXT = "Get the one you need with get_tool_schemas."


class View(NamedTuple):
    """A tool's line, the parameters that must be given and those that may be; the others are not shown."""

    description: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


def view(description: str, required: str, optional: str = "") -> View:
    """A view; the parameters are separated by spaces."""
    return View(description, tuple(required.split()), tuple(optional.split()))


VIEWS: Mapping[str, View] = {
    "readFile": view("Read a text file.", "path", "offset limit"),
    "list_directory": view("List what is in a folder.", "path"),
    "writeNewFile": view("Create a new file with this content.", "path content"),
    "updateFile": view("Change an existing file: the text `old` becomes `new`.", "path old new"),
    "removeFile": view("Delete a file.", "path"),
    "moveFile": view("Rename or move a file.", "source_path destination_path"),
    "copyFile": view("Copy a file.", "source_path destination_path"),
    "grep_content": view("Find in which files below a folder a text occurs.", "path pattern"),
    "glob_files": view("Find files below a folder by their name, such as **/*.py.", "root pattern"),
    "run": view("Run a shell command: tests, git, builds.", "command"),
    "createPlan": view("Write down a plan of several steps.", "title steps"),
    "list_tools": view(
        "Find a tool for what no tool above is made for: mail, chat, web, images, copying, services.", "query"
    ),
    "get_tool_schemas": view("Get found tools by name, to use them next.", "names"),
}


def visible_tool(tool: ToolSpec) -> ToolSpec:
    """The tool as the model is shown it; a tool without a view, or with other parameters than it, stays as it is."""
    shape = VIEWS.get(tool.name)
    properties = tool.parameters.get("properties")
    if shape is None or not isinstance(properties, dict):
        return tool
    needed = tool.parameters.get("required", [])
    names = (*shape.required, *(name for name in shape.optional if name in properties))
    if not set(shape.required) <= properties.keys() or not set(needed) <= set(names):
        return tool
    parameters = {key: value for key, value in tool.parameters.items() if key in ("$defs", "definitions")}
    parameters |= {
        "type": "object",
        "properties": {name: narrow_schema(properties[name]) for name in names},
        "required": list(shape.required),
        "additionalProperties": False,
    }
    return replace(tool, description=shape.description, parameters=parameters)


def narrow_schema(schema: Any) -> Any:
    """A parameter that may be a list or a single value, as the list."""
    choices = schema.get("anyOf") if isinstance(schema, dict) else None
    if isinstance(choices, list):
        lists = [entry for entry in choices if isinstance(entry, dict) and entry.get("type") == "array"]
        if len(lists) == 1:
            return lists[0]
    return schema


def format_found_tools(result: ToolResult) -> str | None:
    """What `list_tools` found, a line for each tool and the step that follows; None when it is of another form."""
    value = result.structured
    if value is None and len(result.content) == 1 and isinstance(result.content[0], Text):
        try:
            value = json.loads(result.content[0].text)
        except ValueError:
            return None
    if not isinstance(value, dict):
        return None
    groups = value.get("results", [value] if "tools" in value else None)
    if not isinstance(groups, list):
        return None
    tools = [tool for group in groups if isinstance(group, dict) for tool in group.get("tools") or ()]
    lines = [line_of(tool) for tool in tools if isinstance(tool, dict)]
    if not lines:
        return "There is no such tool."
    return "\n".join([*dict.fromkeys(lines[:MAX_FOUND]), NEXT])


def line_of(tool: dict[str, Any]) -> str:
    """A found tool's name and the beginning of its description."""
    text = " ".join(str(tool.get("description", "")).split())
    return f"- {tool.get('name', '')}: {text[:FOUND_CHARS]}"
