"""Conformance of declarations: names, descriptions, JSON Schemas and commands of a plugin, and sample arguments for its tools."""

from __future__ import annotations

import inspect
import re
from typing import Any, get_args

import msgspec

from jaato.protocol.specs import Access
from jaato.runtime.plugins.adapter import Toolset
from jaato.testing.report import Report
from jaato.tools.tool import WIRE_NAME, Tool

MIN_WORDS, MAX_WORDS = 2, 40
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
MAX_EXAMPLE_ISSUES = 3
MAX_DEPTH = 12


def check_declarations(toolset: Toolset, report: Report) -> None:
    """Hold everything that is declared against the rules."""
    if not NAME.fullmatch(toolset.name):
        report.error(
            "name", toolset.name, "use letters, digits, _ - and ., at most 64, beginning with a letter"
        )
    names = [tool.name for tool in toolset.tools]
    for name in sorted({name for name in names if names.count(name) > 1}):
        report.error("name", name, "is declared twice; rename one of the tools")
    for tool in toolset.tools:
        check_tool(tool, report)
    for command, run in toolset.commands.values():
        about = f"/{command.name}"
        if not NAME.fullmatch(command.name):
            report.error("command", about, "a command is one word of letters, digits, _ and -")
        if not command.description.strip():
            report.error("command", about, "say in a sentence what it does; /help shows it")
        if command.name in names:
            report.advise("command", about, "a tool has the same name: the model calls that, the user this")
        if run is None:
            report.error("command", about, "get_executors() has no function for it, so it does nothing")
    if len(toolset.instructions.split()) > 150:
        report.advise(
            "description", toolset.name, "its instructions are in every request; say it in 150 words"
        )


def check_tool(tool: Tool, report: Report) -> None:
    """One tool: name, description, access, schema, examples."""
    spec = tool.spec
    if tool.original_name is not None or not WIRE_NAME.fullmatch(spec.name):
        shown = tool.original_name or spec.name
        report.error("name", shown, "use letters, digits, _ and -, at most 64: providers take nothing else")
    words = len(spec.description.split())
    if words < MIN_WORDS:
        report.error("description", spec.name, "write for a model: when to use it, and what comes back")
    elif words > MAX_WORDS:
        report.error("description", spec.name, f"has {words} words; say it in {MAX_WORDS}, they are paid for")
    if spec.access not in get_args(Access.__value__ if hasattr(Access, "__value__") else Access):
        report.error("access", spec.name, f"{spec.access!r} is none of read, write, execute, network")
    if spec.category == "uncategorized":
        report.advise("category", spec.name, "name a category, so that list_tools can list it with its like")
    check_schema(tool, report)


def check_schema(tool: Tool, report: Report) -> None:
    """The schema travels as JSON, refuses what it should, and takes the tool's own examples."""
    spec = tool.spec
    try:
        again = msgspec.json.decode(msgspec.json.encode(spec.parameters))
    except (TypeError, ValueError, RecursionError) as error:
        report.error("schema", spec.name, f"the parameters are not JSON: {error}")
        return
    if again != spec.parameters:
        report.error("schema", spec.name, "the parameters change on their way through JSON: use text as keys")
    required = spec.parameters.get("required", [])
    unknown = [name for name in required if name not in spec.parameters.get("properties", {})]
    if unknown:
        report.error(
            "schema", spec.name, f"requires {', '.join(map(str, unknown))}, which it does not describe"
        )
    elif required and not tool.issues({}):
        report.error("schema", spec.name, "takes no arguments although some are required")
    for name, entry in spec.parameters.get("properties", {}).items():
        if isinstance(entry, dict) and not {"type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"} & {
            *entry
        }:
            report.advise(
                "schema", f"{spec.name}.{name}", "has no type; the model can only guess what to send"
            )
    for number, example in enumerate(spec.examples, 1):
        for path, problem in tool.issues(dict(example))[:MAX_EXAMPLE_ISSUES]:
            report.error("examples", spec.name, f"example {number} does not fit: {path or '/'} {problem}")


def arguments_for(tool: Tool, given: dict[str, Any] | None) -> dict[str, Any] | None:
    """The arguments to call a tool with: those given, else for a reading tool its example or a guess that fits."""
    if given is not None:
        return given
    if tool.spec.access != "read":
        return None
    chosen = (
        dict(tool.spec.examples[0]) if tool.spec.examples else sample(tool.checked or tool.spec.parameters)
    )
    return chosen if isinstance(chosen, dict) and not tool.issues(chosen) else None


def executor_problem(tool: Tool) -> str | None:
    """What is wrong with the function behind a tool, before it is called."""
    if not callable(tool.run):
        return f"its executor is a {type(tool.run).__name__}, no function"
    if inspect.isgeneratorfunction(tool.run):
        return "its executor is a generator: give the whole result, and show progress with call.output"
    return None


def sample(schema: Any, whole: dict[str, Any] | None = None, depth: int = 0) -> Any:
    """A value that should fit this schema; `whole` is where its references point."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return None
    whole = schema if whole is None else whole
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    if reference := schema.get("$ref"):
        return sample(resolve_reference(reference, whole), whole, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            merged = {**{k: v for k, v in schema.items() if k != key}, **schema[key][0]}
            return sample(merged, whole, depth + 1)
    return plain_sample(schema, whole, depth)


def plain_sample(schema: dict[str, Any], whole: dict[str, Any], depth: int) -> Any:
    """A value of the schema's type."""
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            properties = schema.get("properties", {})
            return {
                name: sample(properties.get(name, {}), whole, depth + 1)
                for name in schema.get("required", [])
            }
        case "array":
            items = schema.get("items", {})
            return [sample(items, whole, depth + 1) for _ in range(schema.get("minItems", 0))]
        case "integer" | "number":
            least = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
            return min(max(least, 0), schema.get("maximum", max(least, 0)))
        case "boolean":
            return False
        case "null":
            return None
    text = {"date": "2026-01-02", "date-time": "2026-01-02T03:04:05Z", "uri": "https://example.com/"}
    return text.get(schema.get("format", ""), "a" * max(1, schema.get("minLength", 1)))


def resolve_reference(reference: str, whole: dict[str, Any]) -> Any:
    """The definition a local reference points to; an empty one when there is none."""
    found: Any = whole
    for step in reference.removeprefix("#").strip("/").split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(found, dict) else {}
    return found
