"""An agent that finds tools of registries, has them described, and calls them."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.arp.serving import definition, shop
from tests.arp.using import configure, session
from tests.kit import call, calls, provider_of, recorded, results, say

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
