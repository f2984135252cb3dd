"""Budgets: how they are written, what is reserved, who is asked, and how a session goes on after one was used up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit import call, plan, provider_of, recorded, reopened, runtime, say, session
from tests.subagent.cast import PLUGINS, Cast

from jaato import Agent
from jaato.agent.journal import Journal
from jaato.agent.limits.budget_account import BudgetAccount
from jaato.agent.limits.spending import Amount, Budget, Key
from jaato.agent.questions import Questions
from jaato.agent.session import Session
from jaato.agent.state import State
from jaato.errors import ConfigError, LimitReached
from jaato.protocol.events import (
    BudgetUpdated,
    ClarificationQuestion,
    ClarificationResolved,
    Event,
    MessageModel,
    MessageUser,
    SessionCreated,
)
from jaato.protocol.messages import Message, Text, Usage
from jaato.protocol.specs import ModelInfo
from jaato.providers.scripted import ScriptedCall, ScriptedProvider, Step
from jaato.storage.sqlite import SqliteStore
from jaato.tools.tool import tool

PRICED = ModelInfo("script", "scripted", 128_000, price_input=2.0, price_output=10.0)


@tool(core=True, access="read")
def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing in {where}"


def turns(count: int) -> list[Any]:
    """So many calls of 110 tokens each, then an answer."""
    return [call("look", where=str(number)) for number in range(count)] + [say("done")]


def limits(**more: float) -> Budget:
    """A budget by `turn_tokens=…`."""
    made: dict[Any, float] = {tuple(name.split("_")): value for name, value in more.items()}
    return Budget(made)


# --- what is reserved ----------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    st.integers(100, 3_000),
    st.lists(st.lists(st.tuples(st.integers(1, 300), st.floats(0, 1)), max_size=8), min_size=1, max_size=5),
    st.booleans(),
)
def test_agents_at_once_never_overspend(
    tmp_path_factory: pytest.TempPathFactory, limit: int, agents: list[list[tuple[int, float]]], tells: bool
) -> None:
    """Whatever several agents need at the same time: what they have used and reserved is never above the budget, and one is
    only refused when its call would not fit. Replies whose event is late count as well."""
    path = tmp_path_factory.mktemp("budget")

    async def main() -> None:
        store = SqliteStore(path / "jaato.db")
        state = State(session_id="s0", agent_id="a0")
        journal = Journal(store, state)
        store.hold("s0")
        journal.begin(SessionCreated(session_id="s0", agent_id="a0", seq=1, workspace="/w"))
        key: Key = ("turn", "tokens")
        account = BudgetAccount(journal, Questions(journal), Budget({key: limit}))
        journal.record(MessageUser(**journal.head(), message=Message("user", [Text("go")]), turn_id="t1"))
        refused: list[int] = []

        async def work(agent_id: str, needs: list[tuple[int, float]]) -> None:
            for need, part in needs:
                try:
                    await account.reserve(agent_id, Amount(need))
                except LimitReached:
                    refused.append(need)
                    return
                await anyio.lowlevel.checkpoint()
                used = int(need * part)
                account.settle(agent_id, Amount(used))
                assert account.get_used(key) <= limit
                if tells:
                    await anyio.lowlevel.checkpoint()
                message = Message("assistant", [Text("x")])
                journal.record(
                    MessageModel(
                        **journal.head(agent_id),
                        message=message,
                        turn_id="t1",
                        finish_reason="stop",
                        usage=Usage(used),
                    )
                )
                assert account.get_used(key) <= limit

        try:
            async with anyio.create_task_group() as group:
                for number, needs in enumerate(agents):
                    group.start_soon(work, f"a{number}", needs)
            spent = journal.session_state.spending.turn.tokens
            assert account.get_used(key) == spent <= limit
            total = sum(need for needs in agents for need, _ in needs)
            assert not refused or total > limit
        finally:
            store.close()

    anyio.run(main)


def test_a_call_is_refused_before_it_is_made(tmp_path: Path) -> None:
    """Without anyone to ask the turn ends with `limit` before the next call; what was done is kept, and the next turn has a
    budget of its own."""

    async def main() -> None:
        budget = limits(turn_tokens=2_600)
        async with session(tmp_path, turns(30), [look], budget=budget) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "limit"
            assert turn.error is not None
            assert "budget of 2,600 tokens per turn is used up" in turn.error.message
            assert 0 < live.journal.session_state.spending.turn.tokens <= 2_600
            assert len(provider_of(live).requests) == turn.model_calls
            [event] = [event for event in recorded(live) if isinstance(event, BudgetUpdated)]
            assert (event.status, event.scope, event.unit, event.limit) == (
                "reached",
                "turn",
                "tokens",
                2_600,
            )
            again = await live.post("more")
            assert again is not None
            assert again.model_calls > 0

    anyio.run(main)


@pytest.mark.parametrize(
    ("answers", "reason", "limit"),
    [
        (["continue with 2,600 tokens more"], "stop", 5_200),
        (["stop"], "limit", None),
        ([None], "limit", None),
        (["what?"], "limit", None),
        (["$5"], "limit", None),
        (["20k"], "stop", 22_600),
        (["20000"], "stop", 22_600),
    ],
)
def test_the_user_is_asked(
    tmp_path: Path, answers: list[str | None], reason: str, limit: float | None
) -> None:
    """The question says what was used and offers more; what is not understood is asked again, three times in all."""

    async def main() -> None:
        async with session(tmp_path, turns(20), [look], budget=limits(turn_tokens=2_600)) as live:
            asked: list[ClarificationQuestion] = []

            def respond(event: Event) -> None:
                if isinstance(event, ClarificationQuestion):
                    asked.append(event)
                    live.questions.respond(event.question_id, list(answers), "someone")

            live.journal.bus.listen(respond)
            live.questions.add_responder()
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == reason
            if answers[0] in ("what?", "$5"):
                assert len(asked) == 3
                assert all("is not understood: it is no amount" in one.context for one in asked[1:])
            assert asked[0].context.startswith("The budget of 2,600 tokens per turn is used up: ")
            assert asked[0].questions[0]["choices"] == ["continue with 2,600 tokens more", "stop"]
            updates = [event for event in recorded(live) if isinstance(event, BudgetUpdated)]
            assert [one.status for one in updates] == (["reached", "extended"] if limit else ["reached"])
            if limit:
                assert updates[1].limit >= limit

    anyio.run(main)


def test_turns_that_no_user_began_belong_to_the_one_before(tmp_path: Path) -> None:
    """What ended background work begins counts against the budget of the user's turn."""

    async def main() -> None:
        async with session(tmp_path, turns(90), [look], budget=limits(turn_tokens=2_600)) as live:
            first = await live.post("go")
            assert first is not None
            assert first.reason == "limit"
            live.notify("The task b1 has ended.")
            woken = await live.run_queued()
            assert woken is not None
            assert (woken.reason, woken.model_calls) == ("limit", 0)
            again = await live.post("more")
            assert again is not None
            assert again.model_calls > 0

    anyio.run(main)


