"""The store as everybody uses it."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.logs import begin, created, renamed, said, sound, text_of

from jaato.abc.store import Damaged, Store
from jaato.errors import SessionBusy, SessionNotFound, StoreError
from jaato.protocol.events import AgentOutput, Event, ToolCallStart
from jaato.storage.event_table import INSERTS
from jaato.storage.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "jaato.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


def test_is_a_store(store: SqliteStore) -> None:
    """The SQLite store has the shape every store has."""
    typed: Store = store
    assert typed.read_only is False


def test_reads_what_was_written(store: SqliteStore, path: Path) -> None:
    """Events come back equal and in order, in this process and after opening anew."""
    events: list[Event] = [created("s1"), *[said("s1", seq, f"text {seq} é 😀") for seq in range(2, 40)]]
    store.create(events[:2])
    store.append(events[2:3])
    store.append(events[3:])
    assert sound(store, "s1") == events
    assert sound(store, "s1", after_seq=30) == events[30:]
    assert sound(store, "s1", after_seq=100) == []
    store.close()
    again = SqliteStore(path)
    assert sound(again, "s1") == events
    again.append([said("s1", 40)])
    assert again.last_seq("s1") == 40
    again.close()


def test_nothing_to_append_is_fine(store: SqliteStore) -> None:
    """An append of no events does nothing."""
    store.append([])


def test_a_session_begins_with_session_created(store: SqliteStore) -> None:
    """`create` refuses a log that begins otherwise, and a session id that is taken."""
    for first in ([], [said("s1", 1)]):
        with pytest.raises(StoreError, match=r"session\.created"):
            store.create(first)
    begin(store, "s1")
    with pytest.raises(SessionBusy, match="s1 exists"):
        store.create([created("s1")])
    assert store.last_seq("s1") == 1


@pytest.mark.parametrize("bad", [5, 2, 1, 0, -1, 2**70])
def test_a_log_has_no_gap(store: SqliteStore, bad: int) -> None:
    """An event that does not continue the log is refused, nothing of its batch is stored, and
    the log goes on.
    """
    begin(store, "s1", 3)
    for batch in ([said("s1", bad)], [said("s1", bad), said("s1", bad + 1)]):
        with pytest.raises(StoreError):
            store.append(batch)
    with pytest.raises(StoreError, match="event 5 of session s1 is next"):
        store.append([said("s1", 4), said("s1", 6)])
    store.append([said("s1", 4)])
    assert [event.seq for event in sound(store, "s1")] == [1, 2, 3, 4]


def test_only_durable_events_of_one_session(store: SqliteStore) -> None:
    """Ephemeral events and events of two sessions in one batch are refused."""
    begin(store, "s1")
    begin(store, "s2")
    shown = AgentOutput(session_id="s1", agent_id="a1", seq=2, source="model", text="x", mode="write")
    for batch in ([shown], [said("s1", 2), said("s2", 3)]):
        with pytest.raises(StoreError, match="only durable"):
            store.append(batch)


def test_what_cannot_be_json_is_refused_whole(store: SqliteStore) -> None:
    """A lone surrogate, a foreign object and endless depth are refused by name, with nothing of
    their batch stored.
    """
    begin(store, "s1")
    deep: list[object] = []
    for _ in range(20_000):
        deep = [deep]
    for value in ("\ud800", object(), deep, {1.5: {object(): 1}}):
        call = ToolCallStart(
            session_id="s1", agent_id="a1", seq=3, call_id="c1", tool="run", arguments={"value": value}
        )
        with pytest.raises(StoreError, match=r"Event 3 \(ToolCallStart\)"):
            store.append([said("s1", 2), call])
    while deep:  # freed piece by piece: the interpreter would recurse
        deep = deep[0]  # type: ignore[assignment]
    assert store.last_seq("s1") == 1


def test_unknown_sessions_are_named(store: SqliteStore) -> None:
    """Every method says which session it could not find."""
    digest = "0" * 64
    with pytest.raises(SessionNotFound):
        store.read("\ud800")
    for use in (
        lambda: store.read("s9"),
        lambda: store.last_seq("s9"),
        lambda: store.append([said("s9", 2)]),
        lambda: store.delete("s9"),
        lambda: store.put_blob("s9", b""),
        lambda: store.get_blob("s9", digest),
        lambda: store.find("s9"),
    ):
        with pytest.raises(SessionNotFound, match="s9"):
            use()


def test_two_stores_of_one_session(store: SqliteStore, path: Path) -> None:
    """Of two writers the second is told, by name, that the session has moved on; reading shows
    it what is there.
    """
    other = SqliteStore(path)
    begin(store, "s1")
    other.append([said("s1", 2, "theirs")])
    with pytest.raises(SessionBusy, match="s1: another process has written event 2"):
        store.append([said("s1", 2, "ours")])
    with pytest.raises(SessionBusy, match="s1"):
        store.append([said("s1", 2, "ours"), said("s1", 3, "ours")])
    assert [text_of(event) for event in sound(store, "s1", 1)] == ["theirs"]
    store.append([said("s1", 3, "ours")])
    other.close()


def test_a_deleted_session_is_not_written_into_another(store: SqliteStore, path: Path) -> None:
    """Who writes to a session that was deleted elsewhere is told, and a session made since is not touched."""
    other = SqliteStore(path)
    batches: list[list[Event]] = [[said("s1", 4)], [said("s1", 4), renamed("s1", 5, "x")]]
    for batch in batches:
        begin(store, "s1", 3)
        other.delete("s1")
        begin(other, "s2", 3)
        with pytest.raises(SessionNotFound):
            store.append(batch)
        assert [event.seq for event in sound(other, "s2")] == [1, 2, 3]
        other.delete("s2")
    other.close()


def test_most_appends_write_one_row(store: SqliteStore) -> None:
    """Within a tenth of a second an append changes nothing but the log, not its session's row."""
    begin(store, "s1")
    store.append([said("s1", 2, at="2126-01-01T00:00:00.000Z")])
    with store._guard as connection:
        before = connection.total_changes
    for seq in range(3, 13):
        store.append([said("s1", seq, at="2126-01-01T00:00:00.050Z")])
    with store._guard as connection:
        assert connection.total_changes - before == 10


