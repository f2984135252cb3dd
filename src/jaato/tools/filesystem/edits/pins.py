"""Pins: backups that waypoints need, which pruning keeps, and what has been pruned all the same."""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from jaato.tools.filesystem.atomic import replace_file_at
from jaato.tools.filesystem.edits.backup_directory import Record, directory, existing, folder_of
from jaato.tools.filesystem.edits.renames import list_names, read_at

FOLDER = "pins"
REST = "others"
"""The name under which is noted what was pruned of sessions without waypoints."""
MAX_BYTES = 1 << 20
FORGET_S = 30 * 86_400
"""How long the pins of a session stay that has no backups here."""


class Pins(Struct, frozen=True, omit_defaults=True):
    """The marks of a session's waypoints, and the newest of its records that was pruned."""

    session_id: str
    marks: list[str] = []
    lost: str = ""


def name_of(session_id: str | None) -> str:
    """The file of a session's pins; None for those without any."""
    return REST if session_id is None else folder_of(session_id)


def pins_of(workspace: Path, session_id: str) -> Pins:
    """The pins of a session; one without any has lost what others without have lost."""
    with contextlib.ExitStack() as stack:
        try:
            top = existing(workspace, "", stack)
        except OSError:
            return Pins(session_id)
        own = read_pins(top, name_of(session_id))
        rest = read_pins(top, REST)
    if own is not None and own.session_id == session_id:
        return own
    return Pins(session_id, [], rest.lost if rest is not None else "")


def read_pins(top: int, name: str) -> Pins | None:
    """The pins in a file; None for none and for a damaged one."""
    try:
        return msgspec.json.decode(read_at(top, f"{FOLDER}/{name}", MAX_BYTES), type=Pins)
    except (OSError, msgspec.DecodeError):
        return None


def save_pins(top: int, pins: Pins, name: str) -> None:
    """Write the pins of a session, durable when this returns. Raises OSError."""
    with contextlib.ExitStack() as stack:
        folder = directory(stack, top, FOLDER)
        replace_file_at(folder, name, msgspec.json.encode(pins), 0o600)


class Pinned:
    """Which of these records (newest first) waypoints need, asked while the backups are pruned."""

    def __init__(self, top: int, found: Sequence[Record]) -> None:
        self._top = top
        self._changed: set[str] = set()
        self._pins: dict[str, Pins] = {}
        self._rest = read_pins(top, REST) or Pins("")
        present = {record.session_id for record in found}
        for name in list_names(top, FOLDER):
            pins = read_pins(top, name)
            if pins is None or name == REST or name != name_of(pins.session_id):
                continue
            if pins.session_id in present:
                self._pins[pins.session_id] = pins
            else:
                self._forget(name)
        self._needed = set(self._first_after_marks(found))

    def _forget(self, name: str) -> None:
        """Remove the pins of a session that has had nothing to pin for long."""
        with contextlib.suppress(OSError):
            place = f"{FOLDER}/{name}"
            if os.stat(place, dir_fd=self._top, follow_symlinks=False).st_mtime < time.time() - FORGET_S:
                os.unlink(place, dir_fd=self._top)

    def _first_after_marks(self, found: Sequence[Record]) -> Iterable[str]:
        """The first record of each path after each mark of its session: what the path held at that mark."""
        paths: dict[tuple[str, str], list[str]] = defaultdict(list)
        for record in reversed(found):
            if record.session_id in self._pins:
                paths[record.session_id, record.path].append(record.id)
        for (session_id, _), ids in paths.items():
            marks = self._pins[session_id].marks
            for before, after in zip(["", *ids], ids, strict=False):
                if any(before <= mark < after for mark in marks):
                    yield after

    def holds(self, record: Record) -> bool:
        """Whether the record is of a session with waypoints."""
        return record.session_id in self._pins

    def needs(self, record: Record) -> bool:
        """Whether a waypoint needs what the record holds."""
        return record.id in self._needed

    def lose(self, record: Record) -> None:
        """Note that a record was pruned."""
        pins = self._pins.get(record.session_id)
        if pins is None:
            self._rest = msgspec.structs.replace(self._rest, lost=max(self._rest.lost, record.id))
            self._changed.add("")
        else:
            lost = msgspec.structs.replace(pins, lost=max(pins.lost, record.id))
            self._pins[record.session_id] = lost
            self._changed.add(record.session_id)

    def save(self) -> None:
        """Write down what was lost. Raises OSError."""
        for session_id in self._changed:
            if session_id in self._pins:
                save_pins(self._top, self._pins[session_id], name_of(session_id))
            else:
                save_pins(self._top, self._rest, REST)
