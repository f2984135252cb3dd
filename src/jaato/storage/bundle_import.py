"""Imports a session from a bundle, a zip of manifest, events as JSON lines and the blobs they name.

A bundle comes from anywhere. Nothing in it is believed: not a size, not a name, not a hash, no permission; nothing is written
outside the store, and it cannot use more memory or disk than is set here."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct, field

from jaato.errors import StoreError
from jaato.protocol.codec import decode_event, encode, json_problems
from jaato.protocol.events import (
    Event,
    EventBase,
    PermissionGranted,
    PermissionRevoked,
    SessionCreated,
    SessionUpdated,
    now,
)
from jaato.storage.blobs import CHUNK_BYTES, DIGEST, Blobs
from jaato.storage.database import ConnectionGuard
from jaato.storage.errors import file_error
from jaato.storage.event_table import MAX_EVENT_BYTES
from jaato.storage.fork import SessionDraft, draft_session
from jaato.typed_decoding import decode_json

FORMAT = "jaato-bundle"
VERSION = 1
MANIFEST, EVENTS, BLOBS = "manifest.json", "events.jsonl", "blobs/"
MAGIC = b"PK\x03\x04"
END = struct.Struct("<4s4H2LH")
"""The last bytes of a zip without a comment: where its directory is, and how large."""

MAX_FILE_BYTES = 2 << 30
MAX_PARTS = 20_000
MAX_DIRECTORY_BYTES = 8 << 20
MAX_MANIFEST_BYTES = 4 << 20
MAX_WHOLE_BYTES = 8 << 30
MAX_RATIO = 200
FREE_BYTES = 64 << 20
"""So much may come out of a bundle however small it is."""
DAMAGED = b'{"damaged"'


class Manifest(Struct, frozen=True, kw_only=True):
    """What a bundle says it holds. `blobs` has the size of each by its SHA-256, `missing` those that were lost."""

    format: str
    version: int
    jaato_version: str = ""
    created_at: str = ""
    session_id: str = ""
    events: int
    events_sha256: str
    blobs: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


class BundleHeader(Struct, frozen=True):
    """What every version of a bundle says first."""

    format: str = ""
    version: int = 0


def bundle_error(path: Path, why: str) -> StoreError:
    """The error for a file that is no sound bundle."""
    return StoreError(f"{path} is not a bundle that can be imported: {why}. Nothing was taken from it.")


def is_bundle(path: Path) -> bool:
    """Whether a file begins as a bundle does."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class Bundle:
    """An open bundle whose directory and manifest have been checked; the rest is checked as it is read."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        self._parts = check_parts(path, archive)
        self.manifest = self._read_manifest()

    def _read_manifest(self) -> Manifest:
        info = self._parts.pop(MANIFEST, None)
        if info is None or EVENTS not in self._parts:
            raise bundle_error(self.path, "it has no manifest, or no events")
        with self._archive.open(info) as file:
            data = file.read(MAX_MANIFEST_BYTES + 1)
        if len(data) > MAX_MANIFEST_BYTES:
            raise bundle_error(self.path, "its manifest is too large")
        try:
            head = decode_json(data, BundleHeader)
            if head.format == FORMAT and head.version > VERSION:
                raise bundle_error(
                    self.path, f"a newer jaato made it (version {head.version}, this one knows {VERSION})"
                )
            manifest = decode_json(data, Manifest)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise bundle_error(self.path, f"its manifest cannot be read: {error}") from None
        if manifest.format != FORMAT or manifest.version != VERSION:
            raise bundle_error(self.path, "its manifest is of something else")
        blobs = {name.removeprefix(BLOBS) for name in self._parts if name != EVENTS}
        if blobs != set(manifest.blobs):
            raise bundle_error(self.path, "its blobs are not those of its manifest")
        return manifest

    def lines(self) -> Iterator[bytes]:
        """The lines of the events; raises `StoreError` where they are not those of the manifest."""
        hasher, count = hashlib.sha256(), 0
        with self._archive.open(self._parts[EVENTS]) as file:
            while line := file.readline(MAX_EVENT_BYTES + 1):
                if len(line) > MAX_EVENT_BYTES or not line.endswith(b"\n"):
                    raise bundle_error(self.path, f"line {count + 1} of its events is too long, or cut off")
                hasher.update(line)
                count += 1
                if count > self.manifest.events:
                    break
                yield line[:-1]
        if count != self.manifest.events or hasher.hexdigest() != self.manifest.events_sha256:
            raise bundle_error(
                self.path, "its events are not those of its manifest; it is damaged or was changed"
            )

    def events(self) -> Iterator[tuple[int, bytes, Event | None]]:
        """The number, line and event of each record, in order, None for one that was damaged when it was exported."""
        session_id = ""
        for seq, line in enumerate(self.lines(), 1):
            if line.startswith(DAMAGED) and seq > 1:
                yield seq, line, None
                continue
            try:
                event = decode_event(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise bundle_error(self.path, f"line {seq} is no event: {error}") from None
            session_id = session_id or event.session_id
            if seq == 1 and not isinstance(event, SessionCreated):
                raise bundle_error(self.path, "it does not begin with the beginning of a session")
            if event.seq != seq or event.session_id != session_id or not event.durable:
                raise bundle_error(self.path, f"line {seq} is not event {seq} of its session")
            yield seq, line, event
        if not session_id:
            raise bundle_error(self.path, "it has no event")

    def blob(self, digest: str) -> Iterator[bytes]:
        """What a blob holds, piece by piece; raises `StoreError` when that is not what its name says."""
        hasher, size_bytes = hashlib.sha256(), 0
        with self._archive.open(self._parts[BLOBS + digest]) as file:
            while chunk := file.read(CHUNK_BYTES):
                hasher.update(chunk)
                size_bytes += len(chunk)
                yield chunk
        if hasher.hexdigest() != digest or size_bytes != self.manifest.blobs[digest]:
            raise bundle_error(self.path, f"its blob {digest} does not hold what its name says")


@contextmanager
def open_bundle(path: Path) -> Iterator[Bundle]:
    """A bundle to be read. Raises `StoreError`, also for what is found wrong in the block."""
    try:
        with path.open("rb") as file:
            check_directory(path, file)
            with zipfile.ZipFile(file) as archive:
                yield Bundle(path, archive)
    except OSError as error:
        raise file_error(error, path) from error
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        UnicodeDecodeError,
    ) as error:
        raise bundle_error(path, f"it is damaged ({error})") from error


def check_directory(path: Path, file: IO[bytes]) -> None:
    """Check the size of the archive's directory before it is read. Raises `StoreError`."""
    size_bytes = file.seek(0, io.SEEK_END)
    if size_bytes > MAX_FILE_BYTES:
        raise bundle_error(path, f"it is larger than {MAX_FILE_BYTES >> 30} GB")
    if size_bytes < END.size:
        raise bundle_error(path, "it is no zip archive")
    file.seek(-END.size, io.SEEK_END)
    mark, _, _, here, parts, directory_bytes, _, comment_bytes = END.unpack(file.read(END.size))
    if mark != b"PK\x05\x06" or comment_bytes or here != parts:
        raise bundle_error(path, "it is no zip archive, or one that was changed")
    if parts > MAX_PARTS or directory_bytes > MAX_DIRECTORY_BYTES:
        raise bundle_error(path, "it has too many parts")
    file.seek(0)


