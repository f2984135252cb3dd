"""How often the embedded model picks the right tool and the right arguments; run by hand, it takes minutes.

python -m bench.local MODEL.gguf [--sets own,unseen,held-out] [--only tasks]
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from bench.local_cases import CASES, TASKS, TOOLS, Case, Task
from bench.local_held_out import HELD_OUT_CASES, HELD_OUT_TASKS
from bench.local_unseen import UNSEEN_CASES, UNSEEN_TASKS
from bench.row import Row

from jaato.abc.provider import ModelRequest, Reply
from jaato.protocol.messages import Message, Problem, Text, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.providers.local.prompt import SYSTEM
from jaato.providers.local.provider import LocalProvider

SETS = {
    "own": (CASES, TASKS),
    "unseen": (UNSEEN_CASES, UNSEEN_TASKS),
    "held-out": (HELD_OUT_CASES, HELD_OUT_TASKS),
}
"""The prompts that the fixed prompt was written with, those it was then compared on, and those looked at once."""


async def reply_to(provider: LocalProvider, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
    """The model's next turn."""
    request = ModelRequest("local", messages, SYSTEM, tools)
    async for chunk in provider.stream(request):
        if isinstance(chunk, Reply):
            return chunk
    raise AssertionError("a stream ends with a reply")


def judge(expected: Case, message: Message) -> tuple[bool, bool]:
    """Whether the tool is right, and whether tool and arguments are."""
    calls = message.function_calls
    if not calls:
        return expected.tool == "", expected.tool == "" and bool(message.text)
    call = calls[0]
    if call.name not in expected.tool.split("|"):
        return False, False
    patterns = expected.args | expected.optional
    known = all(name in patterns and matches(patterns[name], value) for name, value in call.arguments.items())
    return True, known and all(name in call.arguments for name in expected.args)


def matches(pattern: str, value: Any) -> bool:
    """Whether an argument, as text, is what was meant."""
    return re.fullmatch(pattern, str(value), re.DOTALL) is not None


async def measure_cases(provider: LocalProvider, cases: Sequence[Case]) -> tuple[int, int, float]:
    """Right tools, right arguments, seconds a call."""
    tools = arguments = 0
    started = time.perf_counter()
    for item in cases:
        reply = await reply_to(provider, [Message("user", [Text(item.prompt)])], TOOLS)
        right_tool, right_arguments = judge(item, reply.message)
        tools += right_tool
        arguments += right_arguments
        if not right_arguments:  # the figures are no use without knowing what went wrong
            print(f"  {'arguments' if right_tool else 'tool'}: {item.prompt} -> {shown(reply.message)}")
    return tools, arguments, (time.perf_counter() - started) / len(cases)


async def measure_tasks(provider: LocalProvider, tasks: Sequence[Task]) -> int:
    """Tasks of several steps that were done: every step as expected, and an answer at the end."""
    done = 0
    for task in tasks:
        messages = [Message("user", [Text(task.prompt)])]
        tools: tuple[ToolSpec, ...] = TOOLS
        for expected, result in task.steps:
            reply = await reply_to(provider, messages, tools)
            if not judge(expected, reply.message)[1]:
                print(f"  task: {task.prompt} -> {shown(reply.message)}")
                break
            call = reply.message.function_calls[0]
            if call.name == "get_tool_schemas":
                tools = (*TOOLS, task.found)
            messages += [reply.message, played(call, result, task.found)]
        else:
            reply = await reply_to(provider, messages, tools)
            good = not reply.message.function_calls and matches(f"(?i){task.answer}", reply.message.text)
            done += good
            if not good:
                print(f"  task: {task.prompt} -> {shown(reply.message)}")
    return done


def played(call: ToolCall, result: str, found: ToolSpec) -> Message:
    """The result that a tool would have given."""
    if call.name == "get_tool_schemas":
        entry = {"name": found.name, "description": found.description, "parameters": found.parameters}
        return Message("tool", [ToolResult(call.call_id, call.name, True, structured={"schemas": [entry]})])
    if result.startswith("!"):
        problem = Problem("tool_failed", result[1:])
        return Message("tool", [ToolResult(call.call_id, call.name, False, error=problem)])
    return Message("tool", [ToolResult(call.call_id, call.name, True, [Text(result)])])


def shown(message: Message) -> str:
    """A turn for a reader."""
    return "; ".join(f"{call.name} {call.arguments}" for call in message.function_calls) or repr(message.text)


async def measured(options: argparse.Namespace) -> list[Row]:
    """The figures of one model file."""
    provider = LocalProvider(options.model, cache_dir=options.cache_dir, threads=options.threads)
    rows: list[Row] = []
    try:
        started = time.perf_counter()
        await reply_to(provider, [Message("user", [Text("Say yes.")])], TOOLS)
        first_s = time.perf_counter() - started
        rows.append(
            Row("local: first answer of a process", first_s, "s", None, "load, fixed prompt, one answer")
        )
        for name in options.sets.split(","):
            cases, tasks = SETS[name]
            if options.only != "tasks":
                tools, arguments, call_s = await measure_cases(provider, cases)
                against = f"{len(cases)} prompts, {len(TOOLS)} tools"
                rows.append(Row(f"local: {name}: right tool", tools, "right", None, against))
                rows.append(Row(f"local: {name}: and right arguments", arguments, "right", None, against))
                rows.append(Row(f"local: {name}: a call", call_s, "s", None, "fixed prompt cached"))
            if options.only != "cases":
                done = await measure_tasks(provider, tasks)
                rows.append(
                    Row(f"local: {name}: tasks of several steps", done, "done", None, f"of {len(tasks)}")
                )
    finally:
        await provider.aclose()
    return rows


def main() -> None:
    """Measure the model file named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--sets", default=",".join(SETS), help="which prompts, of: " + ", ".join(SETS))
    parser.add_argument(
        "--only", choices=("cases", "tasks"), help="single prompts, or tasks of several steps"
    )
    parser.add_argument("--cache-dir", type=Path, default=None)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    before = os.times()
    rows = anyio.run(measured, options)
    after = os.times()
    for row in rows:
        print(f"{row.name:40} {row.value:8.1f} {row.unit:5} {row.against}")
    print(f"processor time {after.user - before.user:.0f} s")


if __name__ == "__main__":
    main()
