"""Processes that die, and processes that want the same session."""

from __future__ import annotations

import random
import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.storage.logs import begin, sound, start, text_of

from jaato.storage.sqlite import SqliteStore

ENDLESS = """
store = SqliteStore(Path(sys.argv[1]))
rest = 0
seq = store.last_seq("s1")
while True:
    seq += 1
    if seq % 3 == 0:
        digest = store.put_blob("s1", str(seq).encode() * 1000)
        store.append([said("s1", seq, f"{seq} blob {digest}")])
    elif seq % 3 == 1:
        store.append([said("s1", seq, f"{seq} pair"), said("s1", seq + 1, f"{seq + 1} pair")])
        seq += 1
    else:
        store.append([said("s1", seq, f"{seq} " + "x" * (seq * 37 % 9000))])
    os.write(1, b"%d\\n" % seq)
"""

RIVAL = """
store = SqliteStore(Path(sys.argv[1]))
tag, won = sys.argv[2], []
print("ready", flush=True)
sys.stdin.readline()
while len(won) < 150:
    seq = store.last_seq("s1") + 1
    try:
        store.append([said("s1", seq, tag)] if seq % 2 else [said("s1", seq, tag), said("s1", seq + 1, tag)])
        won += [seq] if seq % 2 else [seq, seq + 1]
    except SessionBusy as error:
        assert f"event {seq} already" in str(error)
print(*won)
store.close()
"""


@pytest.mark.slow
@pytest.mark.spec("C8", "Server and events")
def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Killed at any moment of an endless loop of appends, a session has every acknowledged
    event, each once, no gap.
    """
    path = tmp_path / "state" / "jaato.db"
    store = SqliteStore(path)
    begin(store, "s1")
    store.close()
    chance = random.Random(7)
    for _ in range(9):
        child = start(ENDLESS, path)
        assert child.stdout is not None
        for _ in range(chance.randrange(1, 300)):
            assert child.stdout.readline().endswith("\n")
        child.send_signal(signal.SIGKILL)
        rest, errors = child.communicate()
        assert child.returncode == -signal.SIGKILL, errors
        lines = [line for line in rest.split("\n")[:-1] if line]
        store = SqliteStore(path)
        events = sound(store, "s1")
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert len(events) >= (int(lines[-1]) if lines else 2)
        texts = [text_of(event).split() for event in events[1:]]
        assert [int(text[0]) for text in texts] == list(range(2, len(events) + 1))
        pairs = [index for index, text in enumerate(texts) if text[1] == "pair"]
        assert len(pairs) % 2 == 0
        for text in texts:
            if text[1] == "blob":
                assert store.get_blob("s1", text[2]) == text[0].encode() * 1000
        store.close()
        assert not list(path.parent.glob("jaato.db-*"))


@pytest.mark.slow
def test_of_two_processes_one_wins_each_event(tmp_path: Path) -> None:
    """Two processes that append to one session at once: each number goes to exactly one, who
    knows; the other is told.
    """
    path = tmp_path / "jaato.db"
    store = SqliteStore(path)
    begin(store, "s1")
    children = {tag: start(RIVAL, path, tag) for tag in ("left", "right")}
    for child in children.values():
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children.values():
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    read_meanwhile = 0
    while any(child.poll() is None for child in children.values()):
        seqs = [event.seq for event in sound(store, "s1")]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) >= read_meanwhile
        read_meanwhile = len(seqs)
    winners: dict[int, str] = {}
    for tag, child in children.items():
        out, errors = child.communicate()
        assert child.returncode == 0, errors
        won = [int(text) for text in out.split()]
        assert not winners.keys() & set(won)
        winners |= dict.fromkeys(won, tag)
    events = sound(store, "s1", after_seq=1)
    assert {event.seq: text_of(event) for event in events} == winners
    assert min(Counter(winners.values()).values()) >= 150
    store.close()


@pytest.mark.slow
def test_processes_that_make_the_store_together(tmp_path: Path) -> None:
    """Several processes that open a store that does not exist yet all get it, and none loses a session."""
    path = tmp_path / "new" / "jaato.db"
    code = """
print("ready", flush=True)
sys.stdin.readline()
store = SqliteStore(Path(sys.argv[1]))
begin(store, sys.argv[2], 3)
store.close()
"""
    children = [start(code, path, f"s{index}") for index in range(4)]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        _, errors = child.communicate()
        assert child.returncode == 0, errors
    store = SqliteStore(path)
    assert {row.id: row.last_seq for row in store.sessions()} == {f"s{index}": 3 for index in range(4)}
    store.close()


def test_a_blob_swept_by_one_and_kept_by_another(tmp_path: Path) -> None:
    """While one process deletes sessions, another that keeps the same bytes never loses them."""
    path = tmp_path / "jaato.db"
    store = SqliteStore(path)
    begin(store, "s1")
    child = start(
        """
store = SqliteStore(Path(sys.argv[1]))
for index in range(60):
    begin(store, f"t{index}")
    store.put_blob(f"t{index}", b"same")
    store.delete(f"t{index}")
store.close()
""",
        path,
    )
    count = 0
    while child.poll() is None:
        count += 1
        begin(store, f"u{count}")
        digest = store.put_blob(f"u{count}", b"same")
        assert store.get_blob(f"u{count}", digest) == b"same"
        store.delete(f"u{count}")
    _, errors = child.communicate()
    assert child.returncode == 0, errors
    assert count > 0
    store.close()
