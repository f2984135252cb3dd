"""Budgets of a day: what other sessions use counts, and what was allowed on another day does not."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.kit import call, plan, runtime, say, session
from tests.subagent.cast import PLUGINS, Cast
from tests.usage.test_budgets import limits, look, turns

from jaato.abc.provider import ModelRequest
from jaato.protocol.events import BudgetUpdated
from jaato.providers.scripted import Step


def test_the_day_is_that_of_all_sessions(tmp_path: Path) -> None:
    """What another session of the store has used today counts, also what it uses meanwhile."""

    async def main() -> None:
        made = runtime(tmp_path, [look])
        budget = limits(day_tokens=4_000)
        try:
            async with made.create(plan(tmp_path, turns(8))) as first:
                await first.post("go")
                async with made.create(plan(tmp_path, turns(30), budget=budget)) as second:
                    turn = await second.post("go")
                    assert turn is not None
                    assert turn.error is not None
                    assert turn.reason == "limit"
                    assert "4,000 tokens per day" in turn.error.message
                    spent = sum(one.journal.session_state.spending.session.tokens for one in (first, second))
                    assert 9 * 110 < spent <= 4_000
        finally:
            made.close()

    anyio.run(main)


def test_what_was_allowed_on_another_day_no_longer_holds(tmp_path: Path) -> None:
    """An extended budget of a day has its own limit again on the next one; that of a session keeps what was added."""

    async def main() -> None:
        budget = limits(day_tokens=4_000, session_tokens=4_000)
        async with session(tmp_path, [], budget=budget) as live:
            assert live.budget is not None
            found: list[float | None] = []
            for more in ({}, {"timestamp": "2020-01-31T00:00:00.000Z"}):
                for scope in ("day", "session"):
                    event = BudgetUpdated(
                        **live.journal.head() | more,
                        status="extended",
                        scope=scope,
                        unit="tokens",
                        limit=9_000,
                        used=4_000,
                        step=5_000,
                    )
                    live.journal.session_state.spending.apply(event, is_root=True)
                    found.append(live.budget.get_limit((scope, "tokens")))
            assert found == [9_000, 9_000, 4_000, 9_000]

    anyio.run(main)


def test_the_day_of_other_sessions_has_the_time_of_their_turns(tmp_path: Path) -> None:
    """What a subagent takes is part of its root's turn, and not counted again."""
    main_script = [call("get_tool_schemas", names=["delegate"]), call("delegate", task="look"), say("done")]

    async def slow(_request: ModelRequest) -> Step:
        await anyio.sleep(0.3)
        return say("found")

    async def main() -> None:
        made = runtime(tmp_path, [look], PLUGINS)
        try:
            cast = Cast({"main": main_script, "anyone": [slow]})
            async with made.create(plan(tmp_path, [], provider=cast)) as first:
                await first.post("go")
                took = first.journal.session_state.spending.session.s
            assert took >= 0.3
            async with made.create(plan(tmp_path, turns(0), budget=limits(day_s=600))) as second:
                await second.post("go")
                assert second.budget is not None
                own = second.journal.session_state.spending.day.s
                assert second.budget.get_used(("day", "s")) - own == pytest.approx(took)
        finally:
            made.close()

    anyio.run(main)
