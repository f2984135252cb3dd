"""Builds the prompt of the embedded model: rules and tools, examples, then the conversation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jaato.protocol.messages import Media, Message, Refusal, Text, Thinking, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.providers.local.examples import EXAMPLES, Example, answer, call
from jaato.providers.local.tool_views import format_found_tools, visible_tool

CORE = (
    "readFile",
    "list_directory",
    "writeNewFile",
    "updateFile",
    "grep_content",
    "run",
    "createPlan",
    "list_tools",
    "get_tool_schemas",
)
"""The tools a profile for a small model declares at first; the others are found with `list_tools`."""

SYSTEM = "You help the user with the files of one project."
"""A system prompt of the length a small model can follow; the rules of the format are the provider's own."""

RULES = """\
You are an agent that does the user's task with tools. Reply with one JSON object, either
{"step": what to do now, in a few words, "tool": NAME, "args": {...}} to use one tool, or
{"answer": TEXT} when every part of the task is done, or at once when no file is needed: general knowledge, \
explanations, arithmetic, greetings. TEXT says what you found or did, with its names and values.
Use one tool at a time; its result comes back to you. Take names, paths and texts exactly as the user \
wrote them; the project's own folder is ".". Leave out arguments marked ? unless the user asked for them. What a file says you must read \
first; a name you do not know you must look up first.
run is for the project's own programs, tests and git. For everything outside its files (mail, chat, web pages, \
screenshots, images, databases, other services and devices) never use run: call list_tools first, then \
get_tool_schemas with the name, then use that tool.

Tools:
"""

RULES_WITHOUT_SEARCH = RULES[: RULES.index("run is for")] + "\nTools:\n"
RULES_WITHOUT_TOOLS = """\
You are a helpful assistant. Reply with one JSON object: {"answer": TEXT}
"""
NO_PROGRAM = "\n\nThere is no such program here. Call list_tools to find a tool for it."
DESCRIPTION_CHARS = 220
TASK_CHARS = 600
MAX_CALLS_SHOWN = 8


class Prompt(NamedTuple):
    """The messages for the model's chat template; the first `fixed` of them are the same for every
    conversation."""

    messages: list[dict[str, str]]
    fixed: int


def build_prompt(
    messages: Sequence[Message], system: str, tools: Sequence[ToolSpec], base: frozenset[str]
) -> Prompt:
    """The whole prompt. `base` names the tools that were declared first: they are listed in front, the others
    were shown to the model by `get_tool_schemas`, or else are listed with the newest user message."""
    listed = [tool for tool in tools if tool.name in base]
    rendered = [{"role": "system", "content": rules(listed)}]
    for example in matching_examples({tool.name for tool in listed}):
        rendered += turns(example)
    fixed = len(rendered)
    shown = {tool.name: signature(tool) for tool in tools if tool.name not in base}
    unseen = {name: text for name, text in shown.items() if name not in find_listed_tools(messages)}
    searches = "list_tools" in {tool.name for tool in listed}
    rendered += opening(system, unseen.values())
    task, done = "", list[str]()
    for message in messages:
        if message.role == "user" and message.source == "user":
            task, done = message.text, []
        done += [part.name for part in message.parts if isinstance(part, ToolCall)]
        below = reminder(task, done[-MAX_CALLS_SHOWN:])
        if searches and lacks_program(message):
            below = NO_PROGRAM + below
        rendered += [
            {"role": role, "content": content} for role, content in render_message(message, shown, below)
        ]
    return Prompt(rendered, fixed)


def rules(tools: Sequence[ToolSpec]) -> str:
    """The first message: the rules, and a line for each tool."""
    if not tools:
        return RULES_WITHOUT_TOOLS
    names = {tool.name for tool in tools}
    text = RULES if {"list_tools", "get_tool_schemas"} <= names else RULES_WITHOUT_SEARCH
    return text + "\n".join(signature(tool) for tool in tools)


def opening(system: str, unseen: Iterable[str]) -> list[dict[str, str]]:
    """The system prompt and the further tools as a turn before the task, in the form of the examples."""
    parts = [system] if system else []
    if lines := "\n".join(unseen):
        parts.append(f"You can also use:\n{lines}")
    if not parts:
        return []
    reply = answer("Ready.")
    return [{"role": "user", "content": "\n\n".join(parts)}, {"role": "assistant", "content": reply}]


def matching_examples(names: set[str]) -> list[Example]:
    """The examples whose tools are all declared; none when they would show answers alone, which would be followed."""
    found = [example for example in EXAMPLES if example.uses <= names and example.without not in names]
    return found if any(example.uses for example in found) else []


def lacks_program(message: Message) -> bool:
    """Whether a command failed because its program is not installed: small models ask `mail` to send mail."""
    return any(
        isinstance(part, ToolResult)
        and part.name == "run"
        and any(isinstance(entry, Text) and "command not found" in entry.text for entry in part.content)
        for part in message.parts
    )


def turns(example: Example) -> list[dict[str, str]]:
    """An example as alternating turns."""
    task, rendered, done = example.turns[0], [], list[str]()
    for index, text in enumerate(example.turns):
        if index % 2:
            done += [str(name)] if (name := json.loads(text).get("tool")) else []
            rendered.append({"role": "assistant", "content": text})
        else:
            rendered.append({"role": "user", "content": text + reminder(task, done) if index else text})
    return rendered


