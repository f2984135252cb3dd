"""`Agent`, the native way in, and how stored sessions are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.kit import USAGE, call, say

from jaato.protocol.events import AgentOutput, Event, TurnCompleted
from jaato.providers.scripted import ScriptedProvider
from jaato.runtime.embedding.agent import Agent


@pytest.mark.spec("C5", "Client, runtime, session", "C5.client.1")
def test_the_agent_is_the_short_way_in(tmp_path: Path) -> None:
    """async with, run, stream, run_sync, and structured output by a type."""

    class Answer(msgspec.Struct):
        city: str
        people: int

    def population(city: str) -> int:
        """How many people live there."""
        return {"Bern": 134}[city]

    def agent(*script: Answer_) -> Agent:
        return Agent(
            model="script",
            provider=ScriptedProvider(script),
            tools=[population],
            workspace=tmp_path,
            state_dir=tmp_path / "state",
            plugins=["introspection"],
        )

    async def main() -> None:
        async with agent(
            call("population", city="Bern"), say("134"), say('{"city": "Bern", "people": 134}')
        ) as one:
            assert (await one.run("How many?")).text == "134"
            result = await one.run("As JSON", output_type=Answer)
            assert result.data == Answer("Bern", 134)
            assert result.usage == USAGE
        async with agent(say("a b c", chunks=3)) as two:
            events: list[Event] = [event async for event in two.stream("go")]
            assert "".join(e.text for e in events if isinstance(e, AgentOutput)) == "a b c"
            assert any(isinstance(event, TurnCompleted) for event in events)

    anyio.run(main)
    assert agent(say("sync")).run_sync("go").text == "sync"


Answer_ = Any


@pytest.mark.spec("C5", "Client, runtime, session", "C5.client.2")
def test_a_session_is_found_by_id_prefix_or_name(tmp_path: Path) -> None:
    """Ids are a letter and a ULID; an agent goes on with a stored conversation by any of the three."""

    def run(script: list[Any], **more: Any) -> str:
        agent = Agent(
            model="script",
            provider=ScriptedProvider(script),
            workspace=tmp_path,
            state_dir=tmp_path / "state",
            plugins=[],
            **more,
        )
        return agent.run_sync("go").session_id

    first = run([say("one")], name="paint")
    assert len(first) == 27
    assert first[0] == "s"
    assert first[1:].isalnum()
    for text in (first, first[:20], "paint"):
        assert run([say(str(n)) for n in range(9)], session=text) == first
