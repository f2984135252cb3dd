"""The ways in, used wrongly: twice at once, from many threads, left early, with answers that do not fit."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, say

from jaato.errors import JaatoError, MalformedReply
from jaato.protocol.events import ToolCallStart
from jaato.providers.scripted import Answer, ScriptedProvider
from jaato.runtime.embedding.agent import Agent
from jaato.runtime.embedding.client import JaatoClient
from jaato.tools.tool import tool


@tool
async def wait() -> str:
    """Wait a little."""
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    return "waited"


def agent(path: Path, script: list[Answer], **more: Any) -> Agent:
    """An agent that plays a script in `path`."""
    (path / "work").mkdir(exist_ok=True)
    environ = {"HOME": str(path), "PATH": "/usr/bin:/bin"}
    provider = ScriptedProvider(script)
    return Agent(
        "script", provider, workspace=path / "work", state_dir=path / "state", environ=environ, **more
    )


def test_a_second_prompt_at_once_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    """While a turn runs, `run` and `stream` raise; the turn goes on, without the other's message or settings."""

    async def main() -> None:
        async with agent(tmp_path, [call("wait"), say("first")], tools=[wait]) as made:

            async def intrude() -> None:
                with pytest.raises(JaatoError, match="at work"):
                    await made.run("second", output_type=list[int])
                with pytest.raises(JaatoError, match="at work"):
                    async for _event in made.stream("third"):
                        pass
                assert made.live.model.settings.response_schema is None

            async with anyio.create_task_group() as group:
                group.start_soon(intrude)
                assert (await made.run("first")).text == "first"
            assert [m.text for m in made.live.state.messages if m.role == "user"] == ["first"]
            with pytest.raises(JaatoError, match="entered already"):
                await made.__aenter__()

    anyio.run(main)


def test_after_a_stream_was_left_the_next_prompt_is_answered(tmp_path: Path) -> None:
    """Breaking out of a stream stops its turn; the very next line can ask again."""

    async def main() -> None:
        async with agent(tmp_path, [call("wait"), say("second")], tools=[wait]) as made:
            async for event in made.stream("go"):
                if isinstance(event, ToolCallStart):
                    break
            assert (await made.run("again")).text == "second"

    anyio.run(main)


@pytest.mark.parametrize("wrong", ["no JSON", "[" * 100_000, '{"a": 1}'], ids=["text", "depth", "type"])
def test_three_answers_that_do_not_fit_are_a_typed_error(tmp_path: Path, wrong: str) -> None:
    """The model is told twice what is wrong; then `MalformedReply` says so, and the agent is as before."""

    async def main() -> None:
        async with agent(tmp_path, [say(wrong)] * 3) as made:
            with pytest.raises(MalformedReply):
                await made.run("numbers", output_type=list[int])
            assert made.live.model.settings.response_schema is None
            assert made.live.state.turns == 3

    anyio.run(main)


def test_run_sync_from_many_threads_takes_turns(tmp_path: Path) -> None:
    """Eight threads may use one agent: each prompt is answered, in one conversation."""
    made = agent(tmp_path, [say("yes")] * 8)
    said: list[str] = []
    threads = [threading.Thread(target=lambda: said.append(made.run_sync("hi").text)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["yes"] * 8


def test_run_sync_refuses_an_agent_that_lives_on_another_loop(tmp_path: Path) -> None:
    """An agent entered with `async with` belongs to that loop."""

    async def main() -> None:
        async with agent(tmp_path, [say("never")]) as made:
            with pytest.raises(JaatoError, match="entered already"):
                await anyio.to_thread.run_sync(made.run_sync, "hi")

    anyio.run(main)


def test_a_client_used_by_many_threads_has_one_session(tmp_path: Path) -> None:
    """Threads that come first at once share the session that the first of them makes; after close there is none."""
    client = JaatoClient(state_dir=tmp_path / "state")
    client.connect(model="script", provider=ScriptedProvider([say("x")] * 20), workspace=tmp_path)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(client.get_session())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    client.close()
    client.close()
