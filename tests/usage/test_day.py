"""The day's budget: shared by sessions at the same time and by processes, whatever the clock shows; and long replies."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.cli.conftest import desk as desk_fixture
from tests.cli.environment import CliEnvironment, call
from tests.kit import plan, reopened, runtime, say, session
from tests.usage.test_budgets import limits, look, turns

from jaato.abc.compactor import GCConfig
from jaato.abc.provider import Chunk, ModelRequest, Reply
from jaato.agent.compaction.setup import CompactionSetup
from jaato.agent.compaction.strategies import HybridGCPlugin
from jaato.agent.session import Session
from jaato.protocol.events import ClarificationQuestion, Event
from jaato.protocol.messages import Message, Text, Usage
from jaato.protocol.specs import ModelInfo, ModelSettings
from jaato.storage.bundle_export import write_bundle

desk = desk_fixture
DAY_S = 86_400


class Talker:
    """A model that writes as long as it may, and reports exactly what it was given and wrote."""

    name = "talker"

    def __init__(self, output_limit: int | None, length: int, *, reports: bool = True) -> None:
        self.output_limit, self.length, self.reports = output_limit, length, reports
        self.limits: list[int | None] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """One reply: words up to its length, the model's limit or the request's."""
        most = request.settings.max_output_tokens
        self.limits.append(most)
        tokens = min(self.length, most or self.length, self.output_limit or self.length)
        await anyio.sleep(0.02)
        usage = Usage(400, tokens) if self.reports else None
        yield Reply(
            Message("assistant", [Text("word" * tokens)]), "length" if tokens < self.length else "stop", usage
        )

    def model_info(self, model: str) -> ModelInfo:
        """Its prices: one dollar for a million tokens of input, ten of output."""
        info = ModelInfo(model, self.name, 200_000, price_input=1.0, price_output=10.0)
        return (
            info
            if self.output_limit is None
            else ModelInfo(
                model, self.name, 200_000, output_limit=self.output_limit, price_input=1.0, price_output=10.0
            )
        )

    async def models(self) -> list[ModelInfo]:
        """The one it is used as."""
        return [self.model_info("talker")]

    async def aclose(self) -> None:
        """Nothing is open."""


def spent(live: Session) -> Any:
    """What a session has used."""
    return live.journal.session_state.spending.session


# --- long replies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output_limit", [None, 64_000])
@pytest.mark.parametrize("budget", [limits(session_tokens=20_000), limits(session_usd=0.2)])
def test_a_long_reply_does_not_exceed_the_budget(
    tmp_path: Path, output_limit: int | None, budget: Any
) -> None:
    """The request asks for no more than the budget has left; the reply that was cut there is kept, and the turn ends with
    `limit`."""

    async def main() -> None:
        provider = Talker(output_limit, 50_000)
        async with session(tmp_path, [], provider=provider, budget=budget) as live:
            turn = await live.post("Tell me all.")
            assert turn is not None
            assert (turn.reason, turn.model_calls) == ("limit", 1)
            assert provider.limits[0] is not None
            assert 10_000 < spent(live).tokens <= 21_000
            assert spent(live).usd <= 0.2
            assert len(live.state.messages[1].text) == 4 * provider.limits[0]

    anyio.run(main)


def test_more_continues_the_reply_that_was_cut(tmp_path: Path) -> None:
    """The user allows more, and the model is asked to continue where it was cut."""

    async def main() -> None:
        provider = Talker(64_000, 12_000)
        async with session(tmp_path, [], provider=provider, budget=limits(session_tokens=8_000)) as live:

            def respond(event: Event) -> None:
                if isinstance(event, ClarificationQuestion):
                    live.questions.respond(event.question_id, ["100k"])

            live.journal.bus.listen(respond)
            live.questions.add_responder()
            turn = await live.post("Tell me all.")
            assert turn is not None
            assert (turn.reason, turn.model_calls) == ("stop", 2)
            assert any("Continue it exactly where it ended" in one.text for one in live.state.messages)

    anyio.run(main)


def test_a_model_that_cuts_its_replies_itself_is_not_asked_to_continue(tmp_path: Path) -> None:
    """What is shorter than the budget allows was not cut by it: the turn ends with `length`, as without a budget."""

    async def main() -> None:
        provider = Talker(None, 9_000)
        provider.output_limit = 3_000
        provider.model_info = lambda model: ModelInfo(model, "talker", 200_000)  # type: ignore[method-assign]
        async with session(tmp_path, [], provider=provider, budget=limits(session_tokens=90_000)) as live:
            turn = await live.post("Tell me all.")
            assert turn is not None
            assert (turn.reason, turn.model_calls) == ("length", 1)

    anyio.run(main)


def test_a_setting_is_clipped_to_what_the_budget_leaves(tmp_path: Path) -> None:
    """A longer `max_output_tokens` than the budget does not forbid the call."""

    async def main() -> None:
        provider, settings = Talker(None, 9_000), ModelSettings(max_output_tokens=32_000)
        budget = limits(session_tokens=20_000)
        async with session(tmp_path, [], provider=provider, budget=budget, settings=settings) as live:
            turn = await live.post("Tell me all.")
            assert turn is not None
            assert turn.reason == "stop"
            assert 9_000 < (provider.limits[0] or 0) < 20_000

    anyio.run(main)


def test_a_budget_that_leaves_enough_changes_no_request(tmp_path: Path) -> None:
    """A model's own limit and the user's setting stand; nothing is cut."""

    async def main() -> None:
        provider = Talker(4_000, 3_000)
        async with session(tmp_path, [], provider=provider, budget=limits(session_tokens=50_000)) as live:
            turn = await live.post("Tell me all.")
            assert turn is not None
            assert (turn.reason, provider.limits) == ("stop", [None])

    anyio.run(main)


def test_a_provider_that_reports_no_usage_is_held_by_estimates(tmp_path: Path) -> None:
    """Neither tokens nor money are free for it."""

    async def main() -> None:
        for name, budget in (("a", limits(session_tokens=9_000)), ("b", limits(session_usd=0.05))):
            (tmp_path / name).mkdir()
            provider = Talker(2_000, 1_000, reports=False)
            async with session(tmp_path / name, [], provider=provider, budget=budget) as live:
                ends = [await live.post(f"Part {number}.") for number in range(12)]
                assert ends[0] is not None
                assert ends[-1] is not None
                assert (ends[0].reason, ends[-1].reason) == ("stop", "limit")
                assert spent(live).tokens <= 9_000 or name == "b"
                assert spent(live).usd <= 0.05 or name == "a"

    anyio.run(main)


# --- sessions at the same time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [limits(day_tokens=30_000), limits(day_usd=0.25)])
def test_sessions_at_the_same_time_do_not_pass_the_day_together(tmp_path: Path, budget: Any) -> None:
    """Six sessions that write long replies at once: in all they have used no more than the day's budget, and none of it is
    reserved afterwards."""

    async def main() -> None:
        made = runtime(tmp_path)
        sessions: list[Session] = []
        ends: list[Any] = []

        async def work() -> None:
            async with made.create(plan(tmp_path, [], provider=Talker(8_000, 5_000), budget=budget)) as live:
                sessions.append(live)
                for number in range(4):
                    ends.append(await live.post(f"Part {number}."))

        try:
            async with anyio.create_task_group() as group:
                for _ in range(6):
                    group.start_soon(work)
            assert any(turn.reason == "limit" for turn in ends)
            assert sum(spent(live).tokens for live in sessions) <= 30_000 or ("day", "usd") in budget.limits
            assert sum(spent(live).usd for live in sessions) <= 0.25 or ("day", "tokens") in budget.limits
            assert sum(spent(live).tokens for live in sessions) > 10_000
            assert list(tmp_path.rglob("*.reserved")) == []
        finally:
            made.close()

    anyio.run(main)


def test_processes_at_the_same_time_do_not_pass_the_day_together(desk: CliEnvironment) -> None:
    """Four programs with the same store."""
    steps = [call("list_tools", limit=number) for number in range(12)]
    path = desk.root / "day.json"
    path.write_text(json.dumps({"steps": [*steps, {"text": "Done."}]}))
    flags = ["--provider", "scripted", "--model", str(path), "--budget", "14k tokens per day"]
    running = [desk.start("run", "--output", "json", *flags, f"go {number}") for number in range(4)]
    documents = [json.loads(process.communicate(timeout=120)[0]) for process in running]
    used = [one["usage"]["input_tokens"] + one["usage"]["output_tokens"] for one in documents]
    assert {one["reason"] for one in documents} <= {"stop", "limit"}
    assert "limit" in {one["reason"] for one in documents}
    assert 5_000 < sum(used) <= 14_000


def test_a_reservation_of_a_dead_process_does_not_count(tmp_path: Path) -> None:
    """Its session has no holder; the file is removed."""

    async def main() -> None:
        made = runtime(tmp_path, [look])
        async with made.create(plan(tmp_path, turns(3), budget=limits(day_tokens=9_000))) as live:
            ledger = live.journal.store.day_ledger
            unlock = ledger.try_lock()
            assert unlock is not None
            assert ledger.try_lock() is None
            ledger.reserve("s-dead", 8_000, 0.0)
            unlock()
            assert len(list(tmp_path.rglob("*.reserved"))) == 1
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "stop"
            assert list(tmp_path.rglob("*.reserved")) == []
        made.close()

    anyio.run(main)


def test_a_summary_without_reported_usage_counts(tmp_path: Path) -> None:
    """Where the provider does not report what a summary has used, a budget takes an estimate."""

    async def main() -> None:
        talker = Talker(None, 300, reports=False)
        async with session(tmp_path, [], provider=talker, budget=limits(session_tokens=200_000)) as live:
            live.compaction.use(CompactionSetup(HybridGCPlugin(), GCConfig(80.0, 1)))
            for number in range(5):
                await live.post(f"question {number} " + "q" * 2_000)
            before = spent(live).tokens
            assert await live.compact()
            done = live.compaction.last
            assert done is not None
            assert done.usage is not None
            assert done.usage.output_tokens == 300
            assert done.usage.input_tokens > 500
            assert spent(live).tokens == before + done.usage.input_tokens + 300
            assert live.budget is not None
            assert live.budget.get_used(("session", "tokens")) == spent(live).tokens

    anyio.run(main)


# --- the clock -----------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How far the clock is set ahead or back, in seconds."""
    shift, true_ns = [0.0], time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + int(shift[0] * 1e9))
    return shift


