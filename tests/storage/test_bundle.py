"""Sessions in a file of their own: out of one store, into another, and nothing but that."""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.storage.bundles import SECRET, packed, whole
from tests.storage.logs import begin, renamed, sound

from jaato.abc.store import Damaged
from jaato.agent.event_redaction import redact_file
from jaato.errors import StoreError
from jaato.protocol.codec import encode
from jaato.protocol.events import PermissionRevoked, SessionCreated, SessionUpdated
from jaato.storage.bundle_export import write_bundle
from jaato.storage.bundle_import import is_bundle
from jaato.storage.sqlite import SqliteStore
from jaato.tools.redaction.redactor import Redactor


def test_a_session_goes_from_one_store_to_another(
    store: SqliteStore, other: SqliteStore, tmp_path: Path
) -> None:
    """What comes out of a bundle is what went in: events, name and blobs, under a new id and in the workspace that was
    named; what it was allowed elsewhere it is not allowed here."""
    whole(store, "s1")
    path = packed(store, tmp_path / "trip.jaato")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert is_bundle(path)
    made = other.import_bundle(path, tmp_path)
    row = other.sessions()[0]
    assert (row.id, row.name, row.workspace, row.model) == (made, "trip", str(tmp_path), "m1")
    events = sound(other, made)
    assert isinstance(events[0], SessionCreated)
    assert [event.timestamp for event in events[1:5]] == [
        event.timestamp for event in sound(store, "s1")[1:5]
    ]
    assert [type(event).__name__ for event in events[4:]] == [
        "PermissionGranted",
        "PermissionRevoked",
        "SessionUpdated",
    ]
    assert isinstance(events[5], PermissionRevoked)
    assert events[5].grant_id == "g1"
    digest = hashlib.sha256(b"line\n" * 5000 + SECRET.encode()).hexdigest()
    assert other.get_blob(made, digest).endswith(SECRET.encode())
    again = other.import_bundle(path, tmp_path, "second")
    assert again != made
    assert [row.name for row in other.sessions()] == ["second", "trip"]
    other.delete(made)
    assert other.get_blob(again, digest)


def test_a_bundle_brings_no_mode(store: SqliteStore, other: SqliteStore, tmp_path: Path) -> None:
    """What ran without a question elsewhere asks here: the mode that a stranger's log claims is left out."""
    whole(store, "s1")
    store.append([SessionUpdated(session_id="s1", agent_id="a1", seq=store.last_seq("s1") + 1, mode="auto")])
    made = other.import_bundle(packed(store, tmp_path / "trip.jaato"), tmp_path)
    assert [event.mode for event in sound(store, "s1") if isinstance(event, SessionUpdated)][-1] == "auto"
    assert {event.mode for event in sound(other, made) if isinstance(event, SessionUpdated)} == {None}


def test_a_bundle_has_no_secrets(store: SqliteStore, other: SqliteStore, tmp_path: Path) -> None:
    """What is secret is masked in the events and in the blobs; a masked blob has the name of what it holds now, which the
    events know."""
    whole(store, "s1")
    path = packed(store, tmp_path / "trip.jaato", Redactor({"KEY": SECRET}))
    with zipfile.ZipFile(path) as archive:
        assert all(SECRET.encode() not in archive.read(name) for name in archive.namelist())
        (blob,) = [name for name in archive.namelist() if name.startswith("blobs/")]
        assert hashlib.sha256(archive.read(blob)).hexdigest() == blob.removeprefix("blobs/")
    made = other.import_bundle(path, tmp_path)
    assert other.get_blob(made, blob.removeprefix("blobs/")).startswith(b"line\n")
    assert blob.removeprefix("blobs/") in encode(sound(other, made)[2]).decode()


def test_damage_travels_as_damage(store: SqliteStore, other: SqliteStore, tmp_path: Path) -> None:
    """A record that cannot be read is one in the copy too, a blob that is lost is named as missing, and the rest is
    there."""
    whole(store, "s1")
    for blob in (store.path.parent / "blobs").rglob("?" * 64):
        blob.write_bytes(b"broken" * 4000)
    with store._guard as connection:
        connection.execute("UPDATE event SET data = x'00' WHERE position = (1 << 32) + 4")
    path = packed(store, tmp_path / "trip.jaato")
    with zipfile.ZipFile(path) as archive:
        assert len(json.loads(archive.read("manifest.json"))["missing"]) == 1
    made = other.import_bundle(path, tmp_path)
    assert [isinstance(event, Damaged) for event in other.read(made)] == [False] * 3 + [True] + [False] * 3


def test_a_bundle_that_cannot_be_written_leaves_nothing(store: SqliteStore, tmp_path: Path) -> None:
    """Where there is no place for it the export says so; a bundle that was there before stays."""
    begin(store, "s1", 3)
    store.append([renamed("s1", 4, name="n")])
    with pytest.raises(StoreError, match="nowhere"):
        packed(store, tmp_path / "nowhere" / "trip.jaato")
    target = tmp_path / "trip.jaato"
    target.write_bytes(b"before")

    def broken() -> Iterator[Any]:
        yield from store.read("s1")
        raise StoreError("The disk is gone.")

    with pytest.raises(StoreError, match="disk is gone"):
        write_bundle(store, "s1", broken, lambda path: redact_file(path, Redactor.none()), target)
    assert target.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["trip.jaato"]
