"""`Agent`: what it may do, and who is asked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, recorded, results, say
from tests.runtime.agents import agent

from jaato.errors import CancelledException
from jaato.protocol.events import ToolCallEnd
from jaato.providers.scripted import Answer


def test_what_only_reads_runs_and_the_rest_is_denied_without_anyone_to_ask(tmp_path: Path) -> None:
    """Nothing is written, and the model is told why."""

    async def main() -> None:
        script: list[Answer] = [
            call("run", command="touch made", need=["write"]),
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
            calls(
                ("run", {"command": "touch made", "need": ["write"]}),
                ("run", {"command": "rm -rf .", "need": ["write"]}),
            ),
            say("ok"),
        ]
        async with agent(tmp_path, script, on_permission=allow_touch) as live:
            await live.run("go")
            assert [r.ok for r in results(live.live)] == [True, False]

    anyio.run(main)
    assert asked == ["touch made", "rm -rf ."]


def test_waiting_for_an_answer_is_no_part_of_the_duration(tmp_path: Path) -> None:
    """A call whose question waits for the user is as fast as its tool is."""
    waited: list[float] = []

    async def main() -> None:
        async def answer_late(_question: Any) -> str:
            asked = time.monotonic()
            await anyio.sleep(1)
            waited.append(time.monotonic() - asked)
            return "n" if len(waited) == 1 else "y"

        touch = call("run", command="touch made", need=["write"])
        async with agent(tmp_path, [touch, touch, say("ok")], on_permission=answer_late) as live:
            begun = time.monotonic()
            await live.run("go")
            took_s = time.monotonic() - begun
            ends = [event for event in recorded(live.live) if isinstance(event, ToolCallEnd)]
            assert [end.result.ok for end in ends] == [False, True]
            assert sum(waited) + sum(end.duration_s for end in ends) < took_s

    anyio.run(main)
    assert (tmp_path / "work" / "made").exists()


def test_a_call_that_is_stopped_while_its_question_waits_has_taken_no_time(tmp_path: Path) -> None:
    """The wait for an answer that never came is no part of the duration either."""
    waited: list[float] = []

    async def main() -> None:
        async def stop_late(_question: Any) -> str:
            asked = time.monotonic()
            await anyio.sleep(1)
            waited.append(time.monotonic() - asked)
            live.stop()
            await anyio.sleep_forever()
            return "y"

        touch = call("run", command="touch made", need=["write"])
        async with agent(tmp_path, [touch, say("ok")], on_permission=stop_late) as live:
            begun = time.monotonic()
            with pytest.raises(CancelledException):
                await live.run("go")
            took_s = time.monotonic() - begun
            (end,) = [event for event in recorded(live.live) if isinstance(event, ToolCallEnd)]
            assert end.result.error is not None
            assert end.result.error.code == "cancelled"
            assert 0 <= end.duration_s < took_s - waited[0]

    anyio.run(main)


def test_read_only_denies_everything_else_whatever_is_allowed(tmp_path: Path) -> None:
    """`read_only` is stronger than `yes` and `allow`."""

    async def main() -> None:
        script: list[Answer] = [call("run", command="touch made", need=["write"]), say("ok")]
        async with agent(tmp_path, script, yes=True, allow=["run"], read_only=True) as live:
            await live.run("go")
            assert not results(live.live)[0].ok

    anyio.run(main)
    assert not (tmp_path / "work" / "made").exists()
