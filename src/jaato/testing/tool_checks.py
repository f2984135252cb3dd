"""Conformance of tools: declarations and schemas, calls with sample arguments, cancellation, and enrichment of prompts."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import re
import threading
from pathlib import Path
from typing import Any, get_args

import anyio
import anyio.from_thread
import anyio.lowlevel
import msgspec

from jaato.errors import JaatoError, PluginError
from jaato.protocol.codec import json_problems
from jaato.protocol.ids import new_id
from jaato.protocol.specs import Access
from jaato.runtime.plugins.adapter import Toolset
from jaato.runtime.plugins.isolation import run_bounded
from jaato.testing.report import Report
from jaato.tools.call import CURRENT, Call, Output
from jaato.tools.tool import WIRE_NAME, Tool

MIN_WORDS, MAX_WORDS = 2, 40
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
MAX_EXAMPLE_ISSUES = 3
MAX_DEPTH = 12


def check_declarations(toolset: Toolset, report: Report) -> None:
    """Check everything that a plugin declares."""
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
    """Check that the schema is JSON, describes what it requires, and accepts the examples."""
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
    """The arguments to call a tool with: those given, else for a tool that reads its example or a valid sample."""
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
    """A value that should match a schema; `whole` is the schema that its references point into."""
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


CALL_S, STOP_WITHIN_S, STOP_AFTER_S = 30.0, 3.0, 0.05
MAX_ADDED_CHARS = 20_000


def check_calls(
    toolset: Toolset, given: dict[str, dict[str, Any]], place: Path, report: Report, seconds: float
) -> None:
    """Call the tools that only read, and those whose arguments the author gave."""
    for name in sorted({*given} - {tool.name for tool in toolset.tools}):
        report.error("call", name, "there are arguments for it, and no such tool")
    for tool in toolset.tools:
        problem = executor_problem(tool)
        if problem:
            report.error("executor", tool.name, problem)
            continue
        arguments = arguments_for(tool, given.get(tool.name))
        if arguments is not None:
            report.called.append(tool.name)
            check_call(tool, arguments, place, report, seconds=seconds, must=tool.name in given)


def check_call(
    tool: Tool, arguments: dict[str, Any], place: Path, report: Report, *, seconds: float, must: bool
) -> None:
    """Make one call: in time, without output on stdout, with a valid result; and once more, cancelled."""
    issues = tool.issues(arguments)
    if issues:
        report.error(
            "call", tool.name, f"the arguments given do not fit: {issues[0][0] or '/'} {issues[0][1]}"
        )
        return
    call = call_of(tool, arguments, place)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            value = run_bounded(seconds, lambda: run(tool, call), f"The tool {tool.name}")
    except JaatoError as error:
        if must or not is_refusal(error):
            report.error("call", tool.name, f"{error}")
        return
    if printed.getvalue():
        report.error("stdout", tool.name, "prints to stdout, which belongs to the program: use call.output")
    check_result(tool, value, report)
    check_stop(tool, arguments, place, report)


def is_refusal(error: JaatoError) -> bool:
    """Whether a tool has refused sample arguments with an error of its own, which it may."""
    cause = error.__cause__
    return not isinstance(error, PluginError) or (
        cause is not None and isinstance(cause, Exception) and bool(str(cause))
    )


def check_result(tool: Tool, value: Any, report: Report) -> None:
    """Check that a value can be stored and read by a model."""
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        report.error(
            "result", tool.name, "gives a generator: give the whole result, show progress with call.output"
        )
        return
    if isinstance(value, Output):
        value = value.structured
    try:
        problems = json_problems(msgspec.to_builtins(value, str_keys=True))
    except Exception as error:  # noqa: BLE001 code of the value's own class may run here
        problems = [("", f"{type(error).__name__}: {error}")]
    for path, problem in problems[:3]:
        report.error("result", tool.name, f"gives what JSON cannot carry: {path or '/'} {problem}")


def check_stop(tool: Tool, arguments: dict[str, Any], place: Path, report: Report) -> None:
    """A cancelled call ends soon."""
    call = call_of(tool, arguments, place)
    timer = threading.Timer(STOP_AFTER_S, call.token.cancel)
    timer.daemon, timer.name = True, "jaato-timer"
    timer.start()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run_bounded(STOP_WITHIN_S, lambda: run(tool, call), tool.name)
    except PluginError as error:
        if "has not answered" in str(error):
            report.error(
                "stop",
                tool.name,
                "continues after it was stopped: look at call.token in long loops, or be an async def",
            )
    except JaatoError:
        pass  # it ended in time
    finally:
        timer.cancel()


def call_of(tool: Tool, arguments: dict[str, Any], place: Path) -> Call:
    """A call as a program would make it."""
    return Call(id=new_id("c"), name=tool.name, arguments=dict(arguments), workspace=place)


def run(tool: Tool, call: Call) -> Any:
    """The value of a tool; an asynchronous one runs in its own loop and is cancelled with the call."""
    before = CURRENT.set(call)
    try:
        value = tool.run(call.arguments, call)
        return anyio.run(run_to_end, value, call) if inspect.iscoroutine(value) else value
    finally:
        CURRENT.reset(before)


async def run_to_end(coroutine: Any, call: Call) -> Any:
    """The value of a coroutine, which is cancelled with the call."""
    with anyio.CancelScope() as scope:
        loop_token = anyio.lowlevel.current_token()
        stop = call.token.on_cancel(lambda: cancel_from_thread(scope, loop_token))
        try:
            return await coroutine
        finally:
            stop()
    return None


def cancel_from_thread(scope: anyio.CancelScope, loop_token: anyio.lowlevel.EventLoopToken) -> None:
    """Cancel from another thread, if the loop still runs."""
    with contextlib.suppress(RuntimeError):
        anyio.from_thread.run_sync(scope.cancel, token=loop_token)


def check_enrichment(toolset: Toolset, report: Report) -> None:
    """Check that every prompt is enriched to a prompt."""
    enrich = toolset.enrich
    if enrich is None:
        return
    for prompt in ("Fix the failing test.", "", "@a.png {{x}} “ü” \U0001f600 " * 50):
        try:
            result = run_bounded(CALL_S, functools.partial(enrich, prompt), "enrich_prompt()")
        except JaatoError as error:
            report.error("enrichment", toolset.name, str(error))
            return
        text, metadata = getattr(result, "prompt", None), getattr(result, "metadata", None)
        if not isinstance(text, str) or not isinstance(metadata, dict):
            report.error(
                "enrichment", toolset.name, "enrich_prompt() gives a PromptEnrichmentResult(prompt, metadata)"
            )
        elif json_problems(metadata):
            report.error("enrichment", toolset.name, "its metadata is not JSON")
        elif prompt not in text:
            report.advise("enrichment", toolset.name, "the user's own words are not in what it makes of them")
        elif len(text) > len(prompt) + MAX_ADDED_CHARS:
            report.error("enrichment", toolset.name, f"adds more than {MAX_ADDED_CHARS:,} characters")
