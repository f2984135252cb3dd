"""An agent that finds tools of registries, has them described, and calls them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest
from tests.arp.serving import TEXT, definition, shop
from tests.arp.using import configure, session
from tests.cli.environment import CliEnvironment
from tests.cli.environment import call as scripted_call
from tests.cli.environment import say as scripted_text
from tests.kit import call, calls, provider_of, recorded, results, say
from tests.mcp import small_server

from jaato.protocol.events import ToolActivated


@pytest.mark.spec("S2", "Runtime integration")
def test_two_registries_in_one_turn(tmp_path: Path) -> None:
    """An agent uses tools of two registries in one turn: found by what they do, described when asked for, never declared
    before, each call with its arguments, its context and its trace."""
    weather = definition("forecast", "What the weather will be in a city.")
    trains = definition("departures", "When trains leave from a station.")
    script = [
        call("list_tools", queries=["weather in a city", "trains that leave"]),
        call("get_tool_schemas", names=["forecast", "departures"]),
        calls(("forecast", {"text": "Bern"}), ("departures", {"text": "Bern"})),
        say("done"),
    ]

    async def main() -> None:
        async with session(tmp_path, script) as live:
            await live.post("How is the weather in Bern, and when does a train leave?")
            first_request = provider_of(live).requests[0]
            assert not {spec.name for spec in first_request.tools} & {"forecast", "departures"}
            listed, described, first, second = results(live)
            found = [row["tools"][0]["name"] for row in listed.structured["results"]]
            assert found == ["forecast", "departures"]
            assert [row["parameters"]["required"] for row in described.structured["schemas"]] == [
                ["text"],
                ["text"],
            ]
            assert first.structured == {"tool": "forecast", "text": "Bern"}
            assert second.structured == {"tool": "departures", "text": "Bern"}
            activated = [event.tools for event in recorded(live) if isinstance(event, ToolActivated)]
            assert activated == [["forecast", "departures"]]
            [seen] = one.asked("POST")
            assert seen.body["args"] == {"text": "Bern"}
            assert seen.body["context"]["session_id"] == live.state.session_id
            assert seen.body["trace"]["flow_id"] == live.state.session_id
            assert seen.body["trace"]["step_id"].endswith(first.call_id)
            assert seen.headers["traceparent"].startswith("00-")

    with shop(weather) as one, shop(trains) as two:
        configure(tmp_path, weather=one.url, trains=two.url)
        anyio.run(main)
        assert [len(it.asked("GET", "/v1/tools")) for it in (one, two)] == [1, 1]


def test_with_an_mcp_server_from_the_command_line(tmp_path: Path) -> None:
    """`jaato run` uses tools of two registries and of an MCP server in one turn, none of them declared before."""
    desk = CliEnvironment(tmp_path)
    described = tmp_path / "described.json"
    described.write_text("{}")
    program = [sys.executable, str(Path(small_server.__file__)), str(described)]
    with shop(definition("forecast", "The weather in a city.")) as one, shop(definition("departures")) as two:
        for words in (
            ["registry", "add", "weather", one.url],
            ["registry", "add", "trains", two.url],
            ["mcp", "add", "small", "--", *program],
            ["mcp", "tools", "small"],
            ["registry", "list", "weather"],
            ["tools", "schema", "forecast"],
        ):
            done = desk.run(*words)
            assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["parameters"] == TEXT
        names = ["forecast", "departures", "mcp__small__greet"]
        script = desk.script(
            scripted_call("list_tools", queries=["weather in a city"]),
            scripted_call("get_tool_schemas", names=names),
            {"calls": [{"name": name, "arguments": {"text": "x"}} for name in names[:2]]
             + [{"name": names[2], "arguments": {"name": "you"}}]},
            scripted_text("done"),
        )  # fmt: skip
        done = desk.run("run", "--yes", "--output", "events", *script, "go")
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        ended = {one["tool"]: one["result"] for one in events if one["type"] == "tool.call_end"}
        assert {name for name in names if ended[name]["ok"]} == set(names), ended
        declared = [name for one in events if one["type"] == "tool.activated" for name in one["tools"]]
        assert declared == names
        assert len(one.asked("POST")) == len(two.asked("POST")) == 1


def test_resumed_without_the_registry(tmp_path: Path) -> None:
    """A session that goes on in another process declares the same tools, to the byte, though their registry is gone."""

    async def main() -> None:
        script = [
            call("list_tools"),
            call("get_tool_schemas", names=["echo"]),
            call("echo", text="x"),
            say("done"),
        ]
        with shop(definition("echo")) as it:
            configure(tmp_path, it=it.url)
            async with session(tmp_path, script) as live:
                await live.post("go")
                before = provider_of(live).requests[-1].tools
                session_id = live.state.session_id
        async with session(
            tmp_path, [*script, call("echo", text="y"), say("done")], resume=session_id
        ) as live:
            await live.post("go on")
            assert provider_of(live).requests[0].tools == before
            error = results(live)[-1].error
            assert error is not None
            assert (error.code, error.retryable) == ("registry_failed", True)

    anyio.run(main)


def test_a_session_of_few_plugins(tmp_path: Path) -> None:
    """A session that has only some plugins finds the tools of registries that were never asked before, too."""

    async def main() -> None:
        script = [call("list_tools", query="echo"), call("get_tool_schemas", names=["echo"]), say("done")]
        async with session(tmp_path, script, plugins=("introspection", "arp")) as live:
            await live.post("go")
            assert results(live)[-1].structured["activated"] == ["echo"]
        async with session(tmp_path, script, plugins=("introspection",)) as live:
            await live.post("go")
            assert results(live)[-1].structured["not_found"] == ["echo"]

    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)
        assert len(it.asked("GET", "/v1/tools")) == 1
