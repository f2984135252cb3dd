"""Leases: one writer per session, known by name, replaced when it is dead, and refused when it comes too late."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.storage.logs import begin, said, sound, start

from jaato.errors import SessionBusy
from jaato.storage.sqlite import SqliteStore

HOLDER = """
store = SqliteStore(Path(sys.argv[1]), owner="jaato serve")
for session_id in sys.argv[2:]:
    store.hold(session_id)
print("held", flush=True)
for line in sys.stdin:
    try:
        store.append([said(sys.argv[2], store.last_seq(sys.argv[2]) + 1, line.strip())])
        print("written", flush=True)
    except SessionBusy as error:
        print("refused:", str(error).replace("\\n", " "), flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of three sessions."""
    path = tmp_path / "jaato.db"
    store = SqliteStore(path)
    for session_id in ("s1", "s2", "s3"):
        begin(store, session_id, 2)
    store.close()
    return path


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """That store, open here."""
    store = SqliteStore(path, owner="jaato run")
    yield store
    store.close()


def holding(path: Path, *sessions: str) -> subprocess.Popen[str]:
    """A process that holds sessions, and appends each line it is given to the first of them."""
    process = start(HOLDER, path, *sessions)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def told(process: subprocess.Popen[str], text: str) -> str:
    """What comes of having such a process append this."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def ended(process: subprocess.Popen[str], how: signal.Signals) -> None:
    """End a process this way, and wait for that."""
    process.send_signal(how)
    process.communicate()


@pytest.mark.spec("C10", "Environment variables and files")
def test_who_wants_a_held_session_is_told_who_has_it_and_reads_on(path: Path, store: SqliteStore) -> None:
    """The refusal names program, process and machine; the session is read, and followed, as the holder writes it."""
    process = holding(path, "s1")
    try:
        with pytest.raises(
            SessionBusy, match=f"jaato serve \\({process.pid} on {socket.gethostname()}, since 2"
        ):
            store.hold("s1")
        holder = store.holder("s1")
        assert holder is not None
        assert (holder.what, holder.pid) == ("jaato serve", process.pid)
        assert len(sound(store, "s1")) == 2
        assert told(process, "more") == "written"
        assert [event.seq for event in sound(store, "s1", after_seq=2)] == [3]
        with pytest.raises(SessionBusy, match="jaato serve"):
            store.append([said("s1", 4)])
        with pytest.raises(SessionBusy, match="jaato serve"):
            store.delete("s1")
        store.hold("s2")
        store.append([said("s2", 3)])
    finally:
        ended(process, signal.SIGKILL)


@pytest.mark.spec("C8", "Server and events")
def test_a_killed_holder_is_replaced_at_once(path: Path, store: SqliteStore) -> None:
    """After a kill -9 of the holder the next one has the session without waiting, under a higher number."""
    before = store.lease("s1", "first")
    store.release("s1")
    process = holding(path, "s1")
    assert told(process, "last words") == "written"
    ended(process, signal.SIGKILL)
    assert store.holder("s1") is None
    fence = store.lease("s1", "jaato chat")
    assert fence > before + 1
    holder = store.holder("s1")
    assert holder is not None
    assert (holder.what, holder.pid, holder.fence) == ("jaato chat", os.getpid(), fence)
    store.append([said("s1", 4)])
    assert len(sound(store, "s1")) == 4


def test_a_holder_that_was_replaced_cannot_write(path: Path, store: SqliteStore) -> None:
    """A holder that stands still while its lock is lost and another one takes over is refused when it wakes, with the
    name of that one; nothing of what it wanted to write is in the log, and its end takes nothing from the new holder."""
    process = holding(path, "s1")
    try:
        assert told(process, "one") == "written"
        process.send_signal(signal.SIGSTOP)
        for lock in (path.parent / "locks").iterdir():
            lock.unlink()
        store.hold("s1")
        process.send_signal(signal.SIGCONT)
        said_so = told(process, "two")
        assert said_so.startswith("refused: Session s1 was taken over by another process: jaato run")
        store.append([said("s1", 4, "mine")])
        assert told(process, "three").startswith("refused")
        assert [event.seq for event in sound(store, "s1")] == [1, 2, 3, 4]
    finally:
        ended(process, signal.SIGINT)
    store.append([said("s1", 5, "mine")])
    with closing(SqliteStore(path)) as other, pytest.raises(SessionBusy):
        other.hold("s1")


@pytest.mark.parametrize("count", [1, 3, 9])
def test_every_kind_of_append_is_checked(path: Path, store: SqliteStore, count: int) -> None:
    """One event, some and many, and those that change the session's row, are all refused after a take-over."""
    stale = SqliteStore(path)
    stale.hold("s1")
    stale.append([said("s1", 3, at="2126-01-01T00:00:00.000Z")])
    for lock in (path.parent / "locks").iterdir():
        lock.unlink()
    store.hold("s1")
    for at in ("2126-01-01T00:00:00.000Z", "2126-01-01T00:00:01.000Z"):
        with pytest.raises(SessionBusy, match="taken over"):
            stale.append([said("s1", 4 + index, at=at) for index in range(count)])
    assert store.last_seq("s1") == 3
    stale.release("s1")
    with pytest.raises(SessionBusy, match="only the holder"):
        stale.append([said("s1", 4)])
    store.append([said("s1", 4)])
    stale.close()
    assert store.holder("s1") is not None


def test_a_lease_comes_before_its_session(path: Path, store: SqliteStore) -> None:
    """A new session is begun under the lease that was taken for it; not under one that was lost meanwhile."""
    store.hold("new")
    begin(store, "new", 12)
    store.append([said("new", 13)])
    stale = SqliteStore(path)
    stale.hold("other")
    for lock in (path.parent / "locks").iterdir():
        lock.unlink()
    store.hold("other")
    with pytest.raises(SessionBusy, match="taken over"):
        begin(stale, "other", 3)
    begin(store, "other", 3)
    stale.close()


@pytest.mark.spec("C8", "Server and events")
def test_what_was_open_when_a_process_died_is_known(path: Path, store: SqliteStore) -> None:
    """After a kill -9 the sessions that process had open are listed, those of the living and those let go are not; each
    until it is taken up or settled."""
    dead, alive = holding(path, "s1", "s2", "gone"), holding(path, "s3")
    try:
        store.hold("mine")
        assert store.abandoned_sessions() == []
        ended(dead, signal.SIGKILL)
        assert store.abandoned_sessions() == ["s1", "s2"]
        store.hold("s1")
        assert store.abandoned_sessions() == ["s2"]
        store.release("s1")
        store.clear_abandoned("s2")
        assert store.abandoned_sessions() == []
        with pytest.raises(SessionBusy):
            store.clear_abandoned("s3")
    finally:
        ended(alive, signal.SIGKILL)
    assert store.abandoned_sessions() == ["s3"]
    store.append([said("s3", 3)])
    assert store.abandoned_sessions() == []


def test_whoever_closes_leaves_nothing(path: Path) -> None:
    """A store that is closed, or whose process ends by itself, leaves no lease and no lock file behind."""
    store = SqliteStore(path)
    store.hold("s1")
    store.hold("s2")
    store.close()
    store.close()
    other = SqliteStore(path)
    assert other.abandoned_sessions() == []
    assert other.holder("s1") is None
    other.close()
    assert list((path.parent / "locks").iterdir()) == []
