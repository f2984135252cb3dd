"""`Agent`: the native way in, with the real tools over a scripted model."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.kit import FAST, call, calls, results, say

from jaato.errors import AuthenticationError, CancelledException, ConfigError, LimitReached, MalformedReply
from jaato.protocol.events import AgentOutput, Event, ToolCallEnd, TurnCompleted
from jaato.protocol.messages import Media
from jaato.providers.scripted import Answer, ScriptedProvider
from jaato.runtime.agent import Agent

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def agent(path: Path, script: list[Answer], **more: Any) -> Agent:
    """An agent in a workspace below `path` with a scripted model."""
    workspace = path / "work"
    workspace.mkdir(exist_ok=True)
    settings: dict[str, Any] = {
        "provider": ScriptedProvider(script, keep_requests=True),
        "workspace": workspace,
        "state_dir": path / "state",
        "environ": {"HOME": str(path), "PATH": "/usr/bin:/bin"},
        "retry": FAST,
    }
    return Agent(**(settings | more))


@pytest.mark.spec("C5", "Client, runtime, session")
def test_ten_lines_do_real_work(tmp_path: Path) -> None:
    """An agent discovers a tool, reads a real file and writes another."""

    async def main() -> None:
        script: list[Answer] = [
            call("list_tools", queries=["write a new file", "count words"]),
            calls(("readFile", {"path": "in.txt"}), ("get_tool_schemas", {"names": ["writeNewFile"]})),
            call("writeNewFile", path="out.txt", content="three words here\n"),
            call("run", command="wc -w < out.txt"),
            say("It has 3 words."),
        ]
        async with agent(tmp_path, script, allow=["writeNewFile"]) as live:
            (tmp_path / "work" / "in.txt").write_text("hello\n")
            result = await live.run("Write three words.")
            assert result.text == "It has 3 words."
            assert (tmp_path / "work" / "out.txt").read_text() == "three words here\n"
            found = results(live.live)
            assert [r.name for r in found] == [
                "list_tools",
                "readFile",
                "get_tool_schemas",
                "writeNewFile",
                "run",
            ]
            names = [row["name"] for row in found[0].structured["results"][0]["tools"]]
            assert "writeNewFile" in names[:3]
            assert found[3].ok, found[3]

    anyio.run(main)


def test_what_only_reads_runs_and_the_rest_is_denied_without_anyone_to_ask(tmp_path: Path) -> None:
    """Nothing is written, and the model is told why."""

    async def main() -> None:
        script: list[Answer] = [
            call("run", command="touch made"),
            call("run", command="ls | head -3"),
            call("get_tool_schemas", names=["writeNewFile"]),
            call("writeNewFile", path="x", content="y"),
            say("ok"),
        ]
        async with agent(tmp_path, script) as live:
            await live.run("go")
            touched, listed, _, written = results(live.live)
            assert touched.error is not None
            assert touched.error.code == "permission_denied"
            assert "--allow" in touched.error.message
            assert listed.ok
            assert not written.ok
        assert [path.name for path in (tmp_path / "work").iterdir()] == []

    anyio.run(main)


def test_on_permission_answers(tmp_path: Path) -> None:
    """The program's function is asked, with the call's arguments, and its answer counts."""
    asked: list[Any] = []

    async def main() -> None:
        async def allow_touch(question: Any) -> str:
            asked.append(question.arguments["command"])
            return "y" if "touch" in question.arguments["command"] else "n"

        script: list[Answer] = [
            calls(("run", {"command": "touch made"}), ("run", {"command": "rm -rf ."})),
            say("ok"),
        ]
        async with agent(tmp_path, script, on_permission=allow_touch) as live:
            await live.run("go")
            assert [r.ok for r in results(live.live)] == [True, False]

    anyio.run(main)
    assert asked == ["touch made", "rm -rf ."]
    assert (tmp_path / "work" / "made").exists()


def test_read_only_denies_everything_else_whatever_is_allowed(tmp_path: Path) -> None:
    """`read_only` is stronger than `yes` and `allow`."""

    async def main() -> None:
        script: list[Answer] = [call("run", command="touch made"), say("ok")]
        async with agent(tmp_path, script, yes=True, allow=["run"], read_only=True) as live:
            await live.run("go")
            assert not results(live.live)[0].ok

    anyio.run(main)
    assert not (tmp_path / "work" / "made").exists()


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_function_becomes_a_tool(tmp_path: Path, asynchronous: bool) -> None:
    """A plain function given to the agent is declared from its signature and docstring, and runs without asking."""

    def price(item: str, count: int = 1) -> dict[str, Any]:
        """The price of an item."""
        return {"item": item, "total": 3 * count}

    async def price_async(item: str, count: int = 1) -> dict[str, Any]:
        """The price of an item."""
        return price(item, count)

    price_async.__name__ = "price"

    async def main() -> None:
        tools = [price_async if asynchronous else price]
        async with agent(tmp_path, [call("price", item="tea", count=2), say("6")], tools=tools) as live:
            await live.run("go")
            assert results(live.live)[0].structured == {"item": "tea", "total": 6}
            declared = live.live.request().tools
            assert any(
                spec.name == "price" and spec.description == "The price of an item." for spec in declared
            )

    anyio.run(main)


@dataclasses.dataclass
class City:
    """A structured answer."""

    name: str
    people: int


class Town(msgspec.Struct):
    """Another kind of structured answer."""

    name: str
    people: int


@pytest.mark.parametrize("kind", [City, Town])
def test_structured_output_by_type(tmp_path: Path, kind: type) -> None:
    """The answer comes in the type asked for; one that does not fit is asked for again."""

    async def main() -> None:
        script: list[Answer] = [
            say('{"name": "Bern"}'),
            say('```json\n{"name": "Bern", "people": 140000}\n```'),
        ]
        async with agent(tmp_path, script) as live:
            result: Any = await live.run("A city, please.", output_type=kind)
            assert result.data == kind(name="Bern", people=140000)
            provider = live.provider
            assert isinstance(provider, ScriptedProvider)
            assert provider.requests[0].settings.response_schema is not None
            assert live.live.settings.response_schema is None

    anyio.run(main)


def test_structured_output_that_never_fits_is_a_typed_error(tmp_path: Path) -> None:
    """After three tries the caller gets MalformedReply."""

    async def main() -> None:
        async with agent(tmp_path, [say("no"), say("no"), say("no"), say("no")]) as live:
            with pytest.raises(MalformedReply, match="does not fit"):
                await live.run("A city, please.", output_type=City)

    anyio.run(main)


def test_stream_gives_events_and_ends_with_the_turn(tmp_path: Path) -> None:
    """The events of one turn, in order, deltas included."""

    async def main() -> None:
        events: list[Event] = []
        async with agent(tmp_path, [call("get_environment"), say("one two", chunks=2)]) as live:
            async for event in live.stream("go"):
                events.append(event)
        assert isinstance([event for event in events if event.durable][-1], TurnCompleted)
        assert "".join(event.text for event in events if isinstance(event, AgentOutput)) == "one two"
        assert any(isinstance(event, ToolCallEnd) for event in events)
        sequence = [event.seq for event in events if event.durable]
        assert sequence == list(range(sequence[0], sequence[0] + len(sequence)))

    anyio.run(main)


def test_leaving_a_stream_stops_the_turn(tmp_path: Path) -> None:
    """A reader that has seen enough leaves no turn running."""

    async def main() -> None:
        async def forever() -> str:
            """Never end."""
            await anyio.sleep_forever()
            return "never"

        async with agent(tmp_path, [call("forever"), say("never"), say("next")], tools=[forever]) as live:
            with anyio.fail_after(10):
                stream = live.stream("go")
                async for event in stream:
                    if type(event).__name__ == "ToolCallStart":
                        break
                await stream.aclose()  # type: ignore[attr-defined]  # an async generator
            assert not live.live.busy
            assert (await live.run("again")).text == "never"

    anyio.run(main)


def test_a_session_goes_on_by_id_prefix_and_name(tmp_path: Path) -> None:
    """What was said before is there again; the session keeps its workspace."""
    first = agent(tmp_path, [say("one")], name="mine")
    session_id = first.run_sync("first").session_id
    for handle in (session_id, "mine"):
        result = agent(tmp_path, [say("x"), say("y"), say("z")], session=handle).run_sync("more")
        assert result.session_id == session_id
    with pytest.raises(Exception, match="No session"):
        agent(tmp_path, [], session="other").run_sync("more")


def test_errors_are_typed(tmp_path: Path) -> None:
    """A turn that ends badly raises what ended it."""

    async def main() -> None:
        async with agent(tmp_path, [say("", error="provider_authentication")]) as live:
            with pytest.raises(AuthenticationError):
                await live.run("go")
        async with agent(tmp_path, [call("get_environment")] * 5, max_turns=2) as live:
            with pytest.raises(LimitReached, match="max-turns"):
                await live.run("go")

        def stopping(_request: Any) -> Any:
            live.stop()
            return say("x")

        async with agent(tmp_path, [stopping]) as live:
            with pytest.raises(CancelledException):
                await live.run("go")

    anyio.run(main)


@pytest.mark.parametrize("prompt", ["", None])
def test_an_empty_prompt_is_refused(tmp_path: Path, prompt: Any) -> None:
    """Nothing is sent for nothing said."""

    async def main() -> None:
        async with agent(tmp_path, [say("x")]) as live:
            with pytest.raises(ConfigError, match="empty"):
                await live.run(prompt)

    anyio.run(main)


def test_an_image_travels_as_a_blob(tmp_path: Path) -> None:
    """An attached image is a media part whose bytes are stored once, by hash."""
    picture = tmp_path / "pixel.png"
    picture.write_bytes(PIXEL)

    async def main() -> None:
        async with agent(tmp_path, [say("a pixel")]) as live:
            await live.run("What is this?", images=[picture])
            part = live.live.state.messages[0].parts[1]
            assert isinstance(part, Media)
            assert part.mime_type == "image/png"
            assert live.live.request().read_blob(part.blob) == PIXEL
            with pytest.raises(ConfigError, match="no image"):
                await live.run("And this?", images=[tmp_path / "x.exe"])

    anyio.run(main)


def test_a_large_result_is_cut_and_read_on_by_its_handle(tmp_path: Path) -> None:
    """The model gets head and tail and a handle that readFile reads; another session cannot."""

    async def main() -> None:
        def big() -> str:
            """A lot of text."""
            return "".join(f"line {n}\n" for n in range(20_000))

        handle = ""

        def read_on(request: Any) -> Any:
            nonlocal handle
            handle = request.messages[-1].parts[0].handle
            return call("readFile", path=handle, offset=150_000, limit=50)

        async with agent(tmp_path, [call("big"), read_on, say("ok")], tools=[big]) as live:
            await live.run("go")
            cut, more = results(live.live)
            assert sum(len(part.text or "") for part in cut.content) < 31_000
            assert "line 19999" in (cut.content[0].text or "")
            assert more.ok, more
            assert "line 14" in (more.content[0].text or "")
        async with agent(tmp_path, [lambda _r: call("readFile", path=handle), say("ok")]) as live:
            await live.run("go")
            assert not results(live.live)[0].ok

    anyio.run(main)


def test_a_slow_command_moves_to_the_background_and_can_be_stopped(tmp_path: Path) -> None:
    """`background=true` gives a task id at once; output and stop work by it; nothing is left after the session."""

    async def main() -> None:
        def task_id(request: Any) -> str:
            texts = [
                p.structured for m in request.messages for p in m.parts if type(p).__name__ == "ToolResult"
            ]
            return str(
                next(t["task_id"] for t in texts if isinstance(t, dict) and t.get("auto_backgrounded"))
            )

        script: list[Answer] = [
            call("get_tool_schemas", names=["check_background", "stop_background", "get_background_output"]),
            call("run", command="echo begun; sleep 300", background=True),
            lambda request: call("check_background", task_id=task_id(request)),
            lambda request: call("stop_background", task_id=task_id(request)),
            say("ok"),
        ]
        async with agent(tmp_path, script, yes=True) as live:
            with anyio.fail_after(20):
                await live.run("go")
            _, promised, checked, stopped = results(live.live)
            assert promised.structured["tool_name"] == "run"
            assert checked.structured["status"] == "running"
            assert stopped.structured["stopped"] is True
            with anyio.fail_after(10):
                while live.live.tasks.running():
                    await anyio.sleep(0.01)

    anyio.run(main)


def test_outside_of_the_agent_nothing_runs() -> None:
    """An agent that was not entered says what to do."""
    with pytest.raises(Exception, match="Enter the agent first"):
        _ = Agent().session_id
