"""`jaato usage` and `/usage`: what is added up, from which records, and for whom."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
import pexpect
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cli.conftest import desk as desk_fixture
from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import talking
from tests.kit import say as speak
from tests.kit import session

from jaato.abc.store import Damaged, UsageQuery
from jaato.protocol.events import (
    AgentCreated,
    Event,
    GcCompleted,
    MessageModel,
    SessionCreated,
    ToolCallEnd,
    TurnCompleted,
)
from jaato.protocol.messages import Message, Text, ToolResult, Usage
from jaato.storage.sqlite import SqliteStore
from jaato.tools.usage import GROUPS, UsageReport

desk = desk_fixture
DAYS = ("2026-11-25", "2026-11-26", "2026-11-27")
AGENTS = ("a0", "a1")
MODELS = ("fast", "deep")
TOOLS = ("readFile", "run")


def log_of(session_id: str, steps: list[tuple[str, int, int, int, int]]) -> list[Event]:
    """A log of one session: steps are (kind, day, agent, model or tool, amount)."""
    events: list[Event] = [
        SessionCreated(
            session_id=session_id, agent_id="a0", seq=1, timestamp="2026-11-24T00:00:00.000Z", workspace="/w"
        )
    ]
    for agent in AGENTS:
        events.append(
            AgentCreated(
                session_id=session_id,
                agent_id=agent,
                seq=len(events) + 1,
                timestamp="2026-11-24T00:00:00.000Z",
                name={"a0": "main", "a1": "helper"}[agent],
                provider="scripted",
                model="fast",
                system_prompt="",
                core_tools=[],
                parent_agent_id=None if agent == "a0" else "a0",
            )
        )
    for step in sorted(steps, key=lambda step: step[1]):
        events.append(event_of(session_id, len(events) + 1, *step))
    return events


def event_of(session_id: str, seq: int, kind: str, day: int, agent_at: int, which: int, amount: int) -> Event:
    """One step of a log."""
    head: dict[str, Any] = {
        "session_id": session_id,
        "agent_id": AGENTS[agent_at],
        "seq": seq,
        "timestamp": f"{DAYS[day]}T10:00:00.000Z",
    }
    usage = Usage(amount, amount // 2, amount // 3, 0, amount // 4)
    cost: dict[str, Any] = {"usage": usage, "cost_usd": None if amount % 3 == 0 else amount / 1000}
    match kind:
        case "reply":
            message = Message("assistant", [Text("x")], provider="scripted", model=MODELS[which])
            return MessageModel(**head, message=message, turn_id="t", finish_reason="stop", **cost)
        case "summary":
            return GcCompleted(**head, strategy="gc", reason="", tokens_before=1, tokens_after=1, **cost)
        case "call":
            result = ToolResult("c", TOOLS[which], True, [Text("y" * amount)])
            return ToolCallEnd(
                **head, call_id="c", tool=TOOLS[which], result=result, duration_s=float(amount)
            )
    counts: dict[str, Any] = {"model_calls": 1, "tool_calls": 0}
    return TurnCompleted(**head, turn_id="t", reason="stop", usage=usage, duration_s=float(amount), **counts)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["reply", "summary", "call", "turn"]),
        st.integers(0, 2),
        st.integers(0, 1),
        st.integers(0, 1),
        st.integers(0, 400),
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(STEPS, min_size=1, max_size=3),
    st.lists(st.sampled_from(GROUPS), min_size=1, max_size=3, unique=True),
)
def test_the_sums_are_those_of_the_events(
    tmp_path_factory: pytest.TempPathFactory, logs: list[list[tuple[str, int, int, int, int]]], by: list[Any]
) -> None:
    """Every group's tokens, price and calls add up to those of all events, however they are grouped."""
    store = SqliteStore(tmp_path_factory.mktemp("usage") / "jaato.db")
    wanted: Counter[str] = Counter()
    cost = 0.0
    try:
        for number, steps in enumerate(logs):
            events = log_of(f"s{number}", steps)
            store.create(events[:1])
            store.append(events[1:])
            for event in events:
                if isinstance(event, MessageModel | GcCompleted) and event.usage is not None:
                    wanted["calls"] += 1
                    wanted["input"] += event.usage.input_tokens
                    wanted["thinking"] += event.usage.reasoning_tokens
                    wanted["unpriced"] += event.cost_usd is None
                    cost += event.cost_usd or 0
                elif isinstance(event, ToolCallEnd):
                    wanted["tools"] += 1
        report = UsageReport(by).add_all(store.usage.read(UsageQuery()))
    finally:
        store.close()
    for totals in ([row for _, row in report.sorted_rows], [report.total]):
        assert sum(one.model_calls for one in totals) == wanted["calls"]
        assert sum(one.input_tokens for one in totals) == wanted["input"]
        assert sum(one.reasoning_tokens for one in totals) == wanted["thinking"]
        assert sum(one.unpriced_calls for one in totals) == wanted["unpriced"]
        assert sum(one.tool_calls for one in totals) == wanted["tools"]
        assert sum(one.cost_usd for one in totals) == pytest.approx(cost)


