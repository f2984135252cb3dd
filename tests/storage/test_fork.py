"""A session that begins with what another one had."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.storage.logs import agent, begin, created, renamed, said, sound

from jaato.abc.store import Damaged
from jaato.errors import SessionNotFound, StoreError
from jaato.protocol.events import SessionCreated, SessionUpdated
from jaato.protocol.ids import is_id
from jaato.storage.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "jaato.db")
    yield store
    store.close()


def test_a_fork_has_the_events_up_to_the_point(store: SqliteStore) -> None:
    """The fork has the same events under its own id and a name of its own; the first is not changed, and each goes its
    own way."""
    store.create(
        [
            created("s1", "/w", name="first"),
            agent("s1", 2, "m1"),
            *[said("s1", seq, str(seq)) for seq in range(3, 9)],
        ]
    )
    store.append([renamed("s1", 9, name="later", description="all of it")])
    before = sound(store, "s1")
    made = store.fork("s1", 5, "a try")
    assert is_id(made, "s")
    events = sound(store, made)
    assert [replace(event, session_id="s1") for event in events[1:5]] == before[1:5]
    assert isinstance(events[0], SessionCreated)
    assert isinstance(events[5], SessionUpdated)
    assert (len(events), events[5].name, events[5].agent_id) == (6, "a try", "a1")
    row = next(row for row in store.sessions() if row.id != "s1")  # both may be of one millisecond
    assert (row.id, row.name, row.description, row.model, row.workspace) == (made, "a try", None, "m1", "/w")
    assert row.last_seq == 6
    store.hold(made)
    store.append([said(made, 7)])
    assert sound(store, "s1") == before
    whole = store.fork("s1")
    assert len(sound(store, whole)) == 10
    assert "fork of later" in [row.name for row in store.sessions()]


@pytest.mark.parametrize("seq", [0, -1, 4, 1 << 40])
def test_only_at_an_event_that_is_there(store: SqliteStore, seq: int) -> None:
    """Another number is refused with those there are, and nothing is left of the attempt."""
    begin(store, "s1", 3)
    with pytest.raises(StoreError, match="1 to 3"):
        store.fork("s1", seq)
    for text in ("gone", "../s1", "\udcff"):
        with pytest.raises((SessionNotFound, StoreError)):
            store.fork(text)
    assert len(store.sessions()) == 1


def test_blobs_are_shared_and_outlive_each_other(store: SqliteStore) -> None:
    """A fork can read the blobs that its own events name, and no others, also when the first session is deleted."""
    begin(store, "s1")
    early, late = store.put_blob("s1", b"early"), store.put_blob("s1", b"late")
    store.append([said("s1", 2, f"see {early}"), said("s1", 3, f"result:{late}")])
    made = store.fork("s1", 2)
    store.delete("s1")
    assert store.get_blob(made, early) == b"early"
    with pytest.raises(StoreError, match="no blob"):
        store.get_blob(made, late)
    store.delete(made)
    assert [path for path in (store.path.parent / "blobs").rglob("*") if path.is_file()] == []


def test_a_damaged_record_stays_one(store: SqliteStore) -> None:
    """What cannot be read is damaged in the fork too, at the same place; without its first record a session is not forked."""
    begin(store, "s1", 5)
    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE event SET data = x'00' WHERE position = (1 << 32) + 3")
        other.execute("DELETE FROM event WHERE position = (1 << 32) + 4")
    other.close()
    made = store.fork("s1")
    assert [isinstance(event, Damaged) for event in store.read(made)] == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]
    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE event SET data = x'00' WHERE position = (1 << 32) + 1")
    other.close()
    with pytest.raises(StoreError, match="lost its first record"):
        store.fork("s1")
    assert len(store.sessions()) == 2


def test_a_long_session_is_forked_piece_by_piece(store: SqliteStore) -> None:
    """Thousands of events are copied in order, none twice and none left out."""
    begin(store, "s1", 3000)
    assert [event.seq for event in sound(store, store.fork("s1"))] == list(range(1, 3002))
