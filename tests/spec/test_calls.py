"""The one pipeline in a session: its order, hostile arguments, impossible results, large ones."""

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
from tests.kit import call, calls, provider_of, recorded, reopened, results, say, session
from tests.spec.documented import Documented

from jaato.abc.asker import Answer
from jaato.abc.plugin import ToolSchema
from jaato.protocol.codec import encode, json_problems
from jaato.protocol.events import (
    Event,
    PermissionRequested,
    PermissionResolved,
    ToolCallEnd,
    ToolCallStart,
)
from jaato.protocol.messages import Text
from jaato.runtime.executor import ToolExecutor
from jaato.runtime.registry import PluginRegistry
from jaato.tools.permissions import Policy
from jaato.tools.tool import tool

ASKING = Policy.of({"defaultPolicy": "ask"})


def trail(live: Any) -> list[str]:
    """The names of the events of the calls, in the order of the log."""
    kinds = (PermissionRequested, PermissionResolved, ToolCallStart, ToolCallEnd)
    return [type(event).__name__ for event in recorded(live) if isinstance(event, kinds)]


def answering(live: Any, *answers: Answer) -> Callable[[], None]:
    """Answer the session's permission questions in this order."""
    waiting = list(answers)
    leave = live.desk.attend()

    def listen(event: Event) -> None:
        if isinstance(event, PermissionRequested):
            given = waiting.pop(0)
            asyncio.get_running_loop().call_soon(live.desk.answer, event.question_id, given)

    silence = live.journal.bus.listen(listen)

    def stop() -> None:
        silence()
        leave()

    return stop


@tool(core=True, access="execute")
async def write(path: str, size: int = 0) -> str:
    """Write something."""
    RAN.append((path, size))
    return f"wrote {path}"


RAN: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.1")
@pytest.mark.spec("S0", "Tool Execution Pipeline", "S0.pipeline.1")
def test_a_call_goes_through_its_steps_in_order(tmp_path: Path) -> None:
    """Asked, answered, start durable, run, result durable: in this order in the log."""

    async def main() -> None:
        async with session(tmp_path, [call("write", path="a"), say("done")], [write], policy=ASKING) as live:
            stop = answering(live, Answer(answer="y"))
            await live.post("go")
            stop()
            assert trail(live) == [
                "PermissionRequested",
                "PermissionResolved",
                "ToolCallStart",
                "ToolCallEnd",
            ]
            start = next(event for event in recorded(live) if isinstance(event, ToolCallStart))
            assert start.permission is not None
            assert start.permission.decision == "allowed"

    anyio.run(main)
    assert RAN == [("a", 0)]


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.1")
@pytest.mark.parametrize(
    ("step", "made", "code"),
    [
        ("known", call("nothing"), "tool_unknown"),
        ("active", call("later", wrong=1), "tool_inactive"),
        ("valid", call("write", size="big"), "arguments_invalid"),
        ("permitted", call("write", path="a"), "permission_denied"),
    ],
)
def test_each_step_refuses_before_the_next_is_taken(tmp_path: Path, step: str, made: Any, code: str) -> None:
    """An unknown, inactive or invalid call asks nobody; none that is refused has a start or runs."""

    @tool(access="execute")
    async def later(path: str) -> str:
        """A discoverable tool."""
        RAN.append((path, 1))
        return "ran"

    async def main() -> None:
        async with session(tmp_path, [made, say("done")], [write, later], policy=ASKING) as live:
            stop = answering(live, Answer(answer="n"))
            await live.post("go")
            stop()
            (result,) = results(live)
            assert result.error is not None
            assert result.error.code == code
            asked = ["PermissionRequested", "PermissionResolved"] if step == "permitted" else []
            assert trail(live) == [*asked, "ToolCallEnd"]

    anyio.run(main)
    assert RAN == []


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.2")
def test_edited_arguments_return_to_validation_and_are_what_runs(tmp_path: Path) -> None:
    """The start names the edited arguments; edited ones that do not fit are refused, and nothing runs."""

    async def main() -> None:
        script = [call("write", path="a"), call("write", path="b"), say("done")]
        async with session(tmp_path, script, [write], policy=ASKING) as live:
            stop = answering(
                live,
                Answer(answer="e", arguments={"path": 7}),
                Answer(answer="e", arguments={"path": "edited", "size": 3}),
            )
            await live.post("go")
            stop()
            refused, ran = results(live)
            assert refused.error is not None
            assert refused.error.code == "arguments_invalid"
            assert ran.ok
            (start,) = [event for event in recorded(live) if isinstance(event, ToolCallStart)]
            assert start.arguments == {"path": "edited", "size": 3}

    anyio.run(main)
    assert RAN == [("edited", 3)]


