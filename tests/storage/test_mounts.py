"""Disks that are really full, mounts that are really read-only, clocks that jump."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.storage.logs import PRELUDE, SOURCE, begin, created, said, sound

from jaato.storage.sqlite import SqliteStore

MOUNT = """
import subprocess
place = Path(sys.argv[1])
def mount(*arguments):
    done = subprocess.run(["mount", *arguments], capture_output=True)
    if done.returncode:
        print("no mounts here", flush=True)
        raise SystemExit(0)
"""


def apart(code: str, place: Path) -> None:
    """Run code in a process that may mount things nobody else sees; skip where the system does not allow that."""
    command = ["unshare", "-Urm", sys.executable, "-c", PRELUDE + MOUNT + code, str(place)]
    environment = {
        "PYTHONPATH": f"{SOURCE}:{Path(__file__).parents[2]}",
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
    }
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if done.stdout == "no mounts here\n" or done.stderr.startswith("unshare:"):
        pytest.skip("this user may not mount anything")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_full_disk(tmp_path: Path) -> None:
    """On a disk that is full appends, leases, results, forks, imports and searches say so and store nothing; all before is
    read, held sessions are let go, and once there is room it goes on."""
    apart(
        """
mount("-t", "tmpfs", "-o", "size=3m", "none", str(place))
path = place / "jaato.db"
store = SqliteStore(path)
store.hold("s1")
begin(store, "s1", 30)
(place / "ballast").write_bytes(bytes(1_000_000))
fill = 0
try:
    while True:
        store.append([said("s1", store.last_seq("s1") + 1, "needle " + "x" * 20_000)])
        fill += 1
except StoreReadOnly as error:
    assert "Free some space" in str(error) or "Check free space" in str(error), error
last = store.last_seq("s1")
assert fill > 10 and last == 30 + fill
assert [event.seq for event in store.read("s1")] == list(range(1, last + 1))
refused = 0
for use in (
    lambda: store.put_blob("s1", bytes(1_500_000)),
    lambda: store.fork("s1"),
    lambda: store.search("needle"),
):
    try:
        use()
    except StoreError as error:
        assert "space" in str(error), error
        refused += 1
assert refused >= 2, refused
store.release("s1")
assert len(store.sessions()) == 1
(place / "ballast").unlink()
store.hold("s1")
store.append([said("s1", last + 1)])
assert len(store.search("needle").found) == 1
assert [path.name for path in place.rglob(".new-*")] == []
store.close()
print("done")
""",
        tmp_path,
    )


def test_a_read_only_mount(tmp_path: Path) -> None:
    """On a read-only mount sessions are listed, read and searched; whatever writes says why it cannot, and nobody needs a
    lease to look."""
    store = SqliteStore(tmp_path / "jaato.db")
    begin(store, "s1", 20)
    store.close()
    apart(
        """
mount("--bind", str(place), str(place))
mount("-o", "remount,bind,ro", str(place))
store = SqliteStore(place / "jaato.db")
assert store.read_only
assert [row.id for row in store.sessions()] == ["s1"]
assert len(list(store.read("s1"))) == 20
assert [hit.row.id for hit in store.search("hello").found] == ["s1"]
assert store.abandoned_sessions() == [] and store.holder("s1") is None
assert store.vacuum(dry_run=True).removed == []
for write in (
    lambda: store.hold("s1"),
    lambda: store.clear_abandoned("s1"),
    lambda: store.append([said("s1", 21)]),
    lambda: store.fork("s1"),
    lambda: store.delete("s1"),
    lambda: store.import_bundle(place / "x", place),
    store.vacuum,
):
    try:
        write()
        raise SystemExit("written")
    except StoreReadOnly as error:
        assert "jaato.db" in str(error), error
store.close()
print("done")
""",
        tmp_path,
    )


def test_a_clock_that_jumps_loses_nothing(tmp_path: Path) -> None:
    """Events whose times go back, by minutes or by years, are in the log in the order they came; the session stands where
    its newest time puts it, pages list each session once, and a search finds all of it."""
    store = SqliteStore(tmp_path / "jaato.db")
    for index in range(6):
        store.create([created(f"s{index}", at=f"2026-01-01T00:00:0{index}.000Z")])
    store.hold("s1")
    times = ("2026-06-01", "2020-01-01", "2031-01-01", "1969-12-31", "2026-06-02")
    for seq, day in enumerate(times, 2):
        store.append([said("s1", seq, f"word{seq}", at=f"{day}T00:00:00.000Z")])
        row = next(row for row in store.sessions() if row.id == "s1")
        assert row.updated_at == max(f"{day}T00:00:00.000Z" for day in times[: seq - 1])
    assert [event.seq for event in sound(store, "s1")] == [1, 2, 3, 4, 5, 6]
    listed: list[str] = []
    before = None
    while page := store.sessions(limit=1, before=before):
        listed += [row.id for row in page]
        before = page[-1].cursor
    assert listed == ["s1", "s5", "s4", "s3", "s2", "s0"]
    for seq in range(2, 7):
        assert [hit.seq for hit in store.search(f"word{seq}").found] == [seq]
    store.close()