def test_a_question_survives_a_restart(tmp_path: Path) -> None:
    """A process dies while the user is asked; the next one has the question open, and its answer counts."""

    async def main() -> None:
        budget = limits(session_tokens=2_600)
        made = runtime(tmp_path, [look])
        live = made.create(plan(tmp_path, turns(20), budget=budget, keep_interrupted_turns=True))
        async with live, anyio.create_task_group() as group:
            live.questions.add_responder(patient=True)
            group.start_soon(live.post, "go")
            while not live.state.questions:
                await anyio.sleep(0.01)
            [question] = live.state.questions
            live.suspend()
            group.cancel_scope.cancel()
        made.close()
        session_id = live.state.session_id
        async with reopened(
            tmp_path, session_id, turns(20), [look], budget=budget, keep_interrupted_turns=True
        ) as again:
            again.questions.add_responder(patient=True)
            assert list(again.state.questions) == [question]
            used = again.journal.session_state.spending.turn.tokens
            assert 0 < used <= 2_600
            assert again.questions.respond(question, ["continue"], "someone")
            turn = await again.resume()
            assert turn is not None
            assert turn.reason == "stop"
            events = [
                event for event in recorded(again) if isinstance(event, BudgetUpdated | ClarificationResolved)
            ]
            assert [type(event).__name__ for event in events] == [
                "BudgetUpdated",
                "ClarificationResolved",
                "BudgetUpdated",
            ]

    anyio.run(main)


