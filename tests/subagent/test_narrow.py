"""What a subagent may use: never more than it was given, and never more than who made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, say
from tests.subagent.acts import change, look, outcomes, problem
from tests.subagent.cast import stage

from jaato.abc.provider import ModelRequest
from jaato.providers.scripted import Step
from jaato.tools.permissions.gate import Policy


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, ["ok", "ok"]),
        ({"tools": ["look"]}, ["ok", "tool_unknown"]),
        ({"tools": ["lo*"]}, ["ok", "tool_unknown"]),
        ({"deny": ["change"]}, ["ok", "permission_denied"]),
        ({"read_only": True}, ["ok", "permission_denied"]),
        ({"plugins": ["test"]}, ["ok", "ok"]),
        ({"plugins": ["subagent"]}, ["tool_unknown", "tool_unknown"]),
    ],
)
def test_a_subagent_is_held_as_it_was_ordered(
    tmp_path: Path, config: dict[str, Any], expected: list[str]
) -> None:
    """Tools it was not given are unknown to it; what is denied is refused whatever the policy allows."""

    async def main() -> None:
        scripts = {
            "main": [call("delegate", task="x", name="one", inline_config=config), say("done")],
            "one": [calls(("look", {}), ("change", {})), say("did")],
        }
        async with stage(tmp_path, scripts, [look, change]) as (live, _cast):
            await live.post("go")
            assert outcomes(live, "one") == expected

    anyio.run(main)


def test_nobody_below_gets_more_than_who_is_above(tmp_path: Path) -> None:
    """A subagent that only reads cannot make one that writes, nor give tools it does not have."""

    async def main() -> None:
        wide = {"tools": ["look", "change", "delegate"]}
        scripts = {
            "main": [
                call("delegate", task="x", name="reader", inline_config={"read_only": True}),
                call("delegate", task="x", name="narrow", inline_config={"tools": ["look", "delegate"]}),
                say("done"),
            ],
            "reader": [call("delegate", task="y", name="sly"), say("did")],
            "sly": [calls(("look", {}), ("change", {})), say("did")],
            "narrow": [
                call("delegate", task="y", name="wide", inline_config=wide),
                call("delegate", task="y", name="other", inline_config={"read_only": False}),
                say("did"),
            ],
            "other": [calls(("look", {}), ("change", {}), ("list_tools", {})), say("did")],
        }
        async with stage(tmp_path, scripts, [look, change]) as (live, _cast):
            await live.post("go")
            assert outcomes(live, "sly") == ["ok", "permission_denied"]
            assert outcomes(live, "narrow") == ["no_subagent", "ok"]
            assert outcomes(live, "other") == ["ok", "tool_unknown", "ok"]

    anyio.run(main)


def test_the_rules_of_the_session_hold_for_all(tmp_path: Path) -> None:
    """What the root's policy denies is denied at every depth, and what the user switches off is off."""

    async def main() -> None:
        policy = Policy.of({"defaultPolicy": "allow", "blacklist": {"tools": ["change"]}})
        scripts = {
            "main": [call("delegate", task="x", name="one"), say("done")],
            "one": [call("delegate", task="x", name="two"), say("did")],
            "two": [calls(("look", {}), ("change", {})), say("did")],
        }
        async with stage(tmp_path, scripts, [look, change], policy=policy) as (live, _cast):
            live.disable(["look"])
            await live.post("go")
            assert outcomes(live, "two") == ["tool_disabled", "permission_denied"]

    anyio.run(main)


def test_a_time_limit_ends_a_subagent_and_all_below(tmp_path: Path) -> None:
    """timeout_s stops what never ends; the parent reads that it took too long."""

    async def main() -> None:
        async def never(request: ModelRequest) -> Step:
            await anyio.sleep_forever()
            raise AssertionError

        scripts = {
            "main": [call("delegate", task="x", name="one", inline_config={"timeout_s": 0.2}), say("done")],
            "one": [call("delegate", task="x", name="two"), say("did")],
            "two": [never],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            with anyio.fail_after(60):
                await live.post("go")
                await live.supervisor.all_done()
            assert "did not finish within 0.2 s" in problem(live)
            assert {child.name: child.status for child in live.supervisor.subagents.values()} == {
                "one": "failed",
                "two": "cancelled",
            }

    anyio.run(main)


def test_model_calls_of_a_task_are_bounded(tmp_path: Path) -> None:
    """max_turns ends a subagent that goes round in circles; nobody's bound is above its parent's."""

    async def main() -> None:
        scripts = {
            "main": [call("delegate", task="x", name="one", inline_config={"max_turns": 3}), say("done")],
            "one": [call("list_active_subagents")] * 50,
        }
        async with stage(tmp_path, scripts) as (live, cast):
            await live.post("go")
            assert "failed" in problem(live)
            assert len(cast.of("one")) == 3

    anyio.run(main)
