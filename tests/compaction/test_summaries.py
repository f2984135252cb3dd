"""Summaries in place of what was: `gc_summarize` and `gc_hybrid`, with a model, without one, and with one that fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.agent.echo import echo
from tests.compaction.test_room import SMALL, collections, texts
from tests.kit import call, provider_of, reopened, session

from jaato.abc.compactor import GCConfig, SummarizingGCPlugin
from jaato.abc.provider import ModelRequest
from jaato.agent.compaction.setup import CompactionSetup
from jaato.agent.compaction.summary import SUMMARY_HEAD
from jaato.agent.session import Session
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult, Usage
from jaato.providers.scripted import ScriptedCall, Step
from jaato.runtime.plugins.discovery import discover_gc_plugins, load_gc_plugin

BOTH = ["gc_summarize", "gc_hybrid"]
USED = Usage(input_tokens=70, output_tokens=7)
FULL = {"context_limit": 100_000, "total_tokens": 90_000, "percent_used": 90.0, "model": "m", "turns": 12}


def strategy(name: str) -> SummarizingGCPlugin:
    plugin = load_gc_plugin(name)
    assert isinstance(plugin, SummarizingGCPlugin)
    return plugin


def turns(count: int) -> list[Message]:
    """Turns of a question, a call with its result and an answer."""
    history: list[Message] = []
    for n in range(count):
        history += [
            Message("user", [Text(f"question {n}?")], id=f"u{n}"),
            Message("assistant", [ToolCall(f"c{n}", "echo", {"text": f"argument {n}"})], id=f"c{n}m"),
            Message(
                "tool", [ToolResult(f"c{n}", "echo", True, [Text(f"outcome {n} " + "x" * 300)])], id=f"r{n}"
            ),
            Message("assistant", [Text(f"answer {n}.")], id=f"a{n}"),
        ]
    return history


def is_question(request: ModelRequest) -> bool:
    return "<conversation>" in request.messages[0].text


async def grown(live: Session, name: str, count: int = 6, **more: Any) -> None:
    """A session in a small context, which has had to make room."""
    live.compaction.use(
        CompactionSetup(load_gc_plugin(name), GCConfig(50.0, preserve_recent_turns=2), **more)
    )
    live.model._info = msgspec.structs.replace(SMALL, id=live.state.model)  # a model with a small context
    for n in range(count):
        await live.post(f"question {n} " + "y" * 800)


def answering(summary: Step) -> Any:
    """A model that gives this summary whenever it is asked for one, and talks otherwise."""
    return lambda request: summary if is_question(request) else Step(text="answer " + "x" * 400)


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.4")
@pytest.mark.parametrize("name", BOTH)
def test_a_summary_takes_the_place_of_what_is_left_out(tmp_path: Path, name: str) -> None:
    """Recent turns stay, the summary is part of the log and of the usage, and a resumed session reads the same."""

    async def main() -> None:
        script = [answering(Step(text="They spoke of ships.", usage=USED))] * 12
        async with session(tmp_path, script) as live:
            await grown(live, name)
            done = collections(live)
            assert done
            assert all(event.problem is None and event.strategy == name for event in done)
            assert all(event.usage == USED for event in done)
            assert live.state.usage == Usage(70 * len(done), 7 * len(done))
            assert live.model.ledger.totals()["prompt_tokens"] == 70 * len(done)
            said = texts(live)
            assert sum(text.startswith(SUMMARY_HEAD) for text in said) == 1
            assert any("They spoke of ships." in text for text in said)
            assert not any(text.startswith("question 0") for text in said)
            assert any("question 5" in text for text in said)
            kept, usage, session_id = list(live.state.messages), live.state.usage, live.state.session_id
            shown = [request for request in provider_of(live).requests if is_question(request)]
            assert all(not request.tools for request in shown)
        async with reopened(tmp_path, session_id, []) as again:
            assert again.state.messages == kept
            assert again.state.usage == usage

    anyio.run(main)


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.4")
def test_the_hybrid_keeps_the_recent_summarises_the_middle_and_drops_the_oldest() -> None:
    """The model reads of the middle; of the oldest it learns what was asked, and nothing else."""
    history = turns(12)
    config = GCConfig(80.0, preserve_recent_turns=4)
    question = strategy("gc_hybrid").question(history, {}, config)
    assert question is not None
    assert "outcome 7 " in question
    assert "outcome 4 " in question
    assert "outcome 1 " not in question
    assert "- question 0?" in question
    assert "question 8?" not in question
    whole = strategy("gc_summarize").question(history, {}, config)
    assert whole is not None
    assert "outcome 0 " in whole
    kept, result = strategy("gc_hybrid").collect_with("All went well.", history, {}, config, "full")
    assert [message.id for message in kept[1:]] == [message.id for message in history[32:]]
    assert kept[0].text == f"{SUMMARY_HEAD}All went well."
    assert kept[0].source == "system"
    assert result.items_collected == 32


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(
    "broken",
    [
        Step(error="provider_unreachable"),
        Step(error="context_overflow"),
        Step(text="half a summ", error="rate_limited"),
        Step(text="", usage=USED),
        Step(text="No.", finish_reason="refusal"),
        call("echo", text="instead"),
    ],
    ids=["unreachable", "too long", "limited", "silent", "refuses", "calls"],
)
def test_without_the_models_words_the_oldest_turns_go(tmp_path: Path, name: str, broken: Step) -> None:
    """A model that fails at the summary costs nobody the session: room is made without it, and the log says so."""

    async def main() -> None:
        async with session(tmp_path, [answering(broken)] * 60, [echo]) as live:
            await grown(live, name)
            done = collections(live)
            assert done
            assert all(event.problem is None for event in done)
            assert all("The model gave no summary" in (event.notification or "") for event in done)
            assert not any(text.startswith("question 0") for text in texts(live))
            assert any("question 5" in text for text in texts(live))

    anyio.run(main)


def test_a_model_that_hangs_at_the_summary_is_not_waited_for(tmp_path: Path) -> None:
    """After its time room is made without it."""

    async def main() -> None:
        async with session(tmp_path, [Step(text="x" * 400)] * 30) as live:
            hang_at_summaries(live)
            await grown(live, "gc_summarize", model_s=0.02)
            done = collections(live)
            assert done
            assert all("has not answered" in (event.notification or "") for event in done)

    anyio.run(main)


def hang_at_summaries(live: Session) -> anyio.Event:
    """A model that never answers the question for a summary; the event is set when it is asked."""
    plain, asked = live.model.provider.stream, anyio.Event()

    async def stream(request: ModelRequest) -> Any:
        if is_question(request):
            asked.set()
            await anyio.sleep_forever()
        async for chunk in plain(request):
            yield chunk

    live.model.provider.stream = stream  # type: ignore[method-assign]  # a model that hangs
    return asked


def test_a_stop_while_the_model_summarises_ends_the_turn_at_once(tmp_path: Path) -> None:
    """The turn is cancelled, nothing is left out, and the next turn works."""

    async def main() -> None:
        async with session(tmp_path, [Step(text="x" * 2000)] * 9) as live:
            asked = hang_at_summaries(live)
            await live.post("first")
            live.compaction.use(CompactionSetup(load_gc_plugin("gc_summarize"), GCConfig(1.0, 1)))
            live.model._info = msgspec.structs.replace(
                SMALL, id=live.state.model
            )  # a model with a small context
            ended: list[Any] = []

            async def second() -> None:
                ended.append(await live.post("second"))

            async with anyio.create_task_group() as group:
                group.start_soon(second)
                await asked.wait()
                live.stop()
            assert ended[0].reason == "cancelled"
            assert collections(live) == []
            assert texts(live)[0] == "first"

    anyio.run(main)


def test_compacting_by_hand_can_be_stopped_and_holds_messages_back(tmp_path: Path) -> None:
    """`stop` ends `compact`, which then has freed nothing; what is said meanwhile is answered afterwards."""

    async def main() -> None:
        async with session(tmp_path, [Step(text="x" * 2000)] * 9) as live:
            asked = hang_at_summaries(live)
            live.compaction.use(CompactionSetup(load_gc_plugin("gc_summarize"), GCConfig(100.0, 1)))
            for text in ("first", "second"):
                await live.post(text)
            freed: list[bool] = []
            ended: list[Any] = []

            async def compact() -> None:
                freed.append(await live.compact())

            async def third() -> None:
                ended.append(await live.post("third"))

            async with anyio.create_task_group() as group:
                group.start_soon(compact)
                await asked.wait()
                group.start_soon(third)
                await anyio.wait_all_tasks_blocked()
                live.stop()
            assert freed == [False]
            assert ended[0].reason == "stop"

    anyio.run(main)


@pytest.mark.parametrize("name", ["gc_truncate", *BOTH])
def test_one_long_turn_of_calls_makes_room_too(tmp_path: Path, name: str) -> None:
    """A single turn that fills the context with results does not end the session: its oldest calls go, the user's words
    stay, and the strategy is not asked before every call."""

    async def main() -> None:
        asked = 0

        def model(request: ModelRequest) -> Step:
            nonlocal asked
            if is_question(request):
                return Step(text="So far all is well.")
            asked += 1
            made = [ScriptedCall("echo", {"text": f"{asked} " + "z" * 600})] if asked < 40 else []
            return Step(text="on", calls=made)

        async with session(tmp_path, [model] * 99, [echo]) as live:
            live.compaction.use(CompactionSetup(load_gc_plugin(name), GCConfig()))
            live.model._info = msgspec.structs.replace(SMALL, id="script", context_limit=8_000)
            turn = await live.post("Do all forty, and mind the ships.")
            assert turn is not None
            assert turn.reason == "stop"
            done = collections(live)
            assert 1 <= len(done) <= 4
            assert all(event.problem is None for event in done)
            assert live.model.context_usage.total_tokens < 8_000
            assert "Do all forty, and mind the ships." in texts(live)

    anyio.run(main)


def test_all_three_are_known_by_name() -> None:
    """`discover_gc_plugins` names them; each is made without configuration."""
    for name in ("gc_truncate", *BOTH):
        assert name in discover_gc_plugins()
        assert load_gc_plugin(name).name == name