def stored(path: Path, steps: list[tuple[str, int, int, int, int]], session_id: str = "s0") -> SqliteStore:
    """A store with one session."""
    store = SqliteStore(path / "jaato.db")
    events = log_of(session_id, steps)
    store.create(events[:1])
    store.append(events[1:])
    return store


def test_groups_and_times(tmp_path: Path) -> None:
    """By day and model; a call belongs to the model that asked for it; `since` and `until` cut at the second."""
    steps = [("reply", 0, 0, 1, 100), ("call", 0, 0, 0, 40), ("reply", 1, 1, 0, 50), ("turn", 2, 0, 0, 7)]
    store = stored(tmp_path, steps)
    try:
        report = UsageReport().add_all(store.usage.read(UsageQuery()))
        rows = {
            key: (row.model_calls, row.input_tokens, row.tool_calls, row.time_s)
            for key, row in report.rows.items()
        }
        assert rows == {
            ("2026-11-25", "scripted deep"): (1, 100, 1, 0.0),
            ("2026-11-26", "scripted fast"): (1, 50, 0, 0.0),
            ("2026-11-27", "scripted deep"): (0, 0, 0, 7.0),
        }
        later = UsageReport(["agent"], since="2026-11-26T00:00:00.000Z", until="2026-11-27T00:00:00.000Z")
        assert set(later.add_all(store.usage.read(UsageQuery(since=later.since))).rows) == {("helper",)}
        tools = UsageReport(["tool"]).add_all(store.usage.read(UsageQuery()))
        assert (tools.rows["readFile",].result_tokens, tools.rows["readFile",].time_s) == (10, 40.0)
    finally:
        store.close()


def test_the_summaries_of_compaction_are_counted(tmp_path: Path) -> None:
    """They are model calls with a price, and a note says how many."""
    store = stored(tmp_path, [("summary", 0, 0, 0, 100), ("reply", 0, 0, 0, 100)])
    try:
        report = UsageReport().add_all(store.usage.read(UsageQuery()))
    finally:
        store.close()
    assert (report.total.model_calls, report.total.summaries, report.total.cost_usd) == (2, 1, 0.2)
    assert report.notes[0] == "1 of the model calls made summaries for compaction."


def test_a_fork_is_not_counted_twice(tmp_path: Path) -> None:
    """What it has copied was used by the session it is a copy of; its agents are known all the same."""
    store = stored(tmp_path, [("reply", 0, 0, 0, 100)])
    try:
        made = store.fork("s0")
        head: dict[str, Any] = {"session_id": made, "agent_id": "a1", "seq": store.last_seq(made) + 1}
        message = Message("assistant", [Text("x")], provider="scripted", model="fast")
        new = MessageModel(
            **head, message=message, turn_id="t", finish_reason="stop", usage=Usage(7, 1), cost_usd=0.1
        )
        store.append([new])
        report = UsageReport(["session", "agent"]).add_all(store.usage.read(UsageQuery()))
        sums = {(key[0].split()[0], key[1]): row.input_tokens for key, row in report.rows.items()}
        assert sums == {("s0", "main"): 100, (made, "helper"): 7}
    finally:
        store.close()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x00\xff", "it is no event"),
        (b'{"type":"message.model","usage":7}', "it cannot be read"),
        ("text", "it is not bytes"),
    ],
)
def test_damaged_records_are_skipped_and_reported(tmp_path: Path, data: Any, why: str) -> None:
    """The rest counts, and the report says what was left out."""
    store = stored(tmp_path, [("reply", 0, 0, 0, 100), ("reply", 1, 0, 0, 10), ("reply", 2, 0, 0, 1)])
    try:
        with sqlite3.connect(tmp_path / "jaato.db") as connection:
            connection.execute("UPDATE event SET data = ? WHERE position & 4294967295 = 5", (data,))
        connection.close()
        found = [record for _, record in store.usage.read(UsageQuery()) if isinstance(record, Damaged)]
        assert [(one.seq, one.reason.startswith(why)) for one in found] == [(5, True)]
        report = UsageReport().add_all(store.usage.read(UsageQuery()))
        assert report.total.input_tokens == 101
        assert report.notes[-1] == "1 damaged records were skipped: event 5 of s0."
    finally:
        store.close()


def test_a_second_reading_gives_what_is_new(tmp_path: Path) -> None:
    """The query remembers how far each log was read, and leaves the session out that is asked for."""
    store = stored(tmp_path, [("reply", 0, 0, 0, 100)])
    try:
        query = UsageQuery()
        assert sum(1 for _ in store.usage.read(query)) == 3
        assert list(store.usage.read(query)) == []
        events = log_of("s0", [("reply", 0, 0, 0, 100), ("reply", 1, 0, 0, 1)])
        store.append(events[-1:])
        assert [
            record.timestamp[:10] for _, record in store.usage.read(query) if not isinstance(record, Damaged)
        ] == [DAYS[1]]
        assert list(store.usage.read(UsageQuery(except_session="s0"))) == []
    finally:
        store.close()