@pytest.mark.parametrize("shift", [-3600.0, -DAY_S, -400.0 * DAY_S])
def test_a_clock_that_is_set_back_hides_nothing(tmp_path: Path, clock: list[float], shift: float) -> None:
    """The session that runs, one that is opened again, a new one, and again after the clock was corrected: all count for the
    day of the newest record."""

    async def main() -> None:
        budget = limits(day_tokens=5_000, session_tokens=4_000)
        async with session(tmp_path, [say("hi")] * 9, budget=limits(day_tokens=5_000)) as live:
            await live.post("one")
            clock[0] = shift
            await live.post("two")
            assert spent(live).tokens == 220
            assert live.budget is not None
            assert live.budget.get_used(("day", "tokens")) == 220
            first = live.state.session_id
        async with session(tmp_path, [say("hi")] * 9, budget=budget) as late:
            await late.post("three")
            assert late.budget is not None
            assert late.budget.get_used(("day", "tokens")) == 330
            second = late.state.session_id
        for session_id in (first, second):
            async with reopened(tmp_path, session_id, [say("hi")] * 9, budget=budget) as again:
                await again.post("more")
        clock[0] = 0.0
        async with reopened(tmp_path, second, [say("hi")] * 40, budget=budget) as again:
            await again.post("and more")
            assert again.budget is not None
            assert spent(again).tokens == 330
            assert again.budget.get_used(("day", "tokens")) == 660
            ends = [await again.post("on") for _ in range(40)]
            assert ends[-1] is not None
            assert ends[-1].reason == "limit"

    anyio.run(main)