@pytest.mark.spec("S0", "Parallel Tool Execution", "S0.parallel.4")
@pytest.mark.spec("C4", "Permissions", "C4.permissions.2")
def test_parallel_calls_ask_one_at_a_time(tmp_path: Path) -> None:
    """Six calls at once, six questions, never two open; an answer for the turn settles the ones that wait."""

    async def main() -> None:
        script = [calls(*[("write", {"path": str(n)}) for n in range(6)]), say("done")]
        async with session(tmp_path, script, [write], policy=ASKING) as live:
            open_now: list[int] = []
            live.journal.bus.listen(lambda _event: open_now.append(len(live.state.questions)))
            stop = answering(live, *[Answer(answer="y")] * 6)
            await live.post("go")
            stop()
            assert max(open_now) == 1
            assert trail(live).count("PermissionRequested") == 6
        script = [*script, calls(*[("write", {"path": str(n)}) for n in range(6)]), say("done")]
        async with reopened(tmp_path, live.state.session_id, script, [write], policy=ASKING) as again:
            before = trail(again).count("PermissionRequested")
            stop = answering(again, Answer(answer="t"))
            await again.post("go")
            stop()
            assert trail(again).count("PermissionRequested") == before + 1

    anyio.run(main)
    assert len(RAN) == 12


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
            with anyio.fail_after(20):
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
        if name == "GeneratorExit":  # in a coroutine it means that the loop lets go of it
            raise BaseException(name)
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
    assert [path for path in paths if path] == ["/a~1b", "/kind", "/pair/1"]
    messages = " ".join(issue["message"] for issue in result["issues"] if not issue["path"])
    assert "count" in messages
    assert "more" in messages


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.5")
def test_a_large_result_is_behind_a_handle_that_readfile_reads_on(tmp_path: Path) -> None:
    """The model gets head and tail and the handle; readFile gives the middle; another session's handle is nothing."""
    lines = [f"line {n:06d}" for n in range(20_000)]

    @tool(core=True, access="read")
    def much() -> str:
        """Say much."""
        return "\n".join(lines)

    def read(request: Any) -> Any:
        text = request.messages[-1].parts[0].content[0].text
        assert len(text) < 32_000
        assert text.startswith("line 000000")
        assert text.endswith("line 019999")
        handle = request.messages[-1].parts[0].handle
        assert handle.startswith("result:")
        assert handle in text
        handles.append(handle)
        return call("readFile", path=handle, offset=120_000, limit=36)

    handles: list[str] = []

    async def main() -> None:
        plugins = ["introspection", "file_edit"]
        async with session(tmp_path, [call("much"), read, say("done")], [much], plugins) as live:
            await live.post("go")
            part = results(live)[1].content[0]
            assert isinstance(part, Text)
            assert "line 010001" in part.text
            assert "line 010005" not in part.text
        script = [call("readFile", path=handles[0]), say("done")]
        async with session(tmp_path, script, [much], plugins) as other:
            await other.post("go")
            assert results(other)[0].error is not None
        again = [say(""), say(""), say(""), call("readFile", path=handles[0], limit=1), say("done")]
        async with reopened(tmp_path, live.state.session_id, again, [much], plugins) as back:
            await back.post("go")
            assert results(back)[-1].ok

    anyio.run(main)


@pytest.mark.spec("S1", "Executor Metadata", "S1.metadata.2")
def test_metadata_reaches_the_clients_and_not_the_model(tmp_path: Path) -> None:
    """continuation_id, show_output and show_popup are on the end event, with their defaults where not given."""

    @tool(core=True, access="read")
    async def hidden() -> Any:
        """Show nothing."""
        return {"output": "x"}, {"continuation_id": "sess_1", "show_output": False}

    @tool(core=True, access="read")
    async def plain() -> Any:
        """Show everything."""
        return {"output": "y"}

    async def main() -> None:
        script = [calls(("hidden", {}), ("plain", {})), say("done")]
        async with session(tmp_path, script, [hidden, plain]) as live:
            await live.post("go")
            ends = {event.tool: event for event in recorded(live) if isinstance(event, ToolCallEnd)}
            shown = ends["hidden"]
            assert (shown.continuation_id, shown.show_output, shown.show_popup) == ("sess_1", False, True)
            assert (ends["plain"].continuation_id, ends["plain"].show_output) == (None, True)
            part = results(live)[0].content[0]
            assert isinstance(part, Text)
            assert "continuation_id" not in part.text

    anyio.run(main)


