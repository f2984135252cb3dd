"""What a turn, a chunk and a call cost in process, and what the first request weighs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from bench.row import Row

from jaato.agent.session import Session
from jaato.protocol.messages import Message, Part, Text, ToolCall, ToolResult
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.scripted import ScriptedCall, ScriptedProvider, Step
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.runtime.plugins.adapter import Toolset
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.runtime import Plan, Runtime
from jaato.storage.sqlite import SqliteStore
from jaato.tools.permissions.gate import Policy
from jaato.tools.tool import Tool, tool, tool_from

TURNS = 300
REPEATS = 5


@tool(core=True, access="read")
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool(core=True, access="read")
def echo_blocking(text: str) -> str:
    """Say it again, from a thread."""
    return text


@tool(core=True, access="read")
async def nap() -> str:
    """Wait 50 ms."""
    await anyio.sleep(0.05)
    return "ok"


@tool(core=True, access="read")
def nap_blocking() -> str:
    """Wait 50 ms in a thread."""
    time.sleep(0.05)
    return "ok"


def discoverable(n: int) -> Tool:
    """One of a thousand tools nobody calls."""

    @tool(name=f"tool_{n}", category="numbers", access="read")
    async def other(text: str) -> str:
        """Do something else."""
        return text

    return tool_from(other, "bench")


async def with_session(script: list[Step], tools: list[Tool], work: Callable[[Session], Any]) -> Any:
    """Run work in a fresh session on a real store."""
    with tempfile.TemporaryDirectory() as directory:
        registry = PluginRegistry(workspace=Path(directory))
        registry.expose_tool("introspection")
        registry.add_toolset(Toolset("bench", None, tools=tools))
        runtime = Runtime(SqliteStore(Path(directory) / "jaato.db"), registry)
        plan = Plan(ScriptedProvider(script), "script", Path(directory), Policy.of({}))
        try:
            async with runtime.create(plan) as session:
                return await work(session)
        finally:
            runtime.close()


def old_messages(count: int) -> list[Message]:
    """A long history."""
    messages: list[Message] = []
    for n in range(count // 4):
        call_parts: list[Part] = [ToolCall(f"c{n}", "echo", {"text": "x" * 40})]
        result: list[Part] = [ToolResult(f"c{n}", "echo", True, [Text("x" * 40)])]
        messages += [
            Message("user", [Text("a question of middling length, number " + str(n))], id=f"u{n}"),
            Message("assistant", call_parts, id=f"a{n}"),
            Message("tool", result, id=f"r{n}"),
            Message("assistant", [Text("an answer of middling length " * 3)], id=f"b{n}"),
        ]
    return messages


async def turn_cost(name: str, history: int = 0, others: int = 0) -> float:
    """CPU microseconds of one turn with one call."""
    script = [
        step
        for _ in range(TURNS + 10)
        for step in (Step(calls=[ScriptedCall(name, {"text": "hi"})]), Step(text="done"))
    ]
    tools = [tool_from(echo), tool_from(echo_blocking), *(discoverable(n) for n in range(others))]

    async def work(session: Session) -> float:
        session.model.provider._next = 0  # type: ignore[attr-defined]  # the script starts here whatever the history
        session.state.messages.extend(old_messages(history))
        for _ in range(10):
            await session.post("go")
        begun = time.process_time()
        for _ in range(TURNS):
            await session.post("go")
        return (time.process_time() - begun) / TURNS * 1e6

    cost: float = await with_session(script, tools, work)
    return cost


def best(measure: Callable[[], float], repeats: int = REPEATS) -> float:
    """The least of several measurements: what the work costs, without what the machine adds."""
    return min(measure() for _ in range(repeats))


def least(*measures: Callable[[], float]) -> list[float]:
    """The least of each, measured in turn, so that a slow moment of the machine falls on all of them."""
    rounds = [[measure() for measure in measures] for _ in range(REPEATS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def chunk_cost(count: int) -> float:
    """CPU microseconds of one streamed chunk, with one watcher."""

    async def work(session: Session) -> float:
        seen: list[object] = []
        session.journal.bus.listen(seen.append)
        begun = time.process_time()
        await session.post("go")
        cost = (time.process_time() - begun) / count * 1e6
        assert len(seen) > count
        return cost

    cost: float = anyio.run(with_session, [Step(text="word " * count, chunks=count)], [], work)
    return cost


def at_once(name: str) -> float:
    """Eight calls of 50 ms each in one reply, beside one, wall time."""

    async def work(session: Session) -> float:
        begun = time.perf_counter()
        await session.post("one")
        one = time.perf_counter() - begun
        begun = time.perf_counter()
        await session.post("eight")
        return (time.perf_counter() - begun) / one

    eight = [ScriptedCall(name, {})] * 8
    script = [Step(calls=eight[:1]), Step(text="ok"), Step(calls=eight), Step(text="ok")]
    ratio: float = anyio.run(with_session, script, [tool_from(nap), tool_from(nap_blocking)], work)
    return ratio


def execute_cost(permission: bool) -> float:
    """CPU microseconds of `ToolExecutor.execute` of a no-op."""
    executor = ToolExecutor()
    executor.register("noop", lambda args: args)
    if permission:
        from jaato.plugins.permission.plugin import PermissionPlugin

        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "permissions.json"
            path.write_text('{"version": 1, "whitelist": {"tools": ["noop"]}}')
            plugin = PermissionPlugin(config_path=str(path))
            executor.set_permission_plugin(plugin)
            assert executor.execute("noop", {})[0]
            return timed(executor)
    return timed(executor)


def timed(executor: ToolExecutor) -> float:
    """CPU microseconds of one call."""
    begun = time.process_time()
    for _ in range(20_000):
        executor.execute("noop", {})
    return (time.process_time() - begun) / 20_000 * 1e6


def first_request() -> tuple[int, int, int]:
    """Tokens of the declared tools, tokens and bytes of the whole first request with "hi"."""
    import bpe_openai

    encoding = bpe_openai.get_encoding("o200k_base")
    with tempfile.TemporaryDirectory() as directory:
        registry = PluginRegistry(workspace=Path(directory))
        registry.expose_all()
        runtime = Runtime(SqliteStore(Path(directory) / "jaato.db"), registry)
        plan = Plan(ScriptedProvider([]), "script", Path(directory), Policy.of({}))

        async def body() -> bytes:
            async with runtime.create(plan) as session:
                session.state.messages.append(Message("user", [Text("hi")], id="m"))
                return OpenAIChat("openai").encode(session.model.request())

        whole = anyio.run(body)
        runtime.close()
    text = whole.decode()
    tools = text[text.index('"tools":') :] if '"tools":' in text else ""
    import json

    declared = json.dumps(json.loads(text)["tools"], separators=(",", ":"))
    assert tools
    return len(encoding.encode(declared)), len(encoding.encode(text)), len(whole)


def rows() -> list[Row]:
    """The figures of this file."""
    declared, tokens, size = first_request()
    plain, blocking, long, many = least(
        lambda: anyio.run(turn_cost, "echo"),
        lambda: anyio.run(turn_cost, "echo_blocking"),
        lambda: anyio.run(turn_cost, "echo", 2000),
        lambda: anyio.run(turn_cost, "echo", 0, 1000),
    )
    return [
        Row("tools declared in the first request", declared, "tokens", 1200, "o200k, OpenAI chat encoding"),
        Row("whole first request with 'hi'", tokens, "tokens", 2500, "o200k, OpenAI chat encoding"),
        Row("whole first request with 'hi', size", size / 1000, "kB", 10, "bytes on the wire"),
        Row(
            "turn with one call, log on, async tool",
            plain,
            "us CPU",
            250,
            f"best of {REPEATS}, {TURNS} turns",
        ),
        Row(
            "turn with one call, log on, blocking tool", blocking, "us CPU", 400, "the same, a worker thread"
        ),
        Row("the same at 2,000 messages", long / plain, "times", 1.5, "beside an empty history"),
        Row("the same with 1,000 discoverable tools", many / plain, "times", 1.2, "beside two tools"),
        Row(
            "streamed chunk in process, 5,000",
            best(lambda: chunk_cost(5_000), 3),
            "us CPU",
            20,
            "one watcher",
        ),
        Row(
            "streamed chunk in process, 50,000",
            best(lambda: chunk_cost(50_000), 2),
            "us CPU",
            20,
            "one watcher",
        ),
        Row(
            "eight 50 ms tools at once, async", best(lambda: at_once("nap")), "times", 1.2, "wall, beside one"
        ),
        Row(
            "eight 50 ms tools at once, blocking",
            best(lambda: at_once("nap_blocking")),
            "times",
            1.2,
            "wall, beside one",
        ),
        Row(
            "ToolExecutor.execute of a no-op", best(lambda: execute_cost(False)), "us CPU", 10, "20,000 calls"
        ),
        Row(
            "the same with permission",
            best(lambda: execute_cost(True)),
            "us CPU",
            15,
            "20,000 calls, whitelisted",
        ),
    ]


assert os.name == "posix"
