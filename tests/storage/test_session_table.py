"""Lists of sessions, and finding one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.logs import agent, created, renamed, said

from jaato.errors import SessionNotFound, StoreError
from jaato.protocol.ids import new_id
from jaato.storage.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "jaato.db")
    yield store
    store.close()


def test_a_row_shows_what_the_events_say(store: SqliteStore) -> None:
    """Name, description, provider, model and times follow the events; a subagent's model is not
    the session's.
    """
    store.create([created("s1", "/w", at="2026-01-01T00:00:00.000Z"), agent("s1", 2, "m1")])
    store.append([agent("s1", 3, "small", parent="a1")])
    store.append([renamed("s1", 4, name="Fix the parser")])
    store.append(
        [renamed("s1", 5, description="What was done"), said("s1", 6, at="2126-01-01T00:00:00.000Z")]
    )
    (row,) = store.sessions()
    assert (row.id, row.workspace, row.name, row.description) == (
        "s1",
        "/w",
        "Fix the parser",
        "What was done",
    )
    assert (row.provider, row.model, row.last_seq) == ("scripted", "m1", 6)
    assert (row.created_at, row.updated_at) == ("2026-01-01T00:00:00.000Z", "2126-01-01T00:00:00.000Z")


def test_a_new_session_knows_its_agent(store: SqliteStore) -> None:
    """What `create` is given beyond the first event is seen in the list too."""
    store.create([created("s1"), agent("s1", 2, "m1"), renamed("s1", 3, "n")])
    (row,) = store.sessions()
    assert (row.model, row.name) == ("m1", "n")


def test_newest_first_to_the_millisecond(store: SqliteStore) -> None:
    """The list is ordered by the last event, also among sessions used within the same tenth of a second."""
    for name in "abc":
        store.create([created(f"s{name}", at="2026-01-01T00:00:00.000Z")])
    for count, name in enumerate("bcab"):
        seq = store.last_seq(f"s{name}") + 1
        store.append([said(f"s{name}", seq, at=f"2026-01-01T00:00:00.00{count + 1}Z")])
    assert [row.id for row in store.sessions()] == ["sb", "sa", "sc"]
    store.append([said("sc", 3, at="2026-01-01T00:00:00.250Z")])
    assert [row.id for row in store.sessions()] == ["sc", "sb", "sa"]
    store.append([said("sc", 4, at="2025-01-01T00:00:00.000Z")])
    assert [row.id for row in store.sessions()] == ["sc", "sb", "sa"]
    assert store.sessions()[0].updated_at == "2026-01-01T00:00:00.250Z"


def test_a_failed_append_leaves_the_order_right(store: SqliteStore) -> None:
    """A refused batch does not make the store believe that the session's row was written."""
    for name in "ab":
        store.create([created(f"s{name}", at=f"2026-01-01T00:00:0{'ab'.index(name)}.000Z")])
    with pytest.raises(StoreError):
        store.append([said("sa", 3, at="2026-01-01T00:00:09.000Z")])
    store.append([said("sa", 2, at="2026-01-01T00:00:09.000Z")])
    assert [row.id for row in store.sessions()] == ["sa", "sb"]


def test_pages_cover_everything_once(store: SqliteStore) -> None:
    """Pages of any size, with many equal times, list each session once and in order, also of
    one workspace.
    """
    for index in range(30):
        at = f"2026-01-01T00:00:00.{index // 7:03d}Z"
        store.create([created(f"s{index:02d}", f"/w{index % 2}", at=at)])
    whole = [row.id for row in store.sessions(limit=100)]
    assert len(set(whole)) == 30
    for limit in (1, 4, 29, 30, 31):
        listed: list[str] = []
        before = None
        while page := store.sessions(limit=limit, before=before):
            assert len(page) <= limit
            listed += [row.id for row in page]
            before = page[-1].cursor
        assert listed == whole
    assert [row.id for row in store.sessions("/w1")] == [name for name in whole if int(name[1:]) % 2]
    assert store.sessions("/elsewhere") == store.sessions(limit=0) == store.sessions("\udcff") == []


def test_find_by_id_prefix_and_name(store: SqliteStore) -> None:
    """An id, the beginning of one in any case, or a name finds a session."""
    ids = [new_id("s") for _ in range(3)]
    for index, session_id in enumerate(ids):
        store.create([created(session_id, f"/w{index}", name=f"name {index}")])
    for session_id in ids:
        assert store.find(session_id) == session_id
        assert store.find(session_id, "/other") == session_id
        assert store.find(session_id[:25]) == session_id
        assert store.find(session_id[:25].lower()) == session_id
    assert store.find("name 1") == ids[1]
    assert store.find("name 1", "/w1") == ids[1]
    for text in ("name 1", ids[1][:25]):
        with pytest.raises(SessionNotFound, match="in /w2"):
            store.find(text, "/w2")
    for text in ("", "nothing", "%", "s_", "\udcff", "name"):
        with pytest.raises(SessionNotFound, match="jaato sessions list"):
            store.find(text)


def test_several_candidates_are_listed(store: SqliteStore) -> None:
    """What fits several sessions is refused with their ids, names and workspaces; five are
    shown and the rest counted.
    """
    for index in range(7):
        store.create([created(f"s{index}", f"/w{index % 2}", name="twin" if index < 2 else None)])
    with pytest.raises(SessionNotFound, match=r"'twin' fits 2 sessions") as found:
        store.find("twin")
    assert all(text in str(found.value) for text in ("s0", "s1", "/w0", "/w1", "twin"))
    assert store.find("twin", "/w1") == "s1"
    with pytest.raises(SessionNotFound, match=r"and 2 more"):
        store.find("s")