@pytest.mark.spec("S3", "User Commands vs Model Tools", "S3.commands.1")
def test_what_the_model_calls_is_always_in_the_history(tmp_path: Path) -> None:
    """Calls and results, failed ones too, stand in the conversation in order."""

    async def main() -> None:
        script = [calls(("write", {"path": "a"}), ("nothing", {})), say("done")]
        async with session(tmp_path, script, [write]) as live:
            await live.post("go")
            asked, answered = live.state.messages[1], live.state.messages[2]
            assert [made.name for made in asked.function_calls] == ["write", "nothing"]
            assert [part.call_id for part in answered.parts] == [  # type: ignore[union-attr]  # tool results
                made.call_id for made in asked.function_calls
            ]
            assert provider_of(live).requests[1].messages[:3] == live.state.messages[:3]

    anyio.run(main)


@pytest.mark.spec("S3", "User Commands vs Model Tools", "S3.commands.3")
@pytest.mark.parametrize("share", [True, False])
def test_only_a_shared_commands_output_joins_the_conversation(tmp_path: Path, *, share: bool) -> None:
    """With share_with_model the model sees the output at its next turn; without, never."""
    from tests.kit import plan, runtime

    from jaato.abc.plugin import UserCommand
    from jaato.runtime.commands import run_command

    async def main() -> None:
        made = runtime(tmp_path)
        mine = Documented("mine")
        mine.commands = [UserCommand("weather", "Say it.", share_with_model=share)]
        mine.executors = {"weather": lambda args: f"rain in {args['args'][0]}"}
        made.registry.register_plugin(mine, expose=True)
        async with made.create(plan(tmp_path, [say("ok")])) as live:
            assert await run_command(live, made.registry, "weather", "Bern") == "rain in Bern"
            assert await run_command(live, made.registry, "unheard", "") is None
            await live.post("go")
            seen = "\n".join(m.text for m in provider_of(live).requests[0].messages)
            assert ("rain in Bern" in seen) is share
        made.close()

    anyio.run(main)


@pytest.mark.spec("S3", "Event Protocol", "S3.events.1")
def test_the_events_of_a_session_have_the_documented_types(tmp_path: Path) -> None:
    """A turn with a question, a call and an answer shows the types of the table, each as JSON with its fields."""
    import json

    documented = {
        *("agent.created", "agent.output", "agent.status_changed", "tool.call_start", "tool.call_end"),
        *("permission.requested", "context.updated", "turn.completed", "message.user", "message.model"),
    }

    async def main() -> None:
        seen: list[Event] = []
        async with session(tmp_path, [call("write", path="a"), say("done")], [write], policy=ASKING) as live:
            live.journal.bus.listen(seen.append)
            stop = answering(live, Answer(answer="y"))
            await live.post("go")
            stop()
            rows = [json.loads(encode(event)) for event in [*recorded(live), *seen]]
            assert documented <= {row["type"] for row in rows}
            for row in rows:
                assert {"type", "timestamp", "session_id", "agent_id", "seq"} <= set(row)

    anyio.run(main)


@pytest.mark.spec("S4", "3. Separation of Data and Presentation", "S4.data.1")
def test_clarifications_travel_as_pairs(tmp_path: Path) -> None:
    """The resolved event has (question, answer) pairs, whatever a client makes of them."""
    from jaato.protocol.events import ClarificationQuestion, ClarificationResolved

    async def main() -> None:
        script = [
            call("get_tool_schemas", names=["request_clarification"]),
            call(
                "request_clarification",
                context="Paint",
                questions=[{"question": "Which?"}, {"question": "Why?"}],
            ),
            say("done"),
        ]
        async with session(tmp_path, script, plugins=["introspection", "clarification"]) as live:
            live.desk.attend()

            def listen(event: Event) -> None:
                if isinstance(event, ClarificationQuestion):
                    loop = asyncio.get_running_loop()
                    loop.call_soon(live.desk.answer, event.question_id, ["Red", None])

            live.journal.bus.listen(listen)
            await live.post("go")
            (resolved,) = [event for event in recorded(live) if isinstance(event, ClarificationResolved)]
            assert resolved.qa_pairs == [("Which?", "Red"), ("Why?", None)]

    anyio.run(main)
