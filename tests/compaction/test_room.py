"""Room in a full context: what stays, what is recorded, and what a strategy may get wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.agent.echo import echo
from tests.kit import call, provider_of, recorded, reopened, say, session

from jaato.abc.compactor import GCConfig, GCResult
from jaato.agent.compaction.setup import CompactionSetup
from jaato.agent.compaction.strategies import TruncateGCPlugin
from jaato.agent.session import Session
from jaato.protocol.events import BackgroundUpdated, GcCompleted, PlanUpdated
from jaato.protocol.messages import Message, Text, Usage
from jaato.protocol.specs import ModelInfo, Plan, PlanStep
from jaato.providers.scripted import Step

SMALL = ModelInfo(id="script", provider="scripted", context_limit=4_000)


class Strategy:
    """One whose collection is a function of the history."""

    name = "mine"

    def __init__(self, keep: Callable[[list[Message]], Any], when: Any = (True, "full")) -> None:
        self.keep = keep
        self.when = when
        self.asked = 0
        self.collected = 0

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Nothing is to be set."""

    def shutdown(self) -> None:
        """Nothing is open."""

    def should_collect(self, context_usage: dict[str, Any], config: GCConfig) -> Any:
        self.asked += 1
        return self.when() if callable(self.when) else self.when

    def collect(self, history: list[Message], context_usage: Any, config: GCConfig, reason: str) -> Any:
        self.collected += 1
        kept = self.keep(history)
        return kept if isinstance(kept, tuple) else (kept, GCResult())


def collections(live: Session) -> list[GcCompleted]:
    return [event for event in recorded(live) if isinstance(event, GcCompleted)]


def texts(live: Session) -> list[str]:
    return [part.text for m in live.state.messages for part in m.parts if isinstance(part, Text)]


@pytest.mark.spec("S4", "6. Proactive Garbage Collection", "S4.gc.1")
@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.2")
def test_the_oldest_turns_are_left_out_and_a_resumed_session_has_the_same_history(tmp_path: Path) -> None:
    """Before a call that would find the context full, old turns go; the log gives the same history again."""

    async def main() -> None:
        script = [Step(text=f"answer {n} " + "x" * 400) for n in range(6)]
        async with session(tmp_path, script) as live:
            live.compaction.use(CompactionSetup(TruncateGCPlugin(), GCConfig(50.0, preserve_recent_turns=2)))
            live.model._info = msgspec.structs.replace(
                SMALL, id=live.state.model
            )  # a model with a small context
            for n in range(6):
                await live.post(f"question {n} " + "y" * 800)
            done = collections(live)
            assert done
            assert all(event.problem is None for event in done)
            assert done[0].tokens_after < done[0].tokens_before
            said = texts(live)
            assert not any(text.startswith("question 0") for text in said)
            assert any("question 5" in text for text in said)
            assert sum("left out to make room" in text for text in said) == 1
            kept = list(live.state.messages)
            tokens = live.model.context_usage.total_tokens
            session_id = live.state.session_id
        async with reopened(tmp_path, session_id, []) as again:
            assert again.state.messages == kept
            assert again.model.context_usage.total_tokens == tokens

    anyio.run(main)


def forget(history: list[Message]) -> list[Message]:
    return []


def only_results(history: list[Message]) -> list[Message]:
    return [message for message in history if message.role == "tool"]


