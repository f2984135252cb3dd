"""How many, how deep, how narrow: what holds subagents, and what they are told when it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, results, say
from tests.subagent.acts import problem, value
from tests.subagent.cast import stage

from jaato.abc.provider import ModelRequest
from jaato.agent.session import Session
from jaato.agent.subagents.runner import Slots
from jaato.agent.subagents.subagent import SubagentLimits
from jaato.providers.scripted import Step


def bound(live: Session, **limits: int) -> None:
    """Hold the session's subagents otherwise."""
    live.supervisor.limits = SubagentLimits(**limits)
    live.supervisor.runner.slots = Slots(live.supervisor.limits.at_once)


def test_whoever_delegates_all_the_way_down_is_told_where_it_ends(tmp_path: Path) -> None:
    """Every agent delegates; at the bound it is refused with the setting's name, and the chain comes back up."""

    async def main() -> None:
        def end(request: ModelRequest) -> Step:
            return say(request.messages[-1].parts[0].error.message)  # type: ignore[union-attr]

        def pass_on(request: ModelRequest) -> Step:
            result: Any = request.messages[-1].parts[0]
            return say(result.structured["result"]) if result.ok else say(result.error.message)

        scripts = {
            "main": [call("delegate", task="dig"), pass_on],
            "anyone": [call("delegate", task="dig"), pass_on],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert len(live.journal.session_state.subagents) == 3
            assert "Subagents may nest 3 deep" in value(live)["result"]
            assert "subagent_depth" in value(live)["result"]

    anyio.run(main)


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_deep_tree_cannot_lock_itself(tmp_path: Path, at_once: int) -> None:
    """With one place for all, agents that wait for those below give it away, and the whole tree ends."""

    async def main() -> None:
        scripts = {
            "main": [calls(*[("delegate", {"task": "a"})] * 3), say("done")],
            "anyone": [calls(*[("delegate", {"task": "b"})] * 3), say("down")],
        }
        async with stage(tmp_path, scripts) as (live, cast):
            bound(live, at_once=at_once, depth=3, open=100)
            with anyio.fail_after(60):
                await live.post("go")
            assert [result.ok for result in results(live)] == [True] * 3
            assert len(live.journal.session_state.subagents) == 3 + 9 + 27
            assert cast.most <= at_once + 1  # and the main agent
            assert not any(child.at_work or child.has_slot for child in live.supervisor.subagents.values())

    anyio.run(main)


def test_of_forty_background_tasks_those_over_the_bound_are_refused(tmp_path: Path) -> None:
    """32 are taken, 8 work at once, the others are told what to do; in the end nothing is left at work."""

    async def main() -> None:
        gate = anyio.Event()

        async def wait(request: ModelRequest) -> Step:
            await gate.wait()
            return say("yes")

        async def release(request: ModelRequest) -> Step:
            while cast.now < 9:
                await anyio.sleep(0)
            gate.set()
            return call("list_active_subagents")

        scripts = {
            "main": [calls(*[("delegate", {"task": "x", "background": True})] * 40), release, say("done")],
            "anyone": [wait],
        }
        async with stage(tmp_path, scripts) as (live, cast):
            with anyio.fail_after(60):
                await live.post("go")
                await live.supervisor.all_done()
            answers = results(live)[:40]
            assert sum(answer.ok for answer in answers) == 32
            refused = {answer.error.message for answer in answers if answer.error}
            assert len(refused) == 1
            assert "32 is the most" in refused.pop()
            assert cast.most <= 8 + 1
            assert len(live.inbox.messages) + sum(m.source == "child" for m in live.state.messages) == 32

    anyio.run(main)


def test_those_whose_results_are_known_make_room(tmp_path: Path) -> None:
    """Forty foreground tasks one after the other all find a place: the oldest ended ones are closed."""

    async def main() -> None:
        scripts = {
            "main": [
                *[call("delegate", task="x")] * 40,
                call("get_subagent_result", agent_id="agent-1"),
                say("done"),
            ],
            "anyone": [say("yes")],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert all(result.ok for result in results(live)[:40])
            assert len(live.supervisor.subagents) == 32
            assert "No subagent 'agent-1'" in problem(live)

    anyio.run(main)


def test_names_are_unique_among_those_that_are_open(tmp_path: Path) -> None:
    """A taken name gets a number; so do the words that mean other agents."""

    async def main() -> None:
        tasks: list[tuple[str, dict[str, Any]]] = [
            ("delegate", {"task": "x", "name": name}) for name in ("one", "one", "main", "parent", "one")
        ]
        scripts = {"main": [calls(*tasks), say("done")], "anyone": [say("yes")]}
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert [r.structured["name"] for r in results(live)] == [
                "one",
                "one-2",
                "main-2",
                "parent-2",
                "one-3",
            ]

    anyio.run(main)


@pytest.mark.parametrize("name", ["", " ", "a b", "../x", "x" * 65, "-x", "é", "\x00"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    """Names are plain words, so that they can be written in one line and found again."""

    async def main() -> None:
        scripts = {"main": [call("delegate", task="x", name=name), say("done")]}
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert results(live)[0].error is not None
            assert not live.journal.session_state.subagents

    anyio.run(main)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("findr", "did you mean finder?"),
        ("a01NOBODY", "there are finder"),
        ("", "too short"),
        ("x" * 101, "too long"),
    ],
)
def test_an_unknown_subagent_is_answered_with_those_there_are(tmp_path: Path, wanted: str, said: str) -> None:
    """Each tool that names one says which there are, or which was meant."""

    async def main() -> None:
        tools: list[tuple[str, dict[str, Any]]] = [
            ("get_subagent_result", {}),
            ("cancel_subagent", {}),
            ("close_subagent", {}),
            ("continue_subagent", {"message": "m"}),
            ("send_to_subagent", {"message": "m"}),
            ("share_context", {"note": "n"}),
        ]
        asked = [(name, {"agent_id": wanted, **rest}) for name, rest in tools]
        scripts = {
            "main": [call("delegate", task="x", name="finder"), calls(*asked), say("done")],
            "finder": [say("y")],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            for number in range(1, 7):
                text = problem(live, number)
                assert said in text or said.startswith("too"), text

    anyio.run(main)


def test_a_closed_subagent_is_gone_with_those_below(tmp_path: Path) -> None:
    """Its place is free, what it said cannot be had any more, and the error says so."""

    async def main() -> None:
        stages: list[Session] = []
        async with stage(
            tmp_path,
            {
                "main": [
                    call("delegate", task="x", name="boss"),
                    call("close_subagent", agent_id="boss"),
                    lambda request: call("get_subagent_result", agent_id=value(stages[0], 0)["agent_id"]),
                    call("list_active_subagents"),
                    say("done"),
                ],
                "boss": [call("delegate", task="y", name="worker"), say("did")],
                "worker": [say("worked")],
            },
        ) as (live, _cast):
            stages.append(live)
            await live.post("go")
            assert value(live, 1)["closed"] == ["boss", "worker"]
            assert "is closed" in problem(live, 2)
            assert value(live, 3) == {"subagents": [], "count": 0}
            assert live.supervisor.subagents == {}
            assert all(not member.state.messages for member in live.journal.session_state.subagents.values())

    anyio.run(main)