def test_the_message_names_a_day_that_the_clock_does_not_show(tmp_path: Path, clock: list[float]) -> None:
    """Whoever sees the refusal knows why the budget of another day counts; a later day has a budget of its own."""

    async def main() -> None:
        async with session(tmp_path, [say("hi")] * 9, budget=limits(day_tokens=1_700)) as live:
            await live.post("one")
            clock[0] = -2 * DAY_S
            turn = await live.post("two")
            while turn is not None and turn.reason == "stop":
                turn = await live.post("three")
            assert turn is not None
            assert turn.error is not None
            assert "that of the newest record; the clock shows an earlier one" in turn.error.message
            clock[0] = 2 * DAY_S
            turn = await live.post("four")
            assert turn is not None
            assert (turn.error, turn.reason) == (None, "stop")

    anyio.run(main)


def test_a_fork_begins_with_nothing_used_before_and_after_a_set_clock(
    tmp_path: Path, clock: list[float]
) -> None:
    """What it has copied is not its own; what it does is, also with an earlier time."""

    async def main() -> None:
        async with session(tmp_path, [say("hi")] * 9, budget=limits(session_tokens=9_000)) as live:
            await live.post("one")
            made = live.journal.store.fork(live.state.session_id)
        clock[0] = -7_200.0
        async with reopened(tmp_path, made, [say("hi")] * 9, budget=limits(session_tokens=9_000)) as fork:
            assert spent(fork).tokens == 0
            await fork.post("two")
            assert spent(fork).tokens == 110

    anyio.run(main)


def test_a_bundle_from_the_future_uses_up_nothing_and_evades_nothing(
    tmp_path: Path, clock: list[float]
) -> None:
    """A session of a machine whose clock is ahead: what it has used there is not used here, the day stays that of the clock,
    and its further calls count."""

    async def main() -> None:
        clock[0] = 400.0 * DAY_S
        for place in ("there", "here"):
            (tmp_path / place).mkdir()
        async with session(tmp_path / "there", [say("hi")] * 9, budget=limits(day_tokens=9_000)) as live:
            await live.post("one")
            store, made = live.journal.store, live.state.session_id
            path = tmp_path / "trip.jaato"
            write_bundle(store, made, lambda: store.read(made), nullcontext, path)
        clock[0] = 0.0
        budget = limits(day_tokens=1_900)
        async with session(tmp_path / "here", [say("hi")], budget=budget) as first:
            imported = first.journal.store.import_bundle(path, tmp_path)
            turn = await first.post("one")
            assert turn is not None
            assert turn.reason == "stop"
            assert first.budget is not None
            assert first.budget.get_used(("day", "tokens")) == 110
        async with reopened(tmp_path / "here", imported, [say("hi")] * 30, budget=budget) as again:
            ends = [await again.post("on") for _ in range(20)]
            assert again.budget is not None
            assert 330 < again.budget.get_used(("day", "tokens")) <= 1_900
            assert [end.reason for end in ends if end is not None][-1] == "limit"
            assert again.journal.session_state.spending.date == datetime.now(UTC).date().isoformat()

    anyio.run(main)