def test_more_gives_as_much_again_each_time(tmp_path: Path) -> None:
    """A budget of a session that was used up twice has three times its size then, also without the flag that set it."""

    async def main() -> None:
        async with session(tmp_path, turns(90), [look], budget=limits(session_tokens=2_600)) as live:
            await live.post("go")
            session_id = live.state.session_id
        for times in (2, 3):
            async with reopened(tmp_path, session_id, turns(90), [look], budget=Budget(more=True)) as again:
                assert again.budget is not None
                assert again.budget.get_limit(("session", "tokens")) == times * 2_600
                turn = await again.post("go on")
                assert turn is not None
                assert turn.reason == "limit"
                assert again.journal.session_state.spending.session.tokens <= times * 2_600
        async with reopened(tmp_path, session_id, turns(90), [look]) as free:
            assert free.budget is None

    anyio.run(main)


def test_more_counts_from_what_a_call_has_used_beyond_the_budget(tmp_path: Path) -> None:
    """A reply that used three budgets at once is no reason for the next one to be refused at once."""
    big = Step(
        calls=[ScriptedCall("look", {"where": "x"})], usage=Usage(input_tokens=8_000, output_tokens=10)
    )

    async def main() -> None:
        async with session(tmp_path, [big, say("done")], [look], budget=limits(session_tokens=2_600)) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "limit"
            session_id = live.state.session_id
        async with reopened(tmp_path, session_id, [say("done")], [look], budget=Budget(more=True)) as again:
            assert again.budget is not None
            assert again.budget.get_limit(("session", "tokens")) == 8_010 + 2_600

    anyio.run(main)


def test_a_summary_is_not_asked_for_when_it_does_not_fit(tmp_path: Path) -> None:
    """A question outside the conversation asks no one: it is left out."""

    async def main() -> None:
        async with session(tmp_path, [say("hi")], budget=limits(session_tokens=500)) as live:
            answer = await live.model.ask("x" * 4_000, timeout_s=5, purpose="gc")
            assert (answer.text, answer.problem) == (None, "The budget does not allow it.")
            assert provider_of(live).requests == []

    anyio.run(main)


def test_subagents_share_the_account(tmp_path: Path) -> None:
    """Three subagents at the same time and their root stay within one budget; one question is asked for all of them, and
    what runs is not cut off."""
    helper = [call("look", where=str(number)) for number in range(12)] + [say("found")]
    tasks = [call("delegate", task="look", name=f"n{number}", background=True) for number in range(3)]
    main_script = [call("get_tool_schemas", names=["delegate"]), *tasks, say("waiting")]
    scripts = {"main": [*main_script, *[say("heard")] * 6], "anyone": helper}

    async def main() -> None:
        cast = Cast(scripts)
        budget = limits(session_tokens=4_000)
        async with session(tmp_path, [], [look], PLUGINS, provider=cast, budget=budget) as live:
            asked: list[ClarificationQuestion] = []

            def respond(event: Event) -> None:
                if isinstance(event, ClarificationQuestion):
                    asked.append(event)

            live.journal.bus.listen(respond)
            live.questions.add_responder()
            await live.post("go")
            while not asked:
                await anyio.sleep(0.01)
            await anyio.sleep(0.2)
            assert len(asked) == 1
            assert live.journal.session_state.spending.session.tokens <= 4_000
            assert live.questions.respond(asked[0].question_id, ["stop"])
            while live.supervisor.working():
                await anyio.sleep(0.01)
            assert live.journal.session_state.spending.session.tokens <= 4_000
            ends = [
                member.last_turn.reason
                for member in live.journal.session_state.subagents.values()
                if member.last_turn
            ]
            assert "limit" in ends

    anyio.run(main)


