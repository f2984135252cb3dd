"""Disks that are full, directories that cannot be written, links and other people's files."""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.logs import begin, run, said, sound

from jaato.errors import StoreError, StoreReadOnly
from jaato.storage.errors import database_error
from jaato.storage.sqlite import SqliteStore


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that a user without rights can reach and owns."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
        yield path
        for directory in [path, *path.rglob("*")]:
            if directory.is_dir():
                directory.chmod(0o700)


def test_everything_is_for_its_owner_alone(tmp_path: Path) -> None:
    """The directory is 0700 and every file 0600, while the store is open and whatever the umask."""
    before = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "deep" / "state" / "jaato.db")
        begin(store, "s1")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"jaato.db": 0o600, "jaato.db-wal": 0o600, "jaato.db-shm": 0o600}
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    store.close()


def test_a_readable_store_is_narrowed_and_its_directory_left(tmp_path: Path) -> None:
    """A store that others could read becomes 0600; a directory that was there keeps its mode."""
    tmp_path.chmod(0o755)
    path = tmp_path / "jaato.db"
    SqliteStore(path).close()
    path.chmod(0o644)
    SqliteStore(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_links_are_not_followed(tmp_path: Path, suffix: str) -> None:
    """A symbolic link in the place of the database or of a file beside it is refused, its
    target untouched.
    """
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    path = tmp_path / "jaato.db"
    path.with_name(f"jaato.db{suffix}").symlink_to(target)
    with pytest.raises(StoreError, match="symbolic link"):
        SqliteStore(path)
    assert target.read_bytes() == b"precious"
    path.with_name(f"jaato.db{suffix}").unlink()
    path.with_name(f"jaato.db{suffix}").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="symbolic link"):
        SqliteStore(path)
    assert not (tmp_path / "nowhere").exists()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A directory, a FIFO or a file as the directory is refused by name, at once."""
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    for name in ("directory", "fifo", "file/jaato.db"):
        with pytest.raises(StoreError, match=name.partition("/")[0]):
            SqliteStore(tmp_path / name)


def test_names_with_special_characters(tmp_path: Path) -> None:
    """A path with characters that mean something in a URI is a path like any other."""
    path = tmp_path / "a?mode=ro#b%20c é" / "x?y.db"
    store = SqliteStore(path)
    begin(store, "s1")
    store.close()
    assert [file.name for file in path.parent.iterdir()] == ["x?y.db"]


def test_a_directory_that_cannot_be_written(place: Path) -> None:
    """In a read-only directory a store is read and refuses writes with the remedy; a new one
    cannot be made there.
    """
    run(
        """
dropped()
place = Path(sys.argv[1])
path = place / "state" / "jaato.db"
store = SqliteStore(path)
begin(store, "s1", 20)
digest = store.put_blob("s1", b"data")
store.close()
path.parent.chmod(0o500)
store = SqliteStore(path)
assert store.read_only
assert len(list(store.read("s1"))) == 20 and store.get_blob("s1", digest) == b"data"
assert not any(isinstance(event, Damaged) for event in store.read("s1"))
for write in (lambda: store.append([said("s1", 21)]), lambda: store.put_blob("s1", b"")):
    try:
        write()
        raise SystemExit("written")
    except StoreReadOnly as error:
        assert "check their permissions" in str(error) and str(path) in str(error), error
store.close()
place.chmod(0o500)
try:
    SqliteStore(place / "other" / "jaato.db")
    raise SystemExit("made")
except StoreReadOnly as error:
    assert "ermission" in str(error) and "other" in str(error), error
""",
        place,
    )


def test_a_read_only_directory_after_a_crash(place: Path) -> None:
    """What a killed process left in the write-ahead log is read even where nothing can be written."""
    run(
        """
dropped()
path = Path(sys.argv[1]) / "jaato.db"
if os.fork() == 0:
    begin(SqliteStore(path), "s1", 20)
    os.kill(os.getpid(), 9)
