"""Death of the process while subagents work: each is brought back, nothing is repeated, nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.agent.crash_child import effect
from tests.agent.deaths import Die, dying
from tests.kit import call, recorded, say
from tests.subagent.cast import session_of, stage

from jaato.abc.provider import ModelRequest
from jaato.agent.session import Session
from jaato.protocol.events import AgentCompleted, AgentCreated, Event
from jaato.protocol.messages import Message, ToolCall, ToolResult
from jaato.providers.scripted import Step

LAST_EVENT = 48


def run_child(path: Path, die_at: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.subagent.crash_child", str(path), str(die_at)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )


@pytest.fixture(scope="module")
def die() -> Iterator[Die]:
    """Plays the script in a process that dies."""
    with dying("tests.subagent.crash_child") as made:
        yield made


def paired(messages: Sequence[Message]) -> bool:
    """Whether every call of a history is followed by exactly its results."""
    waiting: list[str] = []
    for message in messages:
        answered = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        if answered != waiting:
            return False
        waiting = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
    return not waiting


def check_restored(live: Session) -> None:
    """What must hold of any session that is opened again."""
    log = [event for event in recorded(live) if isinstance(event, Event)]
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    made = [event.agent_id for event in log if isinstance(event, AgentCreated) and event.parent_agent_id]
    assert set(live.supervisor.subagents) == set(made)
    for child in live.supervisor.subagents.values():
        state = child.session.state
        assert not (state.open_turn)
        assert not (state.open_calls)
        assert not (state.questions)
        assert not (child.at_work)
        assert paired(state.messages)
        assert child.status in ("completed", "interrupted")
        if child.status == "interrupted":
            assert "Interrupted" in child.report()["error"]
    assert paired(live.state.messages)
    assert live.state.open_turn is None


def test_undisturbed_every_effect_happens_once(tmp_path: Path) -> None:
    """The whole script has as many events as the boundaries below."""
    done = run_child(tmp_path, 0)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == LAST_EVENT
    assert sorted((tmp_path / "effects").read_text().split()) == ["deep", "main", "one", "two"]


@pytest.mark.slow
@pytest.mark.parametrize("die_at", range(3, LAST_EVENT + 1))
def test_killed_at_any_event_the_tree_comes_back(tmp_path: Path, die_at: int, die: Die) -> None:
    """After SIGKILL right after event N every subagent of the log is there, one at work is interrupted and its parent
    told, no effect is repeated, and each can be continued."""
    assert die(tmp_path, die_at) == -signal.SIGKILL
    effects = tmp_path / "effects"
    before = effects.read_text().split() if effects.exists() else []
    session_id = (tmp_path / "session_id").read_text()

    async def main() -> None:
        heard: list[list[Message]] = []

        def again(request: ModelRequest) -> Step:
            heard.append(list(request.messages))
            last = request.messages[-1]
            return say("heard") if last.role != "user" else call("list_active_subagents")

        scripts: dict[str, Any] = {"main": [again] * 20, "anyone": [again] * 20}
        async with stage(tmp_path, scripts, [effect], again=session_id) as (live, _cast):
            check_restored(live)
            unfinished = [
                child for child in live.supervisor.subagents.values() if child.status == "interrupted"
            ]
            for child in unfinished:
                told = [*child.parent.inbox.messages, *child.parent.state.messages]
                assert any(child.id in message.text for message in told if message.source == "child")
            turn = await live.post("go on")
            assert turn is not None
            assert turn.reason == "stop"
            for child in list(live.supervisor.subagents.values()):
                await live.supervisor.runner.start(child, "go on")
                await live.supervisor.runner.see_through(None, child)
                assert child.status == "completed"
            assert all(paired(messages) for messages in heard)
            ends = [e for e in recorded(live) if isinstance(e, AgentCompleted) and e.reason == "interrupted"]
            assert len(ends) == len(unfinished)

    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        anyio.run(main)
    finally:
        os.chdir(here)
    after = effects.read_text().split() if effects.exists() else []
    assert after == before
    assert len(set(after)) == len(after)


def test_what_was_shared_and_how_agents_are_held_survives(tmp_path: Path) -> None:
    """After a restart the values, their versions, the bounds and the settings are as they were."""
    kept: dict[str, Any] = {}

    async def main() -> None:
        config = {"tools": ["effect"], "read_only": True, "max_turns": 5, "temperature": 0.5}
        scripts: dict[str, Any] = {
            "main": [
                call("set_shared_state", key="plan", value={"a": [1, None]}),
                call("delegate", task="x", name="one", inline_config=config),
                say("done"),
            ],
            "one": [say("did"), call("effect", name="forbidden"), say("could not")],
        }
        async with stage(tmp_path, scripts, [effect]) as (live, _cast):
            await live.post("go")
            kept["shared"] = dict(live.journal.session_state.shared)
            kept["created"] = next(iter(live.supervisor.subagents.values())).created
        async with stage(tmp_path, scripts, [effect], again=live.state.session_id) as (again, _cast):
            child = next(iter(again.supervisor.subagents.values()))
            assert again.journal.session_state.shared == kept["shared"]
            assert child.created == kept["created"]
            assert child.session.model.settings.temperature == 0.5
            assert session_of(child).parts.limits.model_calls == 5
            await again.supervisor.runner.start(child, "try it")
            report = await again.supervisor.runner.see_through(None, child)
            assert report["result"] == "could not"
            result = next(m for m in child.session.state.messages if m.role == "tool").parts[0]
            assert isinstance(result, ToolResult)
            assert result.error is not None
            assert result.error.code == "permission_denied"

    anyio.run(main)
    assert not (tmp_path / "effects").exists()