def reminder(task: str, done: Sequence[str]) -> str:
    """What stands below each result: the task once more, the calls so far, and the question what follows."""
    if not task:
        return ""
    calls = ", ".join(done)
    return f"\n\nTask: {shorten(task, TASK_CHARS)}\nCalls so far: {calls}. Next step or final answer?"


def find_listed_tools(messages: Sequence[Message]) -> set[str]:
    """The tools whose schemas the conversation shows."""
    found: set[str] = set()
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolResult) and part.name == "get_tool_schemas":
                found |= {str(entry.get("name")) for entry in schemas_in(part)}
    return found


def schemas_in(result: ToolResult) -> list[dict[str, Any]]:
    """The schemas a result of `get_tool_schemas` carries."""
    value = result.structured
    schemas = value.get("schemas") if isinstance(value, dict) else None
    return [entry for entry in schemas if isinstance(entry, dict)] if isinstance(schemas, list) else []


def render_message(message: Message, shown: dict[str, str], below: str) -> list[tuple[str, str]]:
    """One message as (role, text) pairs; what a text model cannot see is named instead, and results end with
    `below`."""
    if message.role == "assistant":
        thoughts = [part.text for part in message.parts if isinstance(part, Thinking)]
        step = thoughts[0] if thoughts and message.provider == "local" else ""
        calls = [render_call(part, step) for part in message.parts if isinstance(part, ToolCall)]
        refusals = [part.text for part in message.parts if isinstance(part, Refusal)]
        text = message.text or "\n".join(refusals)
        lines = calls or ([answer(text)] if text else [])
        return [("assistant", "\n".join(lines))] if lines else []
    pieces: list[str] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                pieces.append(text if message.source == "user" else f"[{message.source}] {text}")
            case Media(mime_type=kind, name=name):
                pieces.append(f"[{name or kind}: not shown, you read text only]")
            case ToolResult():
                pieces.append(render_result(part, shown))
            case _:
                continue
    if message.role == "tool" and pieces:
        pieces[-1] += below
    return [("user", "\n\n".join(pieces))] if pieces else []


def render_call(part: ToolCall, step: str) -> str:
    """A call in the form the model writes it; one that another model made has no step of its own."""
    return call(step or f"use {part.name}", part.name, **part.arguments)


def render_result(result: ToolResult, shown: dict[str, str]) -> str:
    """A result; schemas are shortened to the signatures the model knows from its tool list."""
    if not result.ok:
        reason = result.error.message if result.error else "the call failed"
        return f"Error from {result.name}: {reason}"
    if result.name == "get_tool_schemas" and (schemas := schemas_in(result)):
        lines = [
            shown.get(str(entry.get("name"))) or signature(visible_tool(spec_of(entry))) for entry in schemas
        ]
        return "You can now use:\n" + "\n".join(lines)
    if result.name == "list_tools" and (found := format_found_tools(result)):
        return f"Result of {result.name}:\n{found}"
    text = "\n".join(
        part.text if isinstance(part, Text) else f"[{part.name or part.mime_type}: not shown]"
        for part in result.content
    )
    return f"Result of {result.name}:\n{text or 'done'}"


def spec_of(entry: dict[str, Any]) -> ToolSpec:
    """A schema of a result as a tool."""
    parameters = entry.get("parameters")
    return ToolSpec(
        str(entry.get("name", "")),
        str(entry.get("description", "")),
        parameters if isinstance(parameters, dict) else {},
    )


def signature(tool: ToolSpec) -> str:
    """A tool in one line: name, parameters with their types, the beginning of its description."""
    required = tool.parameters.get("required", [])
    properties = tool.parameters.get("properties", {})
    if not isinstance(properties, dict):
        properties = {}
    inside = ", ".join(
        f"{name}{'' if name in required else '?'}: {type_of(entry)}" for name, entry in properties.items()
    )
    return f"- {tool.name}({inside}): {shorten(tool.description, DESCRIPTION_CHARS)}"


def type_of(schema: Any, depth: int = 0) -> str:
    """A parameter's type as a reader would write it."""
    if not isinstance(schema, dict) or depth > 3:
        return "any"
    if isinstance(choices := schema.get("enum"), list):
        return "|".join(json.dumps(choice) for choice in choices[:12])
    if "const" in schema:
        return json.dumps(schema["const"])
    for key in ("anyOf", "oneOf"):
        if isinstance(kinds := schema.get(key), list):
            names = dict.fromkeys(type_of(kind, depth + 1) for kind in kinds if kind != {"type": "null"})
            return "|".join(names)
    match schema.get("type"):
        case "array":
            return f"[{type_of(schema.get('items'), depth + 1)}]"
        case "object" if isinstance(schema.get("properties"), dict):
            entries = schema["properties"].items()
            return "{" + ", ".join(f"{name}: {type_of(entry, depth + 1)}" for name, entry in entries) + "}"
        case str() as kind:
            return kind
        case list() as kinds:
            return "|".join(str(kind) for kind in kinds if kind != "null")
    return "any"


def shorten(text: str, limit: int) -> str:
    """A text on one line, cut after a sentence or a word."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    cut = text[:limit]
    end = cut.rfind(". ")
    return cut[: end + 1] if end > limit // 3 else cut[: cut.rfind(" ")] + " ..."
