"""Databases that are broken or foreign."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.storage.logs import created, said, sound, tamper

from jaato.abc.store import Damaged
from jaato.errors import StoreError
from jaato.runtime.session_store import load_session
from jaato.server.sessions.snapshot import StateFold
from jaato.storage.sqlite import SqliteStore
from jaato.tools.redaction.redactor import Redactor


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00" * 200, "cannot be read"),
        (b"", "cannot be read"),
        (b'{"type":"message.user","session_id":"s1"', "cannot be read"),
        (b'{"type":"message.user","session_id":"s1","agent_id":"a","seq":5}', "missing required field"),
        (b'{"type":"from.the.future","session_id":"s1","agent_id":"a","seq":5}', "from.the.future"),
        (b'{"type":"error","session_id":"s1","agent_id":"\xff","seq":5}', "utf-8"),
        (b'{"type":"error","x":' + b"[" * 100_000, "recursion"),
        (b"9" * 5000, "cannot be read"),
        ("text", "str"),
        (17, "int"),
        (
            b'{"type":"plan.cleared","session_id":"s2","agent_id":"a","seq":5,"plan_id":"p"}',
            "event 5 of session s2",
        ),
        (
            b'{"type":"plan.cleared","session_id":"s1","agent_id":"a","seq":7,"plan_id":"p"}',
            "event 7 of session s1",
        ),
    ],
    ids=[
        "nulls",
        "empty",
        "torn",
        "field",
        "type",
        "utf8",
        "deep",
        "digits",
        "text",
        "number",
        "session",
        "seq",
    ],
)
def test_a_bad_record_hides_nothing(path: Path, data: object, reason: str) -> None:
    """One unreadable event is reported with its number and why; all others are read, and the log goes on."""
    tamper(path, "UPDATE event SET data = ? WHERE position = (1 << 32) + 5", data)
    store = SqliteStore(path)
    events = list(store.read("s1"))
    damaged = [event for event in events if isinstance(event, Damaged)]
    assert [event.seq for event in events] == list(range(1, 11))
    assert [(event.session_id, event.seq) for event in damaged] == [("s1", 5)]
    assert reason in damaged[0].reason
    store.append([said("s1", 11)])
    assert len(sound(store, "s2")) == 10
    assert len(store.sessions()) == 2
    store.close()


def test_a_record_too_long_to_read_is_reported(path: Path) -> None:
    """A record of more than 64 MB is damaged: it is reported without being read, and none is written."""
    tamper(path, "UPDATE event SET data = zeroblob(?) WHERE position = (1 << 32) + 5", (64 << 20) + 1)
    store = SqliteStore(path)
    [damaged] = [event for event in store.read("s1") if isinstance(event, Damaged)]
    assert (damaged.seq, damaged.reason) == (5, "it has 67,108,865 bytes, more than the 64 MB that are read")
    with pytest.raises(StoreError, match="at most 64 MB"):
        store.append([said("s2", 11, "x" * (64 << 20))])
    store.append([said("s2", 11)])
    store.close()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            "UPDATE event SET data = x'7b' WHERE position < 2 << 32",
            r"damaged, as are 9 others \(it cannot be read",
        ),
        ("UPDATE event SET data = x'7b' WHERE position = (1 << 32) + 1", r"damaged \(it cannot be read"),
        ("DELETE FROM event WHERE position = (1 << 32) + 1", r"damaged \(it is missing from the log"),
        ("DELETE FROM event WHERE position < 2 << 32", r"damaged \(it is missing from the log"),
    ],
)
def test_a_session_without_its_first_record_is_not_opened(path: Path, damage: str, problem: str) -> None:
    """The error names the file and the session, what is wrong and what to do; nothing changes, and others are opened."""
    tamper(path, damage)
    store = SqliteStore(path)
    before = list(store.read("s1"))
    expected = rf"s1 in {path}.*{problem}.*Nothing was changed.*sessions export s1.*backup"
    with pytest.raises(StoreError, match=expected):
        load_session(store, "s1")
    with pytest.raises(StoreError, match=expected):
        list(StateFold(store, Redactor.none(), "s1"))
    assert list(store.read("s1")) == before
    assert store.holder("s1") is None
    assert load_session(store, "s2").state.session_id == "s2"
    store.close()


def test_missing_records_are_reported(path: Path) -> None:
    """Events that are gone from the middle of a log are reported one by one."""
    tamper(path, "DELETE FROM event WHERE position IN ((1 << 32) + 3, (1 << 32) + 4)")
    store = SqliteStore(path)
    events = list(store.read("s1"))
    assert [event.seq for event in events] == list(range(1, 11))
    assert [event.seq for event in events if isinstance(event, Damaged)] == [3, 4]
    store.close()


def test_a_broken_page_hides_only_its_events(tmp_path: Path) -> None:
    """With a page of the file overwritten, the events elsewhere and the other sessions are still read."""
    path = tmp_path / "jaato.db"
    store = SqliteStore(path)
    for name in ("s1", "s2", "s3"):
        store.create(
            [created(name), *[said(name, seq, f"{name} {seq} " + "x" * 600) for seq in range(2, 101)]]
        )
    store.close()
    whole = path.read_bytes()
    at = whole.index(b"s2 50 ") // 4096 * 4096
    path.write_bytes(whole[:at] + b"\xff" * 4096 + whole[at + 4096 :])
    store = SqliteStore(path)
    assert len(sound(store, "s1")) == len(sound(store, "s3")) == 100
    events = list(store.read("s2"))
    assert [event.seq for event in events] == list(range(1, 101))
    lost = [event.seq for event in events if isinstance(event, Damaged)]
    assert 50 in lost
    assert len(lost) < 12
    assert len(store.sessions()) == 3
    store.close()


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:50])


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:4096])


def text(path: Path) -> None:
    path.write_text("These are my notes.\n" * 100)


def other_program(path: Path) -> None:
    path.unlink()
    tamper(path, "CREATE TABLE notes (text)")


def other_application(path: Path) -> None:
    tamper(path, "PRAGMA application_id = 1")


def without_table(path: Path) -> None:
    tamper(path, "DROP TABLE event")


@pytest.mark.parametrize(
    "spoil", [zeroed, torn, halved, text, other_program, other_application, without_table]
)
@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_not_a_store_is_left_alone(
    path: Path, spoil: Callable[[Path], None], read_only: bool
) -> None:
    """A damaged or foreign file is refused by name and with a remedy, and neither it nor its
    directory changes.
    """
    spoil(path)
    before = hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns
    with pytest.raises(StoreError, match=r"jaato\.db.*(move it away|Move it away)"):
        SqliteStore(path, read_only=read_only)
    assert (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) == before
    assert [file.name for file in path.parent.iterdir()] == ["jaato.db"]
