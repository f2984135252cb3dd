"""Death at any point: every effect at most once, every session resumable, nothing hidden."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.agent.crash_child import TOOLS
from tests.agent.deaths import Die, dying
from tests.kit import call, provider_of, recorded, reopened, results, say

from jaato.abc.provider import ModelRequest
from jaato.protocol.events import TurnCompleted
from jaato.protocol.messages import ToolCall, ToolResult
from jaato.providers.anthropic.dialect import AnthropicDialect
from jaato.providers.dialect import Dialect
from jaato.providers.google_genai.dialect import GeminiDialect
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.openai.responses import OpenAIResponses

LAST_EVENT = 22
DIALECTS: list[Dialect] = [
    OpenAIChat("openai"),
    OpenAIResponses("openai"),
    AnthropicDialect(),
    GeminiDialect(),
]


def run_child(path: Path, die_at: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.agent.crash_child", str(path), str(die_at)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )


@pytest.fixture(scope="module")
def die() -> Iterator[Die]:
    """Plays the script in a process that dies."""
    with dying("tests.agent.crash_child") as made:
        yield made


def paired(request: ModelRequest) -> bool:
    """Whether every call of the history is followed by exactly its results."""
    waiting: list[str] = []
    for message in request.messages:
        answered = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        if answered != waiting:
            return False
        waiting = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
    return not waiting


def test_the_whole_script_has_as_many_events_as_the_boundaries_below(tmp_path: Path) -> None:
    """Undisturbed, the session ends with every effect once."""
    done = run_child(tmp_path, 0)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == LAST_EVENT
    assert sorted((tmp_path / "effects").read_text().split()) == ["five", "four", "one", "three", "two"]


@pytest.mark.slow
@pytest.mark.parametrize("die_at", range(3, LAST_EVENT + 1))
def test_killed_at_any_event_the_session_goes_on_and_repeats_nothing(
    tmp_path: Path, die_at: int, die: Die
) -> None:
    """After SIGKILL right after event N: no event is lost, each effect happened at most once and is not repeated, an
    unfinished call is shown as interrupted, and the conversation can be sent in every dialect."""
    assert die(tmp_path, die_at) == -signal.SIGKILL
    effects = tmp_path / "effects"
    before = effects.read_text().split() if effects.exists() else []
    session_id = (tmp_path / "session_id").read_text()

    async def main() -> None:
        async with reopened(
            tmp_path, session_id, [call("effect", name="after"), say("recovered")] * 9, TOOLS
        ) as live:
            stored = recorded(live)
            assert [event.seq for event in stored] == list(range(1, len(stored) + 1))
            assert len(stored) >= die_at
            assert live.state.open_turn is None
            interrupted = [
                r for r in results(live) if r.error and r.error.code in ("interrupted", "cancelled")
            ]
            finished = sum(
                result.ok
                for result in results(live)
                if result.name in ("effect", "effect_in_thread", "later")
            )
            assert len(before) <= finished + len(interrupted)
            provider_of(live)._next = 0
            turn = await live.post("go on")
            assert isinstance(turn, TurnCompleted)
            assert turn.reason == "stop"
            for request in provider_of(live).requests:
                assert paired(request)
                for dialect in DIALECTS:
                    assert dialect.encode(request)

    here = Path.cwd()
    import os

    os.chdir(tmp_path)
    try:
        anyio.run(main)
    finally:
        os.chdir(here)
    after = effects.read_text().split()
    assert sorted(after) == sorted([*before, "after"])
    assert len(set(after)) == len(after)
