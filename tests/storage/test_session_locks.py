"""One writer per session, whoever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jaato.errors import SessionBusy, StoreError
from jaato.storage.leases import SessionLocks, try_lock

HOLDER = """
import sys, time
from pathlib import Path
from jaato.storage.leases import SessionLocks
holds = SessionLocks(Path(sys.argv[1]))
holds.take("s1")
print("held", flush=True)
time.sleep(60)
"""


def test_a_held_session_cannot_be_held_again(tmp_path: Path) -> None:
    """Not by the same process, not through another store, and again after it was let go."""
    ours, theirs = SessionLocks(tmp_path / "locks"), SessionLocks(tmp_path / "locks")
    ours.take("s1")
    with pytest.raises(SessionBusy, match="in this process"):
        ours.take("s1")
    with pytest.raises(SessionBusy, match="another process"):
        theirs.take("s1")
    theirs.take("../s2")
    ours.release("s1")
    theirs.take("s1")
    theirs.release_all()
    assert list((tmp_path / "locks").iterdir()) == []


def test_the_hold_dies_with_its_process(tmp_path: Path) -> None:
    """The refusal names the holder; after its kill -9 the session is free at once."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "locks")], stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holds = SessionLocks(tmp_path / "locks")
        with pytest.raises(SessionBusy, match=f"another process \\({holder.pid}\\)"):
            holds.take("s1")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holds.take("s1")
        holds.release_all()


def test_takers_that_race_never_hold_together(tmp_path: Path) -> None:
    """Taking and letting go in many threads at once, there is never more than one holder."""
    inside: list[int] = []
    most: list[int] = []

    def work(_n: int) -> None:
        holds = SessionLocks(tmp_path / "locks")
        for _ in range(80):
            try:
                holds.take("s1")
            except SessionBusy:
                continue
            inside.append(1)
            most.append(len(inside))
            inside.pop()
            holds.release("s1")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most
    assert max(most) == 1


def test_a_file_that_cannot_be_locked_is_not_taken_for_a_locked_one(tmp_path: Path) -> None:
    """As on a file system without locks: the error says so, instead of another process that there is not."""
    (tmp_path / "file").touch()
    descriptor = os.open(tmp_path / "file", os.O_PATH)
    try:
        with pytest.raises(
            StoreError, match=r"Files cannot be locked here: Bad file descriptor\. Keep the store"
        ):
            try_lock(descriptor)
    finally:
        os.close(descriptor)
