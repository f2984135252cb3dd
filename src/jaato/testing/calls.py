"""Conformance of calls: each tool is called with sample arguments, cancelled, and checked for what it leaves behind."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import msgspec

from jaato.errors import JaatoError, PluginError
from jaato.protocol.codec import json_problems
from jaato.protocol.ids import new_id
from jaato.runtime.plugins.adapter import Toolset
from jaato.runtime.plugins.isolation import run_bounded
from jaato.testing.declarations import arguments_for, executor_problem
from jaato.testing.report import Report
from jaato.tools.call import CURRENT, Call, Output
from jaato.tools.tool import Tool

CALL_S, HEED_S, MOMENT_S = 30.0, 3.0, 0.05
MAX_ADDED_CHARS = 20_000


def check_calls(
    toolset: Toolset, given: dict[str, dict[str, Any]], place: Path, report: Report, seconds: float
) -> None:
    """Call what may be called: reading tools, and those whose arguments the author gave."""
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
    """One call to its end: in time, quiet, with a result that can be stored; and once more, stopped."""
    issues = tool.issues(arguments)
    if issues:
        report.error(
            "call", tool.name, f"the arguments given do not fit: {issues[0][0] or '/'} {issues[0][1]}"
        )
        return
    call = call_of(tool, arguments, place)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            value = run_bounded(seconds, lambda: run(tool, call), f"The tool {tool.name}")
    except JaatoError as error:
        if must or not is_refusal(error):
            report.error("call", tool.name, f"{error}")
        return
    if said.getvalue():
        report.error("stdout", tool.name, "prints to stdout, which belongs to the program: use call.output")
    check_result(tool, value, report)
    check_stop(tool, arguments, place, report)


def is_refusal(error: JaatoError) -> bool:
    """Whether a tool has refused guessed arguments with an error of its own, which it may."""
    cause = error.__cause__
    return not isinstance(error, PluginError) or (
        cause is not None and isinstance(cause, Exception) and bool(str(cause))
    )


def check_result(tool: Tool, value: Any, report: Report) -> None:
    """The value can be stored and read by a model."""
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
    timer = threading.Timer(MOMENT_S, call.token.cancel)
    timer.daemon, timer.name = True, "jaato-timer"
    timer.start()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run_bounded(HEED_S, lambda: run(tool, call), tool.name)
    except PluginError as error:
        if "has not answered" in str(error):
            report.error(
                "stop",
                tool.name,
                "goes on after it was stopped: look at call.token in long loops, or be an async def",
            )
    except JaatoError:
        pass  # it ended, as it was told to
    finally:
        timer.cancel()


def call_of(tool: Tool, arguments: dict[str, Any], place: Path) -> Call:
    """A call as a program would make it."""
    return Call(id=new_id("c"), name=tool.name, arguments=dict(arguments), workspace=place)


def run(tool: Tool, call: Call) -> Any:
    """The tool's value; an asynchronous one has a loop of its own and is cancelled with the call."""
    before = CURRENT.set(call)
    try:
        value = tool.run(call.arguments, call)
        return anyio.run(run_to_end, value, call) if inspect.iscoroutine(value) else value
    finally:
        CURRENT.reset(before)


async def run_to_end(coroutine: Any, call: Call) -> Any:
    """The value of a coroutine; when the call is stopped, it is cancelled."""
    with anyio.CancelScope() as scope:
        loop_token = anyio.lowlevel.current_token()
        stop = call.token.on_cancel(lambda: cancel_from_thread(scope, loop_token))
        try:
            return await coroutine
        finally:
            stop()
    return None


def cancel_from_thread(scope: anyio.CancelScope, loop_token: anyio.lowlevel.EventLoopToken) -> None:
    """Cancel from another thread, if there is still something to cancel."""
    with contextlib.suppress(RuntimeError):
        anyio.from_thread.run_sync(scope.cancel, token=loop_token)


def check_enrichment(toolset: Toolset, report: Report) -> None:
    """A prompt goes in, a prompt comes out, whatever the prompt."""
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
