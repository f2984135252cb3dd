"""Random histories through every strategy and every dialect: pairs, pins, size, and no second compaction.

`JAATO_HISTORIES=3400` tries so many of them for each strategy; the suite tries some.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit import plan, runtime
from tests.providers.histories import check_anthropic, check_gemini, check_local, check_openai

from jaato.abc.compactor import GCConfig
from jaato.abc.provider import ModelRequest
from jaato.agent.compaction.chars import chars_of
from jaato.agent.compaction.history import find_required_positions
from jaato.agent.compaction.setup import CompactionSetup
from jaato.agent.journal import Journal
from jaato.agent.session import Session
from jaato.protocol.events import (
    BackgroundUpdated,
    ContextPinned,
    GcCompleted,
    MessageModel,
    MessageUser,
    PlanUpdated,
    ToolCallEnd,
    TurnCompleted,
)
from jaato.protocol.ids import new_id
from jaato.protocol.messages import (
    Media,
    Message,
    Part,
    Problem,
    Source,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from jaato.protocol.specs import ModelInfo, Plan, PlanStep
from jaato.providers.anthropic.dialect import AnthropicDialect
from jaato.providers.dialect import Dialect
from jaato.providers.google_genai.dialect import GeminiDialect
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.openai.responses import OpenAIResponses
from jaato.providers.scripted import ScriptedProvider, Step
from jaato.runtime.plugins.discovery import load_gc_plugin
from jaato.settings import environment

COUNT = int(environment().get("JAATO_HISTORIES", "60"))
STRATEGIES = ["gc_truncate", "gc_summarize", "gc_hybrid"]
DIALECTS: list[tuple[str, Dialect]] = [
    ("gpt-5.5", OpenAIChat()),
    ("gpt-5.5", OpenAIResponses()),
    ("claude-opus-5-5", AnthropicDialect()),
    ("gemini-3.1-pro", GeminiDialect()),
]
SUMMARIES = [
    Step(text="They sailed on.", usage=Usage(100, 5)),
    Step(text=""),
    Step(text="x" * 60_000),
    Step(text="No.", finish_reason="refusal"),
    Step(error="provider_unreachable"),
    Step(error="context_overflow"),
]
PIN, CONSTRAINT = "the master is Jo", "Never sink the ship."

sizes = st.sampled_from([0, 1, 40, 300, 500, 2_000, 8_000, 40_000])


class Round(NamedTuple):
    """One reply of the model: the size of its text and thoughts, and for each call the size of its result and whether it
    worked."""

    text: int
    thought: int
    calls: list[tuple[int, bool]]


class Turn(NamedTuple):
    """A message of this source and size, and the replies to it; the last one may have calls when the turn goes on."""

    source: Source
    size: int
    rounds: list[Round]


rounds = st.builds(
    Round,
    sizes,
    st.sampled_from([0, 0, 50, 3_000]),
    st.lists(st.tuples(sizes, st.booleans()), max_size=4),
)
turns = st.builds(
    Turn,
    st.sampled_from(["user", "user", "user", "parent", "child", "system"]),
    sizes,
    st.lists(rounds, max_size=5),
)


class History(NamedTuple):
    """What is done before the compaction, the limit of the context, and what comes of the question for a summary (its number
    among `SUMMARIES`)."""

    turns: list[Turn]
    limit: int
    preserve: int
    threshold: float
    summary: int
    plan: bool
    counted: bool


histories = st.builds(
    History,
    st.lists(turns, min_size=1, max_size=8),
    st.sampled_from([2_000, 4_000, 16_000, 64_000, 200_000]),
    st.integers(0, 6),
    st.sampled_from([50.0, 80.0, 95.0]),
    st.sampled_from(range(len(SUMMARIES))),
    st.booleans(),
    st.booleans(),
)


def filler(size: int, number: int) -> str:
    """Text of this size that is unlike every other."""
    return f"{number} {'wave ' * (size // 5 + 1)}"[:size]


def play(journal: Journal, history: History) -> None:
    """Write a history into a log, as turns would."""
    numbers = iter(range(1, 100_000))
    first = Message("user", [Text(f"Sail. {CONSTRAINT}")], id=new_id("m"))
    journal.record(MessageUser(**journal.head(), message=first, turn_id="t0"))
    journal.record(ContextPinned(**journal.head(), pin_id="p1", text=PIN))
    for turn in history.turns:
        turn_id = new_id("t")
        parts: list[Part] = [Text(filler(max(1, turn.size), next(numbers)))]
        asked = Message("user", parts, id=new_id("m"), source=turn.source)
        journal.record(MessageUser(**journal.head(), message=asked, turn_id=turn_id))
        for reply in turn.rounds:
            play_reply(journal, reply, turn_id, numbers, counted=history.counted)
        if not turn.rounds or not turn.rounds[-1].calls:
            journal.record(ended(journal, turn_id))
    if history.plan:
        steps = [PlanStep("s1", "sweep", "completed"), PlanStep("s2", "paint the hull")]
        journal.record(
            PlanUpdated(**journal.head(), plan=Plan("p1", "Spring", steps, status="active")),
            BackgroundUpdated(**journal.head(), task_id="bg7", tool="run", plugin="cli", status="running"),
        )


def play_reply(
    journal: Journal, reply: Round, turn_id: str, numbers: Iterator[int], *, counted: bool
) -> None:
    """Write one reply and the results of its calls."""
    parts: list[Part] = [Thinking(filler(reply.thought, next(numbers)))] if reply.thought else []
    parts += [Text(filler(max(1, reply.text), next(numbers)))]
    calls = [ToolCall(new_id("c"), "haul", {"number": next(numbers)}) for _ in reply.calls]
    said = Message("assistant", [*parts, *calls], id=new_id("m"))
    usage = Usage(500 + journal.state.written_chars // 3, 20) if counted else None
    journal.record(
        MessageModel(
            **journal.head(),
            message=said,
            turn_id=turn_id,
            finish_reason="tool_calls" if calls else "stop",
            usage=usage,
        )
    )
    for made, (size, ok) in zip(calls, reply.calls, strict=True):
        text = filler(size, next(numbers))
        media = [Media("image/png", "0" * 64, 3, "a.png")] if size == 2_000 and ok else []
        content: list[Text | Media] = [Text(text), *media]
        result = ToolResult(made.call_id, "haul", ok, content)
        if not ok:
            result = ToolResult(made.call_id, "haul", ok, error=Problem("tool_failed", text or "failed"))
        journal.record(
            ToolCallEnd(**journal.head(), call_id=made.call_id, tool="haul", result=result, duration_s=0.0)
        )


def ended(journal: Journal, turn_id: str) -> TurnCompleted:
    """The end of a turn."""
    return TurnCompleted(
        **journal.head(),
        turn_id=turn_id,
        reason="stop",
        usage=Usage(),
        model_calls=1,
        tool_calls=0,
        duration_s=0.0,
    )


@pytest.fixture(scope="module")
def harbour() -> Iterator[tuple[Path, Any]]:
    """One store for all histories."""
    with tempfile.TemporaryDirectory() as folder:
        made = runtime(Path(folder))
        yield Path(folder), made
        made.close()


@pytest.mark.slow
@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.2")
@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.10")
@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=COUNT, suppress_health_check=list(HealthCheck))
@given(history=histories)
def test_any_history_is_compacted_well(harbour: tuple[Path, Any], name: str, history: History) -> None:
    """Whatever was said and done, whatever the model makes of the question for a summary."""
    path, made = harbour

    async def main() -> None:
        info = ModelInfo("script", "scripted", context_limit=history.limit)
        provider = ScriptedProvider([lambda _request: SUMMARIES[history.summary]] * 50, info=info)
        async with made.create(plan(path, [], provider=provider)) as live:
            play(live.journal, history)
            config = GCConfig(history.threshold, history.preserve)
            live.compaction.use(CompactionSetup(load_gc_plugin(name), config))
            before = list(live.state.messages)
            await live.compaction.compact_if_needed()
            check(live, before, history)
            seen = live.state.seq
            await live.compaction.compact_if_needed()
            assert live.state.seq == seen
            kept = list(live.state.messages)
            if await live.compact():
                check(live, kept, history)
                kept = list(live.state.messages)
                assert not await live.compact()
            assert all(map(lambda one, other: one is other, kept, live.state.messages))
            last = live.compaction.last
            assert last is not None
            assert last.problem is not None
            again = Journal(live.journal.store, type(live.state)())
            again.load(live.state.session_id)
            assert again.state.messages == live.state.messages

    anyio.run(main)


def check(live: Session, before: list[Message], history: History) -> None:
    """What must hold after a compaction; nothing is checked where none was due."""
    done = live.compaction.last
    state = live.state
    check_pairs(state.messages)
    if done is None or done.problem is not None:
        assert list(map(id, before)) == list(map(id, state.messages))
        return
    note = state.messages[0].text
    assert PIN in note
    assert CONSTRAINT in note
    if history.plan:
        assert "paint the hull" in note
        assert "bg7" in note
    required = [before[at] for at in find_required_positions(before)]
    there = {message.id: message for message in state.messages}
    assert all(message.id in there for message in required)
    for source in ("user", "parent"):
        newest = [m for m in before if m.role == "user" and m.source == source][-1:]
        assert all(there[message.id] is message for message in newest)
    check_size(live, done, [there[message.id] for message in required], history)
    check_wire(live)


def check_pairs(messages: list[Message]) -> None:
    """Every call has its result in the next message, in call order, and there are no other results."""
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert [part.call_id for part in message.parts if isinstance(part, ToolResult)] == waiting
            waiting = []
            continue
        assert not waiting
        waiting = [call.call_id for call in message.function_calls]
    assert not waiting


def check_size(live: Session, done: GcCompleted, required: list[Message], history: History) -> None:
    """The context is smaller, and below the threshold unless what must stay is larger."""
    usage = live.model.context_usage
    assert done.tokens_after < done.tokens_before
    assert usage.total_tokens == done.tokens_after
    rate = (usage.total_tokens - usage.fixed_tokens) / max(1, live.state.written_chars)
    fixed = sum(map(chars_of, required)) + chars_of(live.state.messages[0])
    must = usage.fixed_tokens + rate * (fixed + LEAST_KEPT)
    assert usage.total_tokens <= max(history.limit * history.threshold / 100, 1.02 * must)


LEAST_KEPT = 3_500
"""Characters that stay beside that in the smallest window: the shortest summary, and one piece of the recent turns."""


def check_wire(live: Session) -> None:
    """Each dialect takes the history as it is: no call is without its result, no result without its call."""
    check_local(live.state.messages)
    for model, dialect in DIALECTS:
        request = ModelRequest(model, live.state.messages, "s", read_blob=lambda _digest: b"\x89PNG")
        body = dialect.encode(request)
        match dialect:
            case AnthropicDialect():
                check_anthropic(body)
            case GeminiDialect():
                check_gemini(body)
            case _:
                check_openai(dialect.name, body)
        assert b"no result was recorded" not in body
        assert b"[result of an earlier call" not in body
        assert msgspec.json.decode(body)
