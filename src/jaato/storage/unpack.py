"""A session from a bundle: all of it or nothing, and with no right that somebody else's log may claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from jaato.errors import StoreError
from jaato.protocol.codec import encode, json_problems
from jaato.protocol.events import (
    Event,
    EventBase,
    PermissionGranted,
    PermissionRevoked,
    SessionCreated,
    SessionUpdated,
    now,
)
from jaato.storage.blobs import Blobs
from jaato.storage.bundle import Bundle, opened, refused
from jaato.storage.draft import Draft, drafted
from jaato.storage.guard import Guard

MAX_NAME_CHARS = 200
MAX_GRANTS = 10_000
REFER = "INSERT OR IGNORE INTO blob VALUES (?, ?, ?)"
IMPORTED = "the session was imported"


def unpack(guard: Guard, blobs: Blobs, path: Path, workspace: str, name: str | None, made: str) -> None:
    """Make the session `made`, which works in `workspace`, of the bundle at `path`.

    Its times are those of the log, its place in the list is now. Permissions it was given elsewhere are taken back.
    Raises `StoreError`; nothing is stored then.
    """
    with opened(path) as bundle, drafted(guard, made) as draft:
        for digest in bundle.manifest.blobs:
            with blobs.staged(bundle.blob(digest)) as staged, guard as connection:
                connection.execute("BEGIN IMMEDIATE")
                blobs.keep(staged)
                connection.execute(REFER, (draft.number, digest, staged.size_bytes))
                connection.execute("COMMIT")
        add_events(bundle, draft, workspace, name, made)
        with guard as connection:
            connection.execute("BEGIN IMMEDIATE")
            draft.finish(connection)
            connection.execute("COMMIT")


def add_events(bundle: Bundle, draft: Draft, workspace: str, name: str | None, made: str) -> None:
    """The events under the new id, then what takes rights back and gives the name."""
    grants: dict[str, None] = {}
    root, called, seq = "", None, 0
    for at, line, event in bundle.events():
        seq = at
        if event is None:
            draft.add(at, line, None)
            continue
        changes: dict[str, Any] = {"session_id": made}
        match event:
            case SessionCreated() if at == 1:
                root, called = event.agent_id, event.name
                changes |= {"workspace": workspace, "timestamp": now()}
            case SessionUpdated():
                called = event.name or called
                changes["mode"] = None
            case PermissionGranted(grant=grant):
                grants[grant.id] = None
        if len(grants) > MAX_GRANTS:
            raise refused(bundle.path, "it has too many permissions")
        copy = msgspec.structs.replace(event, **changes)
        draft.add(at, sound(bundle, at, copy), copy)
    ends: list[Event] = [
        PermissionRevoked(session_id=made, agent_id=root, seq=seq + place, grant_id=grant, reason=IMPORTED)
        for place, grant in enumerate(grants, 1)
    ]
    called = (name or called or "imported")[:MAX_NAME_CHARS]
    ends.append(SessionUpdated(session_id=made, agent_id=root, seq=seq + len(ends) + 1, name=called))
    for end in ends:
        draft.add(end.seq, encode(end), end)


def sound(bundle: Bundle, seq: int, event: EventBase) -> bytes:
    """An event as it is stored. Raises `StoreError` for one that could not be read back, or by nobody else."""
    try:
        line = encode(event)
        problems = json_problems(msgspec.to_builtins(event))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise refused(bundle.path, f"line {seq} cannot be stored: {error}") from None
    if problems:
        raise refused(bundle.path, f"line {seq} cannot be stored: {problems[0][0]} {problems[0][1]}")
    return line


def workspace_text(workspace: Path) -> str:
    """A workspace as a log names it. Raises `StoreError` for what no log can hold."""
    try:
        str(workspace).encode()
    except UnicodeEncodeError:
        raise StoreError(f"{str(workspace)!r} cannot be written into a log.") from None
    return str(workspace)