def only_calls(history: list[Message]) -> list[Message]:
    return [message for message in history if message.role == "assistant"]


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.2")
@pytest.mark.parametrize("keep", [forget, only_results, only_calls])
def test_calls_stay_with_their_results_and_the_newest_message_stays(
    tmp_path: Path, keep: Callable[[list[Message]], Any]
) -> None:
    """Whatever a strategy leaves, no call is without its result, and the user's newest words are there."""

    async def main() -> None:
        script = [
            call("echo", text="a" * 400),
            call("echo", text="b" * 400),
            call("echo", text="c"),
            say("ok"),
        ]
        async with session(tmp_path, [*script, *script], [echo]) as live:
            await live.post("first task")
            live.compaction.use(CompactionSetup(Strategy(keep), GCConfig()))
            await live.post("second task")
            assert any(event.problem is None for event in collections(live))
            for request in provider_of(live).requests[4:]:
                said = [message.text for message in request.messages if message.source == "user"]
                assert "second task" in said
                calls = [c.call_id for m in request.messages for c in m.function_calls]
                results = [
                    part.function_response.call_id
                    for m in request.messages
                    for part in m.parts
                    if part.function_response
                ]
                assert calls == results

    anyio.run(main)


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.2")
def test_the_open_plan_and_running_tasks_are_told_again(tmp_path: Path) -> None:
    """After everything else is gone the model still reads its plan and the tasks that run."""

    async def main() -> None:
        script = [
            call("createPlan", title="The harvest", steps=["sow", "reap"]),
            say("planned" + "x" * 3000),
            say("on"),
        ]
        async with session(tmp_path, script, [echo], ["introspection", "todo"]) as live:
            await live.post("plan it")
            assert live.state.plan is not None
            live.compaction.use(CompactionSetup(Strategy(forget), GCConfig()))
            await live.post("go on")
            request = provider_of(live).requests[-1]
            note = request.messages[0].text
            assert "The harvest" in note
            assert "sow" in note
            assert "reap" in note

    anyio.run(main)


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.3")
def test_one_that_frees_nothing_says_so_and_adds_nothing(tmp_path: Path) -> None:
    """The history stays as it is, the log says that nothing was freed, and it is not tried again at once."""

    async def main() -> None:
        strategy = Strategy(lambda history: [*history, Message("user", [Text("more" * 99)])])
        script = [call("echo", text="a"), call("echo", text="b"), say("ok")]
        async with session(tmp_path, script, [echo]) as live:
            live.compaction.use(CompactionSetup(strategy, GCConfig()))
            await live.post("go")
            done = collections(live)
            assert [event.problem for event in done] == ["mine freed nothing"]
            assert strategy.collected == 1
            assert not any("more" in text for text in texts(live))

    anyio.run(main)


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.2")
def test_a_long_plan_does_not_push_out_the_tasks_that_run(tmp_path: Path) -> None:
    """Every step of a plan of two hundred and every running task is named in the note, whatever their length."""

    async def main() -> None:
        async with session(
            tmp_path, [say("x" * 60_000), say("on")], [echo], ["introspection", "todo"]
        ) as live:
            await live.post("first")
            steps = [PlanStep(f"s{n}", "weigh the anchor " * 20) for n in range(200)]
            live.journal.record(
                PlanUpdated(**live.journal.head(), plan=Plan("p1", "T" * 2000, steps, status="active")),
                BackgroundUpdated(
                    **live.journal.head(), task_id="bg7", tool="shell", plugin="cli", status="running"
                ),
            )
            live.compaction.use(CompactionSetup(Strategy(forget), GCConfig()))
            await live.post("go on")
            note = live.state.messages[0].text
            assert "bg7" in note
            assert "s0:" in note
            assert "s199:" in note
            assert len(note) < 10_000

    anyio.run(main)


def test_one_that_frees_next_to_nothing_is_not_asked_before_every_call(tmp_path: Path) -> None:
    """After a collection that frees a trifle the context must grow before the next."""

    def trifle(history: list[Message]) -> Any:
        return history[2:]

    async def main() -> None:
        script = [*[call("echo", text="x" * 300)] * 8, say("ok")]
        async with session(tmp_path, [say("z" * 90), say("z" * 20_000), *script], [echo]) as live:
            await live.post("y" * 90)
            await live.post("y")
            strategy = Strategy(trifle)
            live.compaction.use(CompactionSetup(strategy, GCConfig()))
            await live.post("go")
            assert strategy.collected == 1

    anyio.run(main)


def test_asking_costs_the_same_however_long_the_history(tmp_path: Path) -> None:
    """A strategy that wants nothing is shown figures only, and copies nothing."""

    async def main() -> None:
        strategy = Strategy(forget, (False, ""))
        async with session(tmp_path, [say("x")] * 20) as live:
            live.compaction.use(CompactionSetup(strategy, GCConfig()))
            for n in range(20):
                await live.post(str(n))
            assert (strategy.asked, strategy.collected) == (20, 0)
            assert collections(live) == []

    anyio.run(main)


def test_without_auto_trigger_only_compact_makes_room(tmp_path: Path) -> None:
    """`compact` asks no threshold; a summary in place of what was is part of the history from then on."""

    def summarise(history: list[Message]) -> Any:
        return [Message("user", [Text("summary")])]

    async def main() -> None:
        strategy = Strategy(summarise)
        script = [Step(text="one" * 500, usage=Usage(900, 100)), say("two")]
        async with session(tmp_path, script) as live:
            live.compaction.use(CompactionSetup(strategy, GCConfig(auto_trigger=False)))
            await live.post("a" * 200)
            assert strategy.asked == 0
            assert await live.compact()
            assert "summary" in texts(live)
            assert live.model.context_usage.total_tokens < 1000
            await live.post("b")
            assert provider_of(live).requests[-1].messages[1].text == "summary"
            session_id = live.state.session_id
            kept = list(live.state.messages)
        async with reopened(tmp_path, session_id, []) as again:
            assert again.state.messages == kept

    anyio.run(main)