def test_memory_does_not_grow_with_the_history(tmp_path: Path) -> None:
    """Eight times the events take the same memory."""
    peaks = []
    for name, count in (("short", 1_000), ("long", 8_000)):
        (tmp_path / name).mkdir()
        store = stored(tmp_path / name, [("reply", 0, 0, 0, 100), ("call", 0, 0, 0, 300)] * (count // 2))
        try:
            tracemalloc.start()
            UsageReport().add_all(store.usage.read(UsageQuery()))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        finally:
            store.close()
    assert peaks[1] < 1.5 * peaks[0]


PRICED = {"price_input": 2.0, "price_cached_input": 0.5, "price_output": 10.0}


def priced(desk: CliEnvironment, *steps: dict[str, Any], name: str = "priced.json") -> list[str]:
    """Flags for a model with prices that says these steps."""
    path = desk.root / name
    path.write_text(json.dumps({"steps": list(steps), **PRICED}))
    return ["--provider", "scripted", "--model", str(path)]


def delegation() -> list[dict[str, Any]]:
    """A turn with a subagent that reads a file."""
    return [
        call("get_tool_schemas", names=["delegate"]),
        {"calls": [{"name": "delegate", "arguments": {"task": "read", "name": "reader"}}]},
        call("readFile", path="a.txt"),
        say("It is hello."),
        say("Done."),
    ]


def test_the_table_of_a_day(desk: CliEnvironment) -> None:
    """A run with a subagent: its tokens and price by day and model, by agent, by tool, and as JSON."""
    (desk.work / "a.txt").write_text("hello\n")
    done = desk.run("run", *priced(desk, *delegation()), "go")
    assert done.returncode == 0, done.stderr
    table = desk.run("usage")
    assert table.returncode == 0, table.stderr
    heading, row = table.stdout.splitlines()
    assert heading.split() == "DAY MODEL CALLS INPUT CACHED OUTPUT THINKING TOOLS ~RESULTS TIME PRICE".split()
    assert "5 " in row
    assert "4,000" in row
    agents = json.loads(desk.run("usage", "--by", "agent", "--output", "json").stdout)
    by_name = {one["agent"]: one for one in agents["rows"]}
    assert by_name["reader"]["model_calls"] == 2
    assert by_name["reader"]["tool_calls"] == 1
    assert by_name["main"]["model_calls"] == 3
    assert agents["total"]["input_tokens"] == 4_000
    assert by_name["reader"]["cost_usd"] == pytest.approx((2_000 * 2 + 40 * 10) / 1e6)
    tools = json.loads(desk.run("usage", "--by", "tool", "--output", "json").stdout)
    assert {one["tool"] for one in tools["rows"]} == {"(model)", "get_tool_schemas", "delegate", "readFile"}


def test_times_groups_and_sessions_that_do_not_exist(desk: CliEnvironment) -> None:
    """Bad arguments say what is possible; an empty store is no error."""
    empty = desk.run("usage")
    assert (empty.returncode, empty.stdout) == (0, "")
    assert "No session has used anything" in empty.stderr
    assert not (desk.state / "jaato.db").exists()
    for line, part in (
        (["--by", "colour"], "grouped by day, session, agent, model, tool"),
        (["--since", "soon"], "12h, 7d, 2w"),
    ):
        wrong = desk.run("usage", *line)
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert part in wrong.stderr
    desk.run("run", *desk.script(say("hi")), "go")
    assert desk.run("usage", "--session", "nothing").returncode == 2
    assert "price unknown" in desk.run("usage", "--since", "today").stdout
    assert desk.run("usage", "--until", "2020-01-01").stdout == ""


@pytest.mark.parametrize("served", [False, True])
def test_usage_in_the_terminal(desk: CliEnvironment, served: bool) -> None:
    """`/usage` shows the session with its subagents, wherever it runs."""
    (desk.work / "a.txt").write_text("hello\n")
    with desk.serving() if served else nullcontext(), talking(desk, *priced(desk, *delegation())) as child:
        child.expect("Ctrl-D leaves")
        child.send("go\r")
        child.expect("Done.")
        child.expect("tokens in")
        child.send("/usage\r")
        child.expect("AGENT +MODEL +CALLS")
        child.expect("reader")
        child.expect("context: ")
        child.send("/usage tool\r")
        child.expect("readFile")
        child.expect("context: ")
        child.send("/usage colour\r")
        child.expect("grouped by day")
        child.send("\x04")
        child.expect(pexpect.EOF)


def test_usage_while_a_session_is_held(tmp_path: Path) -> None:
    """Reading takes no lease and waits for none."""

    async def main() -> None:
        async with session(tmp_path, [speak("one"), speak("two")]) as live:
            await live.post("go")
            reader = SqliteStore(tmp_path / "state" / "jaato.db", read_only=True)
            try:
                query = UsageQuery(session_id=live.state.session_id)
                report = await anyio.to_thread.run_sync(
                    lambda: UsageReport().add_all(reader.usage.read(query))
                )
            finally:
                reader.close()
            assert report.total.input_tokens == 100
            assert (await live.post("more")) is not None

    anyio.run(main)
