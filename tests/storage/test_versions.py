"""Databases that an older or a newer jaato has made, or that are only read."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import stat
import struct
from pathlib import Path

import pytest
from tests.storage.logs import begin, created, said, sound, tamper, text_of

from jaato.errors import StoreError, StoreReadOnly
from jaato.protocol.codec import encode
from jaato.storage.database import open_database
from jaato.storage.schema import APPLICATION_ID, SCHEMA_1, SEQ_BITS, STEPS, migrate, version_of
from jaato.storage.sqlite import SqliteStore


@pytest.mark.spec("C10", "Environment variables and files")
def test_a_newer_store_is_opened_for_reading(path: Path) -> None:
    """What a newer jaato wrote can be read and not written, and the refusal says what to install."""
    tamper(path, f"PRAGMA user_version = {len(STEPS) + 6}")
    store = SqliteStore(path)
    assert store.read_only
    assert len(sound(store, "s1")) == 10
    assert len(store.sessions()) == 2
    for use in (
        lambda: store.append([said("s1", 11)]),
        lambda: store.create([created("s3")]),
        lambda: store.delete("s1"),
        lambda: store.put_blob("s1", b""),
        lambda: store.put_blob_file("s1", path),
    ):
        with pytest.raises(StoreReadOnly, match="newer jaato"):
            use()
    store.close()


def test_a_newer_store_with_other_tables_says_so(path: Path) -> None:
    """When the newer tables cannot be read either, the message names the version."""
    tamper(path, "ALTER TABLE session RENAME TO conversation")
    tamper(path, "PRAGMA user_version = 9")
    with pytest.raises(StoreError, match=r"newer jaato.*version 9"):
        SqliteStore(path)


def test_opened_for_reading_on_request(path: Path) -> None:
    """`read_only=True` reads, refuses to write, and leaves no trace; without a store it says
    there is none.
    """
    store = SqliteStore(path, read_only=True)
    assert len(sound(store, "s2")) == 10
    with pytest.raises(StoreReadOnly, match="for reading only"):
        store.append([said("s2", 11)])
    store.close()
    assert [file.name for file in path.parent.iterdir()] == ["jaato.db"]
    with pytest.raises(StoreError, match="does not exist"):
        SqliteStore(path.with_name("other.db"), read_only=True)


NEXT = """
ALTER TABLE session ADD COLUMN colour TEXT;
UPDATE session SET colour = 'a;b';
"""


@pytest.mark.spec("C10", "Environment variables and files")
def test_a_migration_makes_a_backup_first(path: Path) -> None:
    """An older store is brought up to date in one go; a copy as it was stands beside it, 0600."""
    opened = open_database(path, steps=[*STEPS, NEXT])
    assert opened.refusal == ""
    assert opened.connection.execute("SELECT DISTINCT colour FROM session").fetchall() == [("a;b",)]
    assert opened.connection.execute("PRAGMA user_version").fetchone() == (len(STEPS) + 1,)
    opened.connection.close()
    (backup,) = path.parent.glob(f"jaato.db.v{len(STEPS)}-*.backup")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    shutil.copy(backup, copy := path.with_name("copy.db"))
    old = SqliteStore(copy)
    assert not old.read_only
    assert len(sound(old, "s1")) == 10
    old.close()
    new = SqliteStore(path)
    assert new.read_only
    assert [text_of(event) for event in sound(new, "s1", 1)] == ["hello"] * 9
    new.close()


def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    """When a step fails, the store is as it was, can be used, and the message names the copy."""
    before = path.read_bytes()
    with pytest.raises(StoreError, match=rf"version {len(STEPS) + 2}.*as it was.*backup"):
        open_database(path, steps=[*STEPS, NEXT, "UPDATE nothing SET x = 1;"])
    assert path.read_bytes()[100:] == before[100:]
    store = SqliteStore(path)
    assert not store.read_only
    assert len(sound(store, "s1")) == 10
    store.close()


@pytest.mark.parametrize("number", range(3))
def test_a_new_store_that_two_make_has_no_backup(tmp_path: Path, number: int) -> None:
    """Wherever another process makes the store while this one is about to, it is not taken for an older one."""
    path = tmp_path / "jaato.db"
    asked: list[str] = []

    def make(statement: str) -> None:
        asked.append(statement)
        if len(asked) == number + 1:
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
                migrate(other, path)

    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.set_trace_callback(make)
        assert migrate(connection, path) is None
        assert version_of(connection) == len(STEPS)
    assert len(asked) > number
    assert [file.name for file in tmp_path.iterdir()] == ["jaato.db"]


@pytest.fixture
def oldest(tmp_path: Path) -> Path:
    """A store of the first version there was, with one session of three events."""
    path = tmp_path / "first" / "jaato.db"
    path.parent.mkdir()
    events = [created("s1"), said("s1", 2), said("s1", 3)]
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, path, [SCHEMA_1])
        connection.execute(
            "INSERT INTO session VALUES (1, 's1', '/w', 'old', NULL, '', '', ?, ?)",
            (events[0].timestamp, events[-1].timestamp),
        )
        for event in events:
            connection.execute(
                "INSERT INTO event VALUES (?, ?, ?)",
                ((1 << SEQ_BITS) + event.seq, event.timestamp, encode(event)),
            )
    return path


@pytest.mark.spec("C10", "Environment variables and files")
def test_a_store_of_the_first_version_is_brought_up_to_date(oldest: Path) -> None:
    """A store made by the first jaato goes on with all it had; a copy of it as it was stands beside it."""
    store = SqliteStore(oldest)
    assert not store.read_only
    store.hold("s1")
    store.append([said("s1", 4)])
    assert [event.seq for event in sound(store, "s1")] == [1, 2, 3, 4]
    store.close()
    (backup,) = oldest.parent.glob("jaato.db.v1-*.backup")
    with contextlib.closing(sqlite3.connect(backup)) as connection:
        assert connection.execute("SELECT count(*) FROM event").fetchone() == (3,)
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_an_older_store_is_read_without_being_changed(oldest: Path) -> None:
    """Opened for reading only, an older store is read as far as its tables are known; where they are not, it says so."""
    before = oldest.read_bytes()
    store = SqliteStore(oldest, read_only=True)
    assert len(sound(store, "s1")) == 3
    assert store.abandoned_sessions() == []
    assert store.holder("s1") is None
    store.close()
    assert oldest.read_bytes() == before
    tamper(oldest, "ALTER TABLE session RENAME TO conversation")
    with pytest.raises(StoreReadOnly, match="older jaato"):
        open_database(oldest, read_only=True)


def test_a_half_made_store_is_completed(path: Path) -> None:
    """A database of ours with version 0 and tables that are in the way is refused, with a copy beside it."""
    tamper(path, "PRAGMA user_version = 0")
    with pytest.raises(StoreError, match="as it was"):
        SqliteStore(path)
    assert len(list(path.parent.glob("jaato.db.v0-*.backup"))) == 1


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    """An empty file is nobody's: it becomes a store, and 0600."""
    path = tmp_path / "jaato.db"
    path.touch(0o644)
    store = SqliteStore(path)
    begin(store, "s1")
    store.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert struct.unpack(">I", path.read_bytes()[68:72]) == (APPLICATION_ID,)
