"""Retention and upkeep."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.logs import begin, created, run, said, sound, start

from jaato.abc.store import Retention
from jaato.storage.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "jaato.db")
    yield store
    store.close()


def aged(store: SqliteStore, *years: int) -> None:
    """Sessions last used in these years, named after them."""
    for year in years:
        at = f"{year}-01-01T00:00:00.000Z"
        store.create([created(f"s{year}", at=at), said(f"s{year}", 2, "x" * 1000, at=at)])


def left(store: SqliteStore) -> list[str]:
    """The sessions there are."""
    return [row.id for row in store.sessions()]


@pytest.mark.parametrize(
    ("kept", "staying"),
    [
        (Retention(), ["s2126", "s2023", "s2022", "s2021"]),
        (Retention(days=1), ["s2126"]),
        (Retention(days=1e9), ["s2126", "s2023", "s2022", "s2021"]),
        (Retention(sessions=2), ["s2126", "s2023"]),
        (Retention(sessions=0), []),
        (Retention(size_bytes=3000), ["s2126", "s2023"]),
        (Retention(days=1e9, sessions=3), ["s2126", "s2023", "s2022"]),
    ],
)
def test_what_is_beyond_is_removed_oldest_first(
    store: SqliteStore, kept: Retention, staying: list[str]
) -> None:
    """By age, number or size, whatever says to; a dry run names the same sessions and changes nothing."""
    aged(store, 2022, 2021, 2126, 2023)
    planned = store.vacuum(kept, dry_run=True)
    assert len(left(store)) == 4
    done = store.vacuum(kept)
    assert [row.id for row in planned.removed] == [row.id for row in done.removed]
    assert left(store) == staying


def test_a_session_at_work_stays(store: SqliteStore) -> None:
    """What another process holds is never removed, and the report says so; nor does the file shrink under it."""
    aged(store, 2021, 2022)
    child = start(
        """
store = SqliteStore(Path(sys.argv[1]))
store.hold("s2021")
print("held", flush=True)
sys.stdin.read()
""",
        store.path,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    done = store.vacuum(Retention(days=1))
    assert ([row.id for row in done.removed], done.held, left(store)) == (["s2022"], ["s2021"], ["s2021"])
    assert "s2021" in done.note
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert store.vacuum(Retention(days=1)).note == ""
    assert left(store) == []


def test_what_belongs_to_nobody_goes(store: SqliteStore) -> None:
    """What a process killed in the middle of a fork or of keeping a result has left is removed; the file is smaller after
    it; what sessions have is whole."""
    begin(store, "s1", 3)
    kept = store.put_blob("s1", b"kept")
    run(
        """
from jaato.storage.fork import SessionDraft
store = SqliteStore(Path(sys.argv[1]))
if os.fork() == 0:
    store.hold("never begun")
    draft = SessionDraft(store._guard, "s9")
    for seq in range(1, 2001):
        draft.add(seq, b"x" * 1000, None)
    draft.flush()
    os.kill(os.getpid(), 9)
os.wait()
""",
        store.path,
    )
    stray = store.path.parent / "blobs" / "aa" / ("a" * 64)
    stray.parent.mkdir()
    stray.write_bytes(b"stray")
    os.utime(stray, (0, 0))
    store.vacuum()
    before = store.path.stat().st_size
    assert before < 500_000
    assert not stray.exists()
    assert list((store.path.parent / "locks").iterdir()) == []
    assert len(sound(store, "s1")) == 3
    assert store.get_blob("s1", kept) == b"kept"