@pytest.mark.parametrize("bad", [3, 5, 9])
def test_the_holder_of_a_session_leaves_no_gap(store: SqliteStore, bad: int) -> None:
    """Under a lease, too, an event that does not continue the log is refused, and the one that does is stored after it."""
    store.hold("s1")
    begin(store, "s1")
    store.append([said("s1", 2), said("s1", 3)])
    with pytest.raises(StoreError):
        store.append([said("s1", bad)])
    store.append([said("s1", 4)])
    assert [event.seq for event in store.read("s1") if isinstance(event, Event)] == [1, 2, 3, 4]


def test_no_append_makes_a_temporary_table(store: SqliteStore, path: Path) -> None:
    """SQLite writes the events of an append into their table directly, however many there are."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for count, statement in enumerate(INSERTS, 1):
            values = [*[1, "", b""] * count, 1]
            steps = {row[1] for row in connection.execute(f"EXPLAIN {statement}", values)}
            assert "Insert" in steps
            assert "OpenEphemeral" not in steps


def test_reading_while_writing(store: SqliteStore) -> None:
    """A reader that appends for every event it reads sees what was there when it began, and ends."""
    begin(store, "s1", 600)
    for count, _ in enumerate(store.read("s1")):
        store.append([said("s1", 601 + count)])
    assert store.last_seq("s1") == 1200


def test_threads_share_a_store(store: SqliteStore) -> None:
    """Threads that append to sessions of their own and read meanwhile lose nothing."""
    faults: list[BaseException] = []

    def work(session_id: str) -> None:
        try:
            begin(store, session_id)
            for seq in range(2, 102):
                store.append([said(session_id, seq)])
                assert store.last_seq(session_id) == seq
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(f"s{index}",)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert [len(sound(store, f"s{index}")) for index in range(4)] == [101] * 4


def test_delete_removes_a_session_and_nothing_else(store: SqliteStore, path: Path) -> None:
    """A deleted session is gone from list, log and disk; its neighbours stay."""
    for name in "abc":
        begin(store, f"s{name}", 20)
    store.append([said("sb", 21, "a secret word")])
    store.delete("sb")
    assert {row.id for row in store.sessions()} == {"sa", "sc"}
    with pytest.raises(SessionNotFound):
        store.read("sb")
    assert len(sound(store, "sa")) == len(sound(store, "sc")) == 20
    assert not any(b"a secret word" in file.read_bytes() for file in path.parent.iterdir() if file.is_file())


def test_a_deleted_session_ends_its_readers(store: SqliteStore) -> None:
    """A reader whose session is deleted is told so."""
    begin(store, "s1", 600)
    events = store.read("s1")
    next(events)
    store.delete("s1")
    with pytest.raises(SessionNotFound, match="deleted while"):
        list(events)


def test_a_long_log_is_read_in_pieces(store: SqliteStore) -> None:
    """Ten thousand events come back whole."""
    begin(store, "s1", 10_000)
    events = sound(store, "s1")
    assert [event.seq for event in events] == list(range(1, 10_001))


def test_the_write_ahead_log_stays_small(store: SqliteStore, path: Path) -> None:
    """However much is written without a pause, the log beside the database is folded into it."""
    begin(store, "s1")
    text = "x" * 100_000
    for seq in range(2, 1_002):
        store.append([said("s1", seq, text)])
    assert path.with_name("jaato.db-wal").stat().st_size < 64 << 20
    assert path.stat().st_size > 32 << 20


def test_writing_waits_for_a_log_that_is_folded_slowly(store: SqliteStore, path: Path) -> None:
    """The thread that folds gets no time: what is written meanwhile is bounded, and nothing of it is lost."""
    begin(store, "s1")
    log = path.with_name("jaato.db-wal")
    sizes: list[int] = []

    def stall() -> None:
        with store._checkpoint._lock:
            stalled.set()
            while len(sizes) < 2 or (sizes[-1] > sizes[-2] and sizes[-1] < 64 << 20):
                sizes.append(log.stat().st_size)
                time.sleep(0.5)

    stalled = threading.Event()
    thread = threading.Thread(target=stall)
    thread.start()
    stalled.wait()
    text = "x" * 100_000
    for seq in range(2, 802):
        store.append([said("s1", seq, text)])
    thread.join()
    assert log.stat().st_size < 64 << 20
    assert len(sound(store, "s1")) == 801


def test_closing_twice_and_using_after(store: SqliteStore, path: Path) -> None:
    """A closed store says so, and leaves one file and no log beside it."""
    begin(store, "s1")
    store.close()
    store.close()
    assert [file.name for file in path.parent.iterdir()] == ["jaato.db"]
    with pytest.raises(StoreError, match="closed"):
        store.append([said("s1", 2)])
    with pytest.raises(StoreError, match="closed"):
        store.last_seq("s1")


def test_the_durability_is_the_one_asked_for(tmp_path: Path) -> None:
    """`normal` writes without a sync, `full` with one, both in write-ahead mode."""
    for durability, level in (("normal", 1), ("full", 2)):
        store = SqliteStore(tmp_path / durability / "jaato.db", durability=durability)  # type: ignore[arg-type]
        with store._guard as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        begin(store, "s1", 3)
        store.put_blob("s1", b"x")
        store.close()


def test_the_tables_can_be_read_by_anyone(store: SqliteStore, path: Path) -> None:
    """An event is plain JSON in a plain table: nothing but SQLite is needed to get at it."""
    begin(store, "s1", 2)
    store.close()
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT json_extract(CAST(data AS TEXT), '$.type') FROM event").fetchall()
    connection.close()
    assert rows == [("session.created",), ("message.user",)]


def test_damaged_is_not_an_event() -> None:
    """`Damaged` names session, seq and reason."""
    assert Damaged("s1", 2, "why").seq == 2
