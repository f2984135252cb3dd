"""Exports a session as a bundle: redacted events, and the blobs they name."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

import msgspec

from jaato.abc.store import Damaged, Store
from jaato.errors import StoreError
from jaato.protocol.codec import encode
from jaato.protocol.events import Event, now
from jaato.storage.blobs import CHUNK_BYTES
from jaato.storage.bundle_import import BLOBS, EVENTS, FORMAT, MANIFEST, MAX_PARTS, VERSION, Manifest
from jaato.storage.errors import file_errors
from jaato.version import __version__

DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
FIRST_DATE = (1980, 1, 1, 0, 0, 0)

Clean = Callable[[Path], AbstractContextManager[Path]]
"""Gives, for as long as the block lasts, a file or a copy of it without what is secret."""
Records = Callable[[], Iterable[Event | Damaged]]


def write_bundle(store: Store, session_id: str, records: Records, clean: Clean, target: Path) -> Manifest:
    """Write the bundle `target`, 0600, of a session whose masked events `records` gives, each time it is called.

    The file is there when it is whole. A blob that `clean` changes gets another name, in the events too. Raises
    `StoreError`.
    """
    with (
        file_errors(target),
        replace_file(target) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        names, blobs, missing = write_blobs(archive, store, session_id, digests_of(records()), clean)
        hasher, count = hashlib.sha256(), 0
        with archive.open(archive_part(EVENTS), "w", force_zip64=True) as events:
            for record in records():
                line = DIGEST.sub(lambda found: names.get(found[0], found[0]), encode_line(record)) + b"\n"
                hasher.update(line)
                events.write(line)
                count += 1
        manifest = Manifest(
            format=FORMAT,
            version=VERSION,
            jaato_version=__version__,
            created_at=now(),
            session_id=session_id,
            events=count,
            events_sha256=hasher.hexdigest(),
            blobs=blobs,
            missing=missing,
        )
        archive.writestr(archive_part(MANIFEST), msgspec.json.format(encode(manifest)))
    return manifest


@contextmanager
def replace_file(target: Path) -> Iterator[IO[bytes]]:
    """A private file that takes its place when the block ends well."""
    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def archive_part(name: str) -> zipfile.ZipInfo:
    """A part of the archive, without the time and the place of its creation."""
    info = zipfile.ZipInfo(name, FIRST_DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    return info


def encode_line(record: Event | Damaged) -> bytes:
    """A record as a line of a bundle."""
    if isinstance(record, Damaged):
        return json.dumps({"damaged": record.reason, "seq": record.seq}).encode()
    return encode(record)


def digests_of(records: Iterable[Event | Damaged]) -> list[bytes]:
    """What may be the name of a blob in the events, in order, each once."""
    found: dict[bytes, None] = {}
    for record in records:
        if not isinstance(record, Damaged):
            found.update(dict.fromkeys(DIGEST.findall(encode(record))))
    return list(found)


def write_blobs(
    archive: zipfile.ZipFile, store: Store, session_id: str, digests: list[bytes], clean: Clean
) -> tuple[dict[bytes, bytes], dict[str, int], list[str]]:
    """Write the session's blobs among these; returns their new names, their sizes by these, and those that are lost."""
    names: dict[bytes, bytes] = {}
    sizes: dict[str, int] = {}
    missing: list[str] = []
    with tempfile.TemporaryDirectory(prefix="jaato-bundle-") as directory:
        for digest in digests:
            copy = Path(directory) / "blob"
            try:
                size_bytes = store.blob_size(session_id, digest.decode())
            except StoreError:
                continue  # it looks like one, and is a hash of something else
            try:
                copy_blob(store, session_id, digest.decode(), size_bytes, copy)
            except StoreError:
                missing.append(digest.decode())
                continue
            with clean(copy) as cleaned:
                name = digest_of(cleaned)
                names[digest] = name.encode()
                if name not in sizes:
                    sizes[name] = cleaned.stat().st_size
                    write_file(archive, BLOBS + name, cleaned)
            if len(sizes) > MAX_PARTS - 2:
                raise StoreError(
                    f"The session has more than {MAX_PARTS} large results, too many for a bundle."
                )
    return names, sizes, missing


def copy_blob(store: Store, session_id: str, digest: str, size_bytes: int, copy: Path) -> None:
    """Write a blob to a file, in bounded memory. Raises `StoreError` when it is not whole."""
    with copy.open("wb") as file:
        for offset in range(0, size_bytes, CHUNK_BYTES):
            file.write(store.get_blob(session_id, digest, offset, CHUNK_BYTES))
    if digest_of(copy) != digest:
        raise StoreError(f"The blob {digest} is damaged.")


def digest_of(path: Path) -> str:
    """The SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_file(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    """Put a file into the archive."""
    with path.open("rb") as source, archive.open(archive_part(name), "w", force_zip64=True) as target:
        while chunk := source.read(CHUNK_BYTES):
            target.write(chunk)