def check_parts(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The parts by name; raises `StoreError` for a name, a kind or a size that no bundle has."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.orig_filename
        if name not in (MANIFEST, EVENTS) and not (
            name.startswith(BLOBS) and DIGEST.fullmatch(name.removeprefix(BLOBS))
        ):
            raise bundle_error(path, f"it holds {name[:80]!r}, which no bundle does")
        if name in found:
            raise bundle_error(path, f"it holds {name[:80]!r} twice")
        if info.flag_bits & 0x1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise bundle_error(path, f"{name[:80]!r} is encrypted or packed in an unusual way")
        found[name] = info
    whole_bytes = sum(info.file_size for info in found.values())
    packed_bytes = sum(info.compress_size for info in found.values())
    if packed_bytes > MAX_FILE_BYTES or whole_bytes > min(
        MAX_WHOLE_BYTES, FREE_BYTES + MAX_RATIO * min(packed_bytes, path.stat().st_size)
    ):
        raise bundle_error(path, "far more would come out of it than is in it")
    return found


MAX_NAME_CHARS = 200
MAX_GRANTS = 10_000
REFER = "INSERT OR IGNORE INTO blob VALUES (?, ?, ?)"
IMPORTED = "the session was imported"


def import_session(
    guard: ConnectionGuard, blobs: Blobs, path: Path, workspace: str, name: str | None, made: str
) -> None:
    """Make the session `made`, which works in `workspace`, of the bundle at `path`.

    Its times are those of the log, but none is later than now: what was used elsewhere is not used here, whatever clock was
    there. Its place in the list is now. Permissions it was given elsewhere are taken back.
    Raises `StoreError`; nothing is stored then.
    """
    with open_bundle(path) as bundle, draft_session(guard, made) as draft:
        for digest in bundle.manifest.blobs:
            with blobs.stage(bundle.blob(digest)) as staged, guard as connection:
                connection.execute("BEGIN IMMEDIATE")
                blobs.keep(staged)
                connection.execute(REFER, (draft.number, digest, staged.size_bytes))
                connection.execute("COMMIT")
        add_events(bundle, draft, workspace, name, made)
        with guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            draft.finish(connection)
            connection.execute("COMMIT")


def add_events(bundle: Bundle, draft: SessionDraft, workspace: str, name: str | None, made: str) -> None:
    """The events under the new id, then what takes rights back and gives the name."""
    grants: dict[str, None] = {}
    root, called, seq = "", None, 0
    imported_at = now()
    before = (datetime.now(UTC) - timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    for at, line, event in bundle.events():
        seq = at
        if event is None:
            draft.add(at, line, None)
            continue
        changes: dict[str, Any] = {"session_id": made}
        if event.timestamp >= imported_at:
            changes["timestamp"] = before
        match event:
            case SessionCreated() if at == 1:
                root, called = event.agent_id, event.name
                changes |= {"workspace": workspace, "timestamp": imported_at}
            case SessionUpdated():
                called = event.name or called
                changes["mode"] = None
            case PermissionGranted(grant=grant):
                grants[grant.id] = None
        if len(grants) > MAX_GRANTS:
            raise bundle_error(bundle.path, "it has too many permissions")
        copy = msgspec.structs.replace(event, **changes)
        draft.add(at, encode_checked(bundle, at, copy), copy)
    ends: list[Event] = [
        PermissionRevoked(session_id=made, agent_id=root, seq=seq + place, grant_id=grant, reason=IMPORTED)
        for place, grant in enumerate(grants, 1)
    ]
    called = (name or called or "imported")[:MAX_NAME_CHARS]
    ends.append(SessionUpdated(session_id=made, agent_id=root, seq=seq + len(ends) + 1, name=called))
    for end in ends:
        draft.add(end.seq, encode(end), end)


def encode_checked(bundle: Bundle, seq: int, event: EventBase) -> bytes:
    """An event as it is stored. Raises `StoreError` for one that could not be read back."""
    try:
        line = encode(event)
        problems = json_problems(msgspec.to_builtins(event))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise bundle_error(bundle.path, f"line {seq} cannot be stored: {error}") from None
    if problems:
        raise bundle_error(bundle.path, f"line {seq} cannot be stored: {problems[0][0]} {problems[0][1]}")
    return line


def workspace_text(workspace: Path) -> str:
    """A workspace as a log names it. Raises `StoreError` for what no log can hold."""
    try:
        str(workspace).encode()
    except UnicodeEncodeError:
        raise StoreError(f"{str(workspace)!r} cannot be written into a log.") from None
    return str(workspace)
