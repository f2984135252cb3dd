"""Budgets of a day: what other sessions use counts, and what was allowed on another day does not."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from tests.kit import call, plan, runtime, say, session
from tests.subagent.cast import PLUGINS, Cast
from tests.usage.test_budgets import limits, look, turns

from jaato.abc.provider import ModelRequest
from jaato.abc.store import BudgetDay
from jaato.errors import StoreError
from jaato.protocol.events import BudgetUpdated, now
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


@pytest.mark.parametrize(
    "damage", ["negative", "torn", "link", "pipe", "directory", "binary", "long", "number"]
)
def test_a_damaged_reservation_neither_counts_nor_blocks(tmp_path: Path, damage: str) -> None:
    """What is no reservation frees nothing of the budget, is not waited for, and goes if it is a file."""
    spoiled = {
        "negative": b'{"session_id":"%b","tokens":-90000,"usd":-9}',
        "torn": b'{"session_id":"s","tok',
        "binary": b"\xff\x00\xff",
        "long": b"[" * 2_000_000,
        "number": b"7",
    }

    async def main() -> None:
        made = runtime(tmp_path, [look])
        try:
            budget = limits(day_tokens=4_000)
            async with (
                made.create(plan(tmp_path, [])) as other,
                made.create(plan(tmp_path, turns(60), budget=budget)) as live,
            ):
                spoiled["negative"] %= other.state.session_id.encode()
                ledger = live.journal.store.day_ledger
                unlock = ledger.try_lock()
                assert unlock is not None
                unlock()
                place = next(tmp_path.rglob("budget"))
                path = place / "spoiled.reserved"
                if damage == "link":
                    (tmp_path / "elsewhere").write_bytes(spoiled["negative"])
                    path.symlink_to(tmp_path / "elsewhere")
                elif damage == "pipe":
                    os.mkfifo(path)
                elif damage == "directory":
                    path.mkdir()
                else:
                    path.write_bytes(spoiled[damage])
                for day in (spoiled["torn"], b'{"date":"zzzz"}', b'{"date":"2020-01-01","late":{"s":-1}}'):
                    (place / "day").write_bytes(day)
                    turn = await live.post("go")
                    assert turn is not None
                    assert turn.reason in ("stop", "limit")
                    assert live.budget is not None
                    assert 0 < live.budget.get_used(("day", "tokens")) <= 4_000
                    assert live.journal.session_state.spending.date == now()[:10]
                assert path.exists() is (damage == "directory")
        finally:
            made.close()

    anyio.run(main)


def test_what_a_dead_process_has_half_written_does_not_count(tmp_path: Path) -> None:
    """A shorter reservation over a longer one, whose writer ended before it had cut the file: the first line is valid."""

    async def main() -> None:
        async with session(tmp_path, [], budget=limits(day_tokens=4_000)) as live:
            ledger, own = live.journal.store.day_ledger, live.state.session_id
            unlock = ledger.try_lock()
            assert unlock is not None
            ledger.reserve(own, 123_456_789, 0.5)
            (path,) = tmp_path.rglob("*.reserved")
            longer = path.read_bytes()
            ledger.reserve(own, 7, 0.5)
            shorter = path.read_bytes()
            path.write_bytes(shorter + longer[len(shorter) :])
            assert ledger.read_reserved("another") == (7, 0.5)
            ledger.save_day(BudgetDay("2031-01-01", {own: 10**9}))
            longer = (path.parent / "day").read_bytes()
            ledger.save_day(BudgetDay("2031-01-02", {own: 1}))
            shorter = (path.parent / "day").read_bytes()
            (path.parent / "day").write_bytes(shorter + longer[len(shorter) :])
            assert ledger.load_day() == BudgetDay("2031-01-02", {own: 1})
            unlock()

    anyio.run(main)


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("kind", ["file", "link", "nothing"])
def test_a_ledger_that_goes_during_a_call(tmp_path: Path, kind: str, fails: bool) -> None:
    """The reply, or the provider's error, is that of the running call; the next call is made with a new ledger, or ends in an
    error that names the path."""

    async def main() -> None:
        def spoil(_request: ModelRequest) -> Step:
            place = next(tmp_path.rglob("budget"))
            place.rename(tmp_path / "away")
            if kind == "file":
                place.write_text("no directory")
            elif kind == "link":
                place.symlink_to(tmp_path / "away")
            return say("") if not fails else Step(error="provider_authentication")

        async with session(tmp_path, [spoil, say("more")], budget=limits(day_tokens=9_000)) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == ("error" if fails else "stop")
            assert turn.error is None or "The script says" in turn.error.message
            if kind != "nothing":
                with pytest.raises(StoreError, match=r"budget is not a directory.*Move it away"):
                    await live.post("again")
                (tmp_path / "state" / "budget").unlink()
            turn = await live.post("and again")
            assert turn is not None
            assert turn.reason == "stop"

    anyio.run(main)