def test_a_budget_in_money_needs_a_price(tmp_path: Path) -> None:
    """A model without a price is not called; one with a price is, within the budget."""

    async def main() -> None:
        async with session(tmp_path, turns(3), [look], budget=limits(session_usd=1.0)) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.error is not None
            assert (turn.reason, turn.model_calls) == ("limit", 0)
            assert (
                "a budget in money cannot be held, because the price of script at scripted"
                in turn.error.message
            )
        (tmp_path / "two").mkdir()
        provider = ScriptedProvider(turns(50), info=PRICED)
        budget = limits(session_usd=0.02)
        async with session(tmp_path / "two", [], [look], provider=provider, budget=budget) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "limit"
            assert turn.cost_usd is not None
            assert 0 < turn.cost_usd <= 0.02

    anyio.run(main)


def test_time_without_the_time_of_questions(tmp_path: Path) -> None:
    """The time of a turn is checked before each call; the time in which the user is asked is not counted, nor taken off that
    of the next turn."""

    @tool(core=True, access="read")
    async def nap() -> str:
        """Sleep a little."""
        await anyio.sleep(0.3)
        return "rested"

    async def main() -> None:
        script = [call("nap"), say("done")] * 2
        async with session(tmp_path, script, [nap], budget=limits(turn_s=0.2)) as live:

            async def answer(question_id: str) -> None:
                await anyio.sleep(0.5)
                live.questions.respond(question_id, ["60s"])

            async with anyio.create_task_group() as group:

                def respond(event: Event) -> None:
                    if isinstance(event, ClarificationQuestion):
                        group.start_soon(answer, event.question_id)

                live.journal.bus.listen(respond)
                live.questions.add_responder()
                for _ in range(2):
                    turn = await live.post("go")
                    assert turn is not None
                    assert turn.reason == "stop"
            updates = [event for event in recorded(live) if isinstance(event, BudgetUpdated)]
            for reached, extended in (updates[:2], updates[2:]):
                assert reached.used >= 0.2
                assert extended.limit == pytest.approx(reached.used + 60, abs=1e-3)
            assert live.budget is not None
            assert live.questions.waited_s >= 0.5

    anyio.run(main)


def test_a_fork_begins_with_nothing_used(tmp_path: Path) -> None:
    """What it has copied is not its own."""

    async def main() -> None:
        async with session(tmp_path, turns(3), [look]) as live:
            await live.post("go")
            made = live.journal.store.fork(live.state.session_id)
        async with reopened(
            tmp_path, made, [say("hi")] * 9, [look], budget=limits(session_tokens=5_000)
        ) as fork:
            assert fork.journal.session_state.spending.session.tokens == 0

    anyio.run(main)


def test_an_agent_with_a_budget(tmp_path: Path) -> None:
    """`Agent(budget=…)`: `run` raises `LimitReached`; a handler can allow more."""
    asked: list[str] = []

    def allow(question: ClarificationQuestion) -> Sequence[str | None]:
        asked.append(question.context)
        return ["continue"]

    def agent(name: str, **more: Any) -> Agent:
        (tmp_path / name).mkdir()
        provider = ScriptedProvider(turns(60))
        where: dict[str, Any] = {"workspace": tmp_path / name, "state_dir": tmp_path / f"{name}-state"}
        return Agent(
            provider=provider, model="script", tools=[look], budget="5k tokens per turn", **where, **more
        )

    with pytest.raises(LimitReached, match="budget of 5,000 tokens per turn"):
        agent("one").run_sync("go")
    result = agent("two", on_clarification=allow).run_sync("go")
    assert result.text == "done"
    assert asked
    with pytest.raises(ConfigError):
        Agent(provider=ScriptedProvider([]), model="script", budget="a lot", workspace=tmp_path).run_sync(
            "go"
        )


def test_a_live_session_has_no_account_without_a_budget(tmp_path: Path) -> None:
    """Nothing is reserved then, and nothing costs time."""

    async def main() -> None:
        async with session(tmp_path, [say("hi")]) as live:
            assert isinstance(live, Session)
            assert live.budget is None

    anyio.run(main)
