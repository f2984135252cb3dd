"""Spans of any log: cut off anywhere, damaged, out of order, with strange times."""

from __future__ import annotations

from pathlib import Path

import anyio
import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings
from tests.kit import call, calls, say
from tests.subagent.cast import Cast
from tests.tracing.collecting import once, plain, stored, traced, written

from jaato.protocol.events import Event, MessageUser, SessionCreated
from jaato.runtime.tracing.fold import MAX_NS, SpanFold, nanoseconds
from jaato.storage.sqlite import SqliteStore


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """The events of a session with subagents, questions and a background task."""
    path = tmp_path_factory.mktemp("log")
    cast = Cast(
        {
            "main": [
                call("get_tool_schemas", names=["delegate", "request_clarification"]),
                calls(("delegate", {"task": "x", "name": "one"}), ("run", {"command": "true"})),
                call("run", command="sleep 0.01", background=True),
                say("Done."),
            ],
            "one": [call("run", command="false"), say("1")],
        }
    )
    session_id, _ = once(path, cast, on_permission=lambda _asked: "y")
    store = SqliteStore(path / "state/jaato.db")
    try:
        return [event for event in store.read(session_id) if isinstance(event, Event)]
    finally:
        store.close()


def test_a_log_that_was_cut_off_anywhere_gives_every_span_once(log: list[Event], tmp_path: Path) -> None:
    """A session whose process died after any event is opened again: what had been handed on before and what is handed on
    now are together the spans of the log, each once and with the same ids."""
    for cut in range(2, len(log), 3):
        path = tmp_path / str(cut)
        work = path / "work"
        work.mkdir(parents=True)
        begun = [msgspec.structs.replace(log[0], workspace=str(work)), *log[1:cut]]
        store = SqliteStore(path / "state/jaato.db")
        store.create(begun[:2])
        for event in begun[2:]:
            store.append([event])
        store.close()
        fold = SpanFold()
        before = plain([span for event in begun for span in fold.apply(event)])

        async def main(path: Path = path) -> None:
            async with traced(path, Cast({"main": [say("On.")] * 9}), session=log[0].session_id) as live:
                await live.run("go on")

        anyio.run(main)
        now = written(path)
        ids = [span.span_id for span in (*before, *now)]
        assert len(set(ids)) == len(ids)
        assert sorted(ids) == sorted(span.span_id for span in stored(path, log[0].session_id))
        parents = {span.span_id: span.parent_id for span in (*before, *now)}
        assert all(parent in parents for parent in parents.values() if parent)


STRANGE = ["", "yesterday", "9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"]


@settings(max_examples=60)
@given(data=st.data())
def test_no_log_makes_the_fold_fail(log: list[Event], data: st.DataObject) -> None:
    """Events that are missing, twice, out of order or without a time: spans end after they begin, have whole ids, and
    nothing that ended stays open."""
    picked = data.draw(st.lists(st.sampled_from(log), max_size=60))
    stamps = data.draw(st.lists(st.sampled_from([*STRANGE, None]), min_size=60, max_size=60))
    fold = SpanFold(content=data.draw(st.booleans()))
    for event, stamp in zip(picked, stamps, strict=False):
        strange = event if stamp is None else msgspec.structs.replace(event, timestamp=stamp)
        for span in plain(fold.apply(strange)):
            assert 0 <= span.start_ns <= span.end_ns <= MAX_NS
            assert len(bytes.fromhex(span.trace_id)) == 16
            assert len(bytes.fromhex(span.span_id)) == 8
            assert span.name


def test_a_damaged_beginning_loses_only_itself(log: list[Event]) -> None:
    """Without its first records a log gives the spans of the rest, with the same ids."""
    whole = {span.span_id for event in log for span in plain(ALL.apply(event))}
    fold = SpanFold()
    rest = {
        span.span_id
        for event in log
        if not isinstance(event, SessionCreated | MessageUser)
        for span in plain(fold.apply(event))
    }
    assert rest == whole


ALL = SpanFold()


def test_times_of_events() -> None:
    """An event's time is nanoseconds since 1970, and none for what is no time of that range."""
    assert nanoseconds("2026-01-01T00:00:00.001Z") == 1_767_225_600_001_000_000
    assert nanoseconds("2026-01-01T00:00:00") == 1_767_225_600_000_000_000
    assert [nanoseconds(text) for text in STRANGE] == [None] * 5
