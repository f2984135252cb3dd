"""`Agent`: the native way in, with the real tools over a scripted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, results, say
from tests.runtime.agents import agent

from jaato.errors import AuthenticationError, CancelledException, ConfigError, LimitReached
from jaato.protocol.events import AgentOutput, Event, ToolCallEnd, TurnCompleted
from jaato.providers.scripted import Answer
from jaato.runtime.embedding.agent import Agent


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
            declared = live.live.model.request().tools
            assert any(
                spec.name == "price" and spec.description == "The price of an item." for spec in declared
            )

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
            with anyio.fail_after(60):
                stream = live.stream("go")
                async for event in stream:
                    if type(event).__name__ == "ToolCallStart":
                        break
                await stream.aclose()
            assert not live.live.is_busy
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
            with anyio.fail_after(60):
                await live.run("go")
            _, promised, checked, stopped = results(live.live)
            assert promised.structured["tool_name"] == "run"
            assert checked.structured["status"] == "running"
            assert stopped.structured["stopped"] is True
            with anyio.fail_after(60):
                while live.live.tasks.running():
                    await anyio.sleep(0.01)

    anyio.run(main)


def test_outside_of_the_agent_nothing_runs() -> None:
    """An agent that was not entered says what to do."""
    with pytest.raises(Exception, match="Enter the agent first"):
        _ = Agent().session_id
