"""Bundles that nobody has made well: each is refused, with the reason, and nothing comes of it."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.storage.bundles import packed, whole
from tests.storage.logs import said

from jaato.errors import StoreError
from jaato.protocol.codec import encode
from jaato.storage.sqlite import SqliteStore

Parts = dict[str, bytes]


def rebuilt(path: Path, change: Callable[[Parts], None], *, honest: bool = True) -> None:
    """Write a bundle again with other parts; `honest`: its manifest fits them."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    if honest:
        manifest = json.loads(parts["manifest.json"])
        manifest["events"] = parts["events.jsonl"].count(b"\n")
        manifest["events_sha256"] = hashlib.sha256(parts["events.jsonl"]).hexdigest()
        parts["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def lines(change: Callable[[list[bytes]], Any]) -> Callable[[Parts], None]:
    """Change the events."""

    def work(parts: Parts) -> None:
        rows = parts["events.jsonl"].splitlines()
        change(rows)
        parts["events.jsonl"] = b"".join([row + b"\n" for row in rows])

    return work


def said_of_manifest(**fields: Any) -> Callable[[Parts], None]:
    """Change the manifest."""

    def work(parts: Parts) -> None:
        parts["manifest.json"] = json.dumps({**json.loads(parts["manifest.json"]), **fields}).encode()

    return work


def put(name: str, data: bytes) -> Callable[[Parts], None]:
    """Another part."""
    return lambda parts: parts.__setitem__(name, data)


def dropped(name: str) -> Callable[[Parts], None]:
    """A part less."""

    def work(parts: Parts) -> None:
        del parts[name]

    return work


DEEP = (
    b'{"type":"message.user","session_id":"s1","agent_id":"a","seq":3,"turn_id":"t","message":'
    + b"[" * 90_000
)

BAD: dict[str, tuple[Callable[[Parts], None], str]] = {
    "newer": (said_of_manifest(version=2), "newer jaato.*version 2"),
    "older": (said_of_manifest(version=0), "something else"),
    "foreign": (said_of_manifest(format="x"), "something else"),
    "count": (said_of_manifest(events=1 << 40), "cannot be read|those of its manifest"),
    "kind": (said_of_manifest(events="many"), "cannot be read"),
    "manifest": (put("manifest.json", b"[" * 100_000), "cannot be read"),
    "empty manifest": (put("manifest.json", b""), "cannot be read"),
    "no manifest": (dropped("manifest.json"), "no manifest"),
    "no events": (dropped("events.jsonl"), "no manifest, or no events"),
    "climbing": (put("../../evil", b"x"), "which no bundle does"),
    "absolute": (put("/etc/passwd", b"x"), "which no bundle does"),
    "climbing blob": (put("blobs/../" + "a" * 64, b"x"), "which no bundle does"),
    "other blob": (put("blobs/" + "a" * 64, b"x"), "not those of its manifest"),
    "no blob": (said_of_manifest(blobs={}), "not those of its manifest"),
    "null": (put("blobs/" + "a" * 64 + "\0", b"x"), "which no bundle does|not those"),
}
BAD_LINES: dict[str, tuple[Callable[[list[bytes]], Any], str]] = {
    "none": (lambda rows: rows.clear(), "no event|not those"),
    "headless": (lambda rows: rows.pop(0), "beginning of a session|is not event"),
    "gap": (lambda rows: rows.pop(1), "line 2 is not event 2"),
    "twice": (lambda rows: rows.insert(2, rows[1]), "line 3 is not event 3"),
    "torn": (lambda rows: rows.__setitem__(2, rows[2][:30]), "line 3 is no event"),
    "deep": (lambda rows: rows.__setitem__(2, DEEP), "line 3 is no event"),
    "unknown": (
        lambda rows: rows.__setitem__(2, b'{"type":"from.the.future","seq":3}'),
        "line 3 is no event",
    ),
    "foreign": (lambda rows: rows.__setitem__(2, encode(said("s2", 3))), "line 3 is not event 3"),
    "passing": (
        lambda rows: rows.__setitem__(
            2, b'{"type":"system.message","session_id":"s1","agent_id":"a1","seq":3,"text":"x"}'
        ),
        "line 3 is not event 3",
    ),
    "number": (
        lambda rows: rows.__setitem__(
            2,
            b'{"type":"tool.call_start","session_id":"s1","agent_id":"a1","seq":3,"call_id":"c","tool":"t",'
            b'"arguments":{"n":1' + b"0" * 400 + b"}}",
        ),
        "line 3",
    ),
    "nested": (
        lambda rows: rows.__setitem__(
            2,
            b'{"type":"tool.call_start","session_id":"s1","agent_id":"a1","seq":3,"call_id":"c","tool":"t",'
            b'"arguments":{"n":' + b"[" * 500 + b"]" * 500 + b"}}",
        ),
        "line 3.*nested",
    ),
}


def nothing_came_of_it(other: SqliteStore, path: Path, why: str) -> None:
    """The import is refused with this reason, and the store is as it was."""
    with pytest.raises(StoreError, match=why):
        other.import_bundle(path, path.parent)
    assert other.sessions() == []
    with other._guard as connection:
        for table in ("event", "blob", "lease"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    other.vacuum()
    assert [file for file in (other.path.parent / "blobs").rglob("*") if file.is_file()] == []


@pytest.mark.parametrize("kind", BAD)
def test_a_bundle_that_is_not_one_is_refused(
    store: SqliteStore, other: SqliteStore, tmp_path: Path, kind: str
) -> None:
    """A wrong, newer, climbing or incomplete bundle is refused with the reason; nothing is stored or written elsewhere."""
    whole(store, "s1")
    path = packed(store, tmp_path / "trip.jaato")
    change, why = BAD[kind]
    rebuilt(path, change, honest=False)
    nothing_came_of_it(other, path, why)
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize("kind", BAD_LINES)
def test_events_that_are_no_log_are_refused(
    store: SqliteStore, other: SqliteStore, tmp_path: Path, kind: str
) -> None:
    """Events out of order, of another session, torn, too deep or unknown are refused with their line."""
    whole(store, "s1")
    path = packed(store, tmp_path / "trip.jaato")
    change, why = BAD_LINES[kind]
    rebuilt(path, lines(change))
    nothing_came_of_it(other, path, why)


def test_what_was_changed_on_the_way_is_refused(
    store: SqliteStore, other: SqliteStore, tmp_path: Path
) -> None:
    """Another word in the events, another byte in a blob, and a file cut off anywhere."""
    whole(store, "s1")
    path = packed(store, tmp_path / "trip.jaato")
    data = path.read_bytes()
    rebuilt(path, lines(lambda rows: rows.__setitem__(3, rows[3].replace(b"key", b"cat"))), honest=False)
    nothing_came_of_it(other, path, "was changed")
    path.write_bytes(data)

    def swap(parts: Parts) -> None:
        for name in parts:
            if name.startswith("blobs/"):
                parts[name] = b"x" + parts[name][1:]

    rebuilt(path, swap)
    nothing_came_of_it(other, path, "does not hold what its name says")
    for length in (0, 1, 21, 22, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        nothing_came_of_it(other, path, "bundle")
    for at in range(0, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        try:
            other.delete(other.import_bundle(path, tmp_path))
        except StoreError:
            assert other.sessions() == []


def test_a_bomb_does_not_go_off(other: SqliteStore, tmp_path: Path) -> None:
    """A small file out of which far more would come is refused before any of it comes, whatever it says of its sizes."""
    path = tmp_path / "bomb.jaato"
    digest = hashlib.sha256(bytes(120 << 20)).hexdigest()
    manifest = {
        "format": "jaato-bundle",
        "version": 1,
        "events": 1,
        "events_sha256": "",
        "blobs": {digest: 120 << 20},
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("events.jsonl", b"{}\n")
        with archive.open("blobs/" + digest, "w") as blob:
            for _ in range(120):
                blob.write(bytes(1 << 20))
    nothing_came_of_it(other, path, "far more would come out")
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    struct.pack_into("<L", data, at + 24, 10)  # the directory says it is small
    path.write_bytes(bytes(data))
    nothing_came_of_it(other, path, "bundle")


def test_more_parts_than_a_bundle_has(other: SqliteStore, tmp_path: Path) -> None:
    """An archive of very many parts, or with words at its end, is refused before its directory is read; and no file of
    another kind is taken for one."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for index in range(20_001):
            archive.writestr(f"{index}", b"")
    path = tmp_path / "many.jaato"
    path.write_bytes(file.getvalue())
    nothing_came_of_it(other, path, "too many parts")
    path.write_bytes(file.getvalue() + b"more")
    nothing_came_of_it(other, path, "no zip archive")
    for data in (b"PK\x03\x04" * 100, b"", b"#!/bin/sh\n", bytes(1000)):
        path.write_bytes(data)
        nothing_came_of_it(other, path, "bundle")
    with pytest.raises(StoreError, match="cannot be used"):
        other.import_bundle(tmp_path / "gone.jaato", tmp_path)
    with pytest.raises(StoreError, match="cannot be used"):
        other.import_bundle(tmp_path, tmp_path)