os.wait()
assert path.with_name("jaato.db-wal").stat().st_size > 0
path.parent.chmod(0o500)
store = SqliteStore(path)
assert store.read_only and [event.seq for event in store.read("s1")] == list(range(1, 21))
store.close()
path.parent.chmod(0o700)
store = SqliteStore(path)
store.append([said("s1", 21)])
store.close()
""",
        place,
    )


def test_an_unreadable_store(place: Path) -> None:
    """A store without read permission is refused by name with the remedy."""
    run(
        """
dropped()
path = Path(sys.argv[1]) / "jaato.db"
SqliteStore(path).close()
path.chmod(0)
for read_only in (False, True):
    try:
        SqliteStore(path, read_only=read_only)
        raise SystemExit("opened")
    except StoreReadOnly as error:
        assert "Permission denied" in str(error) and str(path) in str(error), error
""",
        place,
    )


def test_another_users_store_is_refused(place: Path) -> None:
    """A database that belongs to another user is not written to, even where its mode would allow it."""
    if os.geteuid() != 0:
        assert Path("/etc/hostname").stat().st_uid != os.geteuid()
        with pytest.raises(StoreError, match="another user"):
            SqliteStore(Path("/etc/hostname"))
        return
    path = place / "jaato.db"
    path.touch()
    path.chmod(0o666)
    os.chown(path, 1234, 1234)
    run(
        """
dropped()
try:
    SqliteStore(Path(sys.argv[1]))
    raise SystemExit("opened")
except StoreError as error:
    assert "another user" in str(error), error
""",
        path,
    )


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """When a write meets the limit the append says so and stores nothing; all before is read,
    and later it goes on.
    """
    path = tmp_path / "state" / "jaato.db"
    out = run(
        """
store = SqliteStore(Path(sys.argv[1]))
begin(store, "s1")
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
seq, refused = 1, 0
while refused < 3:
    try:
        store.append([said("s1", seq + 1, "x" * 5000), said("s1", seq + 2, "x" * 5000)])
        seq += 2
    except StoreReadOnly as error:
        assert "Check free space" in str(error) and "Nothing was lost" in str(error), error
        refused += 1
assert [event.seq for event in store.read("s1")] == list(range(1, seq + 1))
try:
    store.put_blob("s1", bytes(400_000))
    raise SystemExit("written")
except StoreReadOnly as error:
    assert "Free some space" in str(error), error
assert [path.name for path in store.path.parent.rglob("*") if ".new" in path.name] == []
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.append([said("s1", seq + 1)])
store.close()
print(seq + 1)
""",
        path,
    )
    store = SqliteStore(path)
    assert [event.seq for event in sound(store, "s1")] == list(range(1, int(out) + 1))
    assert int(out) > 10
    store.close()


def test_every_fault_names_the_file_and_a_remedy(tmp_path: Path) -> None:
    """A database that may not grow, or that is locked, raises errors of ours with the file and what to do."""
    path = tmp_path / "jaato.db"
    connection = sqlite3.connect(path, timeout=0)
    connection.execute("CREATE TABLE big (data)")
    connection.execute("PRAGMA max_page_count = 3")
    with pytest.raises(sqlite3.Error) as full:
        connection.execute("INSERT INTO big VALUES (zeroblob(100000))")
    fault = database_error(full.value, path)
    assert isinstance(fault, StoreReadOnly)
    assert (fault.code, fault.retryable) == ("store_full", True)
    assert "disk is full" in str(fault)
    other = sqlite3.connect(path, timeout=0)
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.Error) as busy:
        other.execute("SELECT * FROM big")
    assert "locked by another process" in str(database_error(busy.value, path))
    connection.close()
    other.close()


def test_a_missing_directory_is_made(tmp_path: Path) -> None:
    """Directories above the store that are missing are made."""
    store = SqliteStore(tmp_path / "a" / "b" / "c" / "jaato.db")
    begin(store, "s1")
    store.append([said("s1", 2)])
    store.close()
