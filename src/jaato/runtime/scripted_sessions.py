"""The scripted model from what the user names: a script, an exported session or a stored one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from jaato.abc.store import Damaged, Store
from jaato.errors import ConfigError, SessionNotFound
from jaato.protocol.codec import decode_event
from jaato.protocol.events import Event, MessageModel
from jaato.providers.scripted import ScriptedProvider
from jaato.storage.bundle_import import is_bundle, open_bundle
from jaato.typed_decoding import decode_json

DAMAGED = b'{"damaged"'


class Tagged(msgspec.Struct):
    """The fields that make a record an event."""

    type: str | None = None


def open_scripted(text: str, store: Store | None, workspace: Path | None = None) -> ScriptedProvider:
    """A model that plays the file of this name, here or in the workspace, else the stored session with this id, prefix or
    name.

    Raises `ConfigError` naming what is wrong with the file, or that there is neither.
    """
    paths = [Path(text), *([workspace / text] if workspace is not None else [])]
    if (path := next(filter(is_existing, paths), None)) is not None:
        events = read_export(path)
        return ScriptedProvider.from_file(path) if events is None else replay_events(events, str(path))
    try:
        if store is None:
            raise SessionNotFound(text)
        session_id = store.find(text)
    except SessionNotFound:
        raise ConfigError(
            f"{text!r} is neither a file nor a stored session that could be played: the provider scripted takes "
            "a script, an export, or a session's id or name with --model."
        ) from None
    return replay_events((one for one in store.read(session_id) if not isinstance(one, Damaged)), session_id)


def is_existing(path: Path) -> bool:
    """Whether there is something of this name."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def replay_events(events: Iterable[Event], name: str) -> ScriptedProvider:
    """The model's replies among these events. Raises `ConfigError` when there are none."""
    replies = [event for event in events if isinstance(event, MessageModel)]
    if not replies:
        raise ConfigError(f"{name} has no reply of a model that could be played again.")
    return ScriptedProvider.from_events(replies)


def read_export(path: Path) -> Iterator[Event] | None:
    """The events of an export, as lines, one document or a bundle; None for a file that is something else."""
    if is_bundle(path):
        with open_bundle(path) as bundle:
            return iter([event for _, _, event in bundle.events() if event is not None])
    try:
        data = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"The script {path} cannot be read: {error.strerror}.") from None
    if data.startswith(b"["):
        try:
            rows = decode_json(data, list[msgspec.Raw])
        except msgspec.MsgspecError:
            return None
        return (
            decode_records([bytes(row) for row in rows], path) if rows and is_event(bytes(rows[0])) else None
        )
    return decode_records(data.splitlines(), path) if is_event(data.partition(b"\n")[0]) else None


def is_event(record: bytes) -> bool:
    """Whether a record says what kind of event it is, which no step of a script does."""
    try:
        return decode_json(record, Tagged).type is not None or record.startswith(DAMAGED)
    except msgspec.MsgspecError:
        return False


def decode_records(rows: list[bytes], path: Path) -> Iterator[Event]:
    """The events of these records; damaged ones, which an export names, are left out. Raises `ConfigError`."""
    for number, row in enumerate(rows, 1):
        if row.startswith(DAMAGED) or not row.strip():
            continue
        try:
            yield decode_event(row)
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path}, line {number} is no event: {error}.") from None
