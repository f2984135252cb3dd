"""Big things beside the log."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.logs import begin, run

from jaato.errors import SessionNotFound, StoreError
from jaato.storage.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "state" / "jaato.db")
    begin(store, "s1")
    begin(store, "s2")
    yield store
    store.close()


def files(store: SqliteStore) -> list[Path]:
    """Every file under the directory of blobs."""
    return [path for path in (store.path.parent / "blobs").rglob("*") if path.is_file()]


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 5000])
def test_bytes_come_back(store: SqliteStore, data: bytes) -> None:
    """A blob is named by its SHA-256 and read whole or in ranges, which end where it ends."""
    digest = store.put_blob("s1", data)
    assert digest == hashlib.sha256(data).hexdigest()
    assert store.get_blob("s1", digest) == data
    assert store.blob_size("s1", digest) == len(data)
    assert store.get_blob("s1", digest, 10, 5) == data[10:15]
    assert store.get_blob("s1", digest, len(data) - 1 if data else 0) == data[-1:]
    assert store.get_blob("s1", digest, len(data) + 5, 10) == b""
    assert store.get_blob("s1", digest, 0, 0) == b""


def test_stored_once_and_private(store: SqliteStore) -> None:
    """The same bytes of two sessions are one file, 0600 in directories 0700, and no half-
    written one stays.
    """
    digest = store.put_blob("s1", b"data")
    assert store.put_blob("s2", b"data") == store.put_blob("s1", b"data") == digest
    (file,) = files(store)
    assert (file.parent.name, file.name) == (digest[:2], digest)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for directory in (file.parent, file.parent.parent, store.path.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_another_session_cannot_read_it(store: SqliteStore) -> None:
    """Knowing the digest of another session's blob gives neither its bytes nor its size."""
    digest = store.put_blob("s1", b"data")
    for use in (store.get_blob, store.blob_size):
        with pytest.raises(StoreError, match="s2 has no blob"):
            use("s2", digest)


@pytest.mark.parametrize(
    "digest", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n", "\ud800" * 64]
)
def test_only_digests_are_names(store: SqliteStore, digest: str) -> None:
    """What is no digest is refused before any path is made of it."""
    with pytest.raises(StoreError, match="is not the name of a blob"):
        store.get_blob("s1", digest)


def test_a_file_is_kept_as_a_blob(store: SqliteStore, tmp_path: Path) -> None:
    """`put_blob_file` copies a file and leaves it; a link, a FIFO, a directory and nothing are
    refused by name.
    """
    source = tmp_path / "out.txt"
    source.write_bytes(b"line\n" * 500_000)
    digest = store.put_blob_file("s1", source)
    assert digest == hashlib.sha256(source.read_bytes()).hexdigest()
    assert store.get_blob("s1", digest, 5, 5) == b"line\n"
    assert store.put_blob("s2", source.read_bytes()) == digest
    (tmp_path / "link").symlink_to(source)
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo", "missing", "state"):
        with pytest.raises(StoreError, match=name):
            store.put_blob_file("s1", tmp_path / name)
    with pytest.raises(SessionNotFound):
        store.put_blob_file("s9", source)
    assert len(files(store)) == 1


def test_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    """Keeping a file of a quarter of a gigabyte and reading its end stays within 100 MB of address
    space more than at rest.
    """
    source = tmp_path / "big"
    with source.open("wb") as file:
        file.truncate(256 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"the end")
    out = run(
        """
store = SqliteStore(Path(sys.argv[1]) / "jaato.db")
begin(store, "s1")
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
digest = store.put_blob_file("s1", Path(sys.argv[2]))
print(store.get_blob("s1", digest, store.blob_size("s1", digest) - 7).decode())
store.delete("s1")
store.close()
""",
        tmp_path / "state",
        source,
    )
    assert out == "the end\n"


def test_damage_is_found_and_healed(store: SqliteStore) -> None:
    """A changed or shortened blob is reported by its path; keeping the same bytes again puts a
    short one right.
    """
    digest = store.put_blob("s1", b"12345")
    (file,) = files(store)
    file.write_bytes(b"1234x")
    with pytest.raises(StoreError, match=f"{digest} is damaged"):
        store.get_blob("s1", digest)
    file.write_bytes(b"123")
    with pytest.raises(StoreError, match="damaged"):
        store.get_blob("s1", digest, 2, 2)
    store.put_blob("s1", b"12345")
    assert store.get_blob("s1", digest) == b"12345"
    file.unlink()
    with pytest.raises(StoreError, match="is gone"):
        store.get_blob("s1", digest)
    file.symlink_to("/etc/hostname")
    with pytest.raises(StoreError, match="symbolic link"):
        store.get_blob("s1", digest)


def test_blobs_go_with_their_last_session(store: SqliteStore) -> None:
    """Deleting a session removes its blobs but those another session refers to."""
    store.put_blob("s1", b"mine")
    shared = store.put_blob("s1", b"shared")
    store.put_blob("s2", b"shared")
    store.delete("s1")
    assert [file.name for file in files(store)] == [shared]
    assert store.get_blob("s2", shared) == b"shared"
    store.delete("s2")
    assert files(store) == []


def test_what_a_killed_process_left_goes_too(store: SqliteStore) -> None:
    """A half-written file older than a day is swept with the next delete; a young one may still
    be written.
    """
    store.put_blob("s1", b"x")
    old, young = [store.path.parent / "blobs" / f".new-{name}" for name in ("old", "young")]
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    store.delete("s2")
    assert (old.exists(), young.exists()) == (False, True)


def test_a_link_instead_of_the_directory_is_refused(tmp_path: Path) -> None:
    """Blobs are not written through a symbolic link."""
    (tmp_path / "elsewhere").mkdir()
    store = SqliteStore(tmp_path / "jaato.db")
    begin(store, "s1")
    (tmp_path / "blobs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="blobs is not a directory"):
        store.put_blob("s1", b"x")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    store.close()


def test_reading_a_session_opens_no_blob(tmp_path: Path) -> None:
    """A session with large blobs is opened, listed and read by a process that reads far less
    than they hold.
    """
    out = run(
        """
path = Path(sys.argv[1]) / "jaato.db"
store = SqliteStore(path)
begin(store, "s1", 100)
for index in range(4):
    store.put_blob("s1", bytes([index]) * (8 << 20))
store.close()
def read():
    return int(next(line for line in open("/proc/self/io") if line.startswith("rchar")).split()[1])
before = read()
store = SqliteStore(path)
assert len(list(store.read("s1"))) == 100 and store.sessions()[0].id == "s1"
print(read() - before)
store.close()
""",
        tmp_path / "state",
    )
    assert int(out) < 1 << 20
