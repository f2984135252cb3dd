"""Hostile arguments, impossible results, exceptions of every kind: each becomes a result."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, recorded, results, say, session
from tests.spec.documented import Documented

from jaato.abc.plugin import ToolSchema
from jaato.protocol.codec import encode, json_problems
from jaato.protocol.events import (
    ToolCallEnd,
)
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.tool import tool


class Rude:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


class Unspeakable(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def knot() -> list[Any]:
    """A list of ten of itself."""
    tied: list[Any] = []
    tied += [tied] * 10
    return tied


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: float
    y: Any


VALUES: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "text with a lone surrogate": lambda: "a\ud800b",
    "bytes": lambda: b"\xff\xfe",
    "not a number": lambda: {"x": float("nan"), "y": float("inf")},
    "a set": lambda: {1, 2},
    "keys that are no text": lambda: {1: "one", (2, 3): "two", None: "three"},
    "a huge integer": lambda: 10**400,
    "a function": lambda: len,
    "a class": lambda: Point,
    "a dataclass": lambda: Point(1.0, Colour.RED),
    "a date": lambda: datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    "an object that cannot be shown": lambda: {"in": [Rude()]},
    "a list of itself": knot,
    "a dict of itself": lambda: (lambda d: d | {"d": d})({"a": 1}),
    "two hundred levels": lambda: nested(200),
    "an iterator": lambda: iter([1, 2]),
    "a generator": lambda: (n for n in range(3)),
    "a pair of dicts": lambda: ({"a": 1}, {"show_output": False, "continuation_id": "x"}),
    "metadata of the wrong kind": lambda: ({"a": 1}, {"continuation_id": 5, "show_output": "no"}),
    "an exception": lambda: ValueError("returned, not raised"),
}


def nested(levels: int) -> Any:
    """A list in a list in a list."""
    value: Any = "core"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.7")
@pytest.mark.spec("S0", "Tool Execution Pipeline", "S0.pipeline.5")
@pytest.mark.parametrize("name", list(VALUES))
@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_whatever_a_tool_returns_becomes_a_result(tmp_path: Path, name: str, kind: str) -> None:
    """The turn goes on, the result is JSON, and the log can be read again."""

    @tool(name="make", core=True, access="read")
    def blocking() -> Any:
        """Make it."""
        return VALUES[name]()

    @tool(name="make", core=True, access="read")
    async def waiting() -> Any:
        """Make it."""
        return VALUES[name]()

    async def main() -> None:
        async with session(
            tmp_path, [call("make"), say("done")], [blocking if kind == "thread" else waiting]
        ) as live:
            with anyio.fail_after(60):
                turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "stop"
            (result,) = results(live)
            assert result.ok
            assert json_problems(result.structured) == []
            stored = [event for event in recorded(live) if isinstance(event, ToolCallEnd)]
            assert encode(stored[0].result) == encode(result)

    anyio.run(main)


RAISED: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("bad \ud800"),
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": asyncio.CancelledError,
    "GeneratorExit": GeneratorExit,
    "StopIteration": lambda: StopIteration(1),
    "StopAsyncIteration": StopAsyncIteration,
    "BaseException": lambda: BaseException("base"),
    "RecursionError": RecursionError,
    "MemoryError": MemoryError,
    "Unspeakable": Unspeakable,
    "BaseExceptionGroup": lambda: BaseExceptionGroup("many", [ValueError(1), SystemExit(2)]),
}


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.7")
@pytest.mark.parametrize("name", list(RAISED))
@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_whatever_a_tool_raises_becomes_a_result(tmp_path: Path, name: str, kind: str) -> None:
    """The model is told and the turn goes on; neither session nor program ends."""

    @tool(name="fail", core=True, access="read")
    def blocking() -> Any:
        """Fail."""
        raise RAISED[name]()

    @tool(name="fail", core=True, access="read")
    async def waiting() -> Any:
        """Fail."""
        raise RAISED[name]()

    chosen = blocking if kind == "thread" else waiting

    async def main() -> None:
        script = [call("fail"), calls(("fail", {}), ("fail", {})), say("done")]
        async with session(tmp_path, script, [chosen]) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "stop"
            problems = [result.error for result in results(live)]
            assert len(problems) == 3
            for problem in problems:
                assert problem is not None
                assert name in problem.message

    anyio.run(main)


ARGUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "a lone surrogate": lambda: {"value": "a\udfffb"},
    "a key with a lone surrogate": lambda: {"value": {"\ud800": 1}},
    "not a number": lambda: {"value": float("nan")},
    "infinity": lambda: {"value": [float("-inf")]},
    "an integer beyond 64 bits": lambda: {"value": 2**70},
    "a thousand levels": lambda: {"value": nested(1000)},
    "an unknown name": lambda: {"value": 1, "other": 2},
    "nothing": dict,
}


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.4")
@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_arguments_that_are_not_json_or_do_not_fit_are_refused(tmp_path: Path, name: str) -> None:
    """The model is told by path what is wrong, the tool does not run, and the log can be read again."""
    ran: list[Any] = []

    @tool(core=True, access="read")
    def take(value: Any) -> str:
        """Take it."""
        ran.append(value)
        return "ok"

    async def main() -> None:
        script = [call("take", **ARGUMENTS[name]()), say("done")]
        async with session(tmp_path, script, [take]) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "stop", turn.error
            (result,) = results(live)
            assert result.error is not None
            assert result.error.code == "arguments_invalid"
            assert result.error.details is not None
            assert result.error.details["issues"]
            again = [event for event in recorded(live) if isinstance(event, ToolCallEnd)]
            assert len(again) == 1

    anyio.run(main)
    assert ran == []


def test_a_megabyte_of_arguments_is_taken(tmp_path: Path) -> None:
    """Large arguments are arguments like any other."""
    sizes: list[int] = []

    @tool(core=True, access="read")
    def take(value: str) -> str:
        """Take it."""
        sizes.append(len(value))
        return "ok"

    async def main() -> None:
        async with session(tmp_path, [call("take", value="x" * 1_000_000), say("done")], [take]) as live:
            await live.post("go")
            assert results(live)[0].ok

    anyio.run(main)
    assert sizes == [1_000_000]


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.4")
def test_every_problem_is_named_by_its_json_pointer(tmp_path: Path) -> None:
    """All of them at once, keys escaped as RFC 6901 says, by the rules of draft 2020-12."""

    parameters = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "a/b": {"type": "integer"},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            "kind": {"enum": ["x", "y"]},
        },
        "dependentRequired": {"pair": ["count"]},
        "unevaluatedProperties": False,
    }
    registry = PluginRegistry(workspace=tmp_path)
    plugin = Documented("mine", ToolSchema("take", "Take it.", parameters))
    registry.register_plugin(plugin, expose=True)
    executor = ToolExecutor()
    executor.set_registry(registry)
    ok, result = executor.execute("take", {"a/b": "one", "pair": ["s", "t"], "kind": "z", "more": 1})
    assert not ok
    paths = sorted(issue["path"] for issue in result["issues"])
    assert paths == ["/a~1b", "/count", "/kind", "/more", "/pair/1"]
