"""Taking a change back, and bringing back what a backup holds; neither loses what is there now."""

from __future__ import annotations

import hashlib
import os
import stat

from jaato.errors import ToolError
from jaato.plugins.files.backups import Record
from jaato.plugins.files.changes import Changes
from jaato.plugins.files.moves import move
from jaato.plugins.files.shelf import BackupRefused
from jaato.plugins.files.targets import Change, Target
from jaato.tools.call import Call
from jaato.tools.file_errors import FileMissing, PathRefused, explained


class NothingToUndo(ToolError):
    """No change of this file is known."""

    code = "nothing_to_undo"


def undo(changes: Changes, path: str, call: Call) -> tuple[Change, Record]:
    """Take back the last change of a path; undoing again brings it back. Returns that and its record."""
    with changes.lock:
        label, records = known(changes, path)
        now = current(changes, label)
        for record in records:
            if record.other is not None:
                back = move_back(changes, record, call)
                if back is not None:
                    return back, record
            if (record.before, record.digest or record.link) != now and not is_moved(record):
                return restore(changes, record, call, "undoFileChange"), record
    raise NothingToUndo(
        f"{path!r} is as it was before its last known change. listBackups shows every version."
    )


def known(changes: Changes, path: str) -> tuple[str, list[Record]]:
    """The records of a path, by its own name or by that of the file a link leads to."""
    for follow in (False, True):
        with changes.target(path, follow=follow) as target:
            records = changes.backups.records(target.label)
            if records:
                return target.label, records
    raise NothingToUndo(f"No change of {path!r} is known here, so there is nothing to undo.")


def find_backup(changes: Changes, path: str, backup_id: str) -> Record:
    """The record with this id among those of a path. Raises `BackupRefused` when there is none."""
    _, records = known(changes, path)
    for record in records:
        if record.id == backup_id:
            return record
    raise BackupRefused(f"{path!r} has no backup {backup_id!r}. listBackups shows those it has.")


def is_moved(record: Record) -> bool:
    """Whether a record is of something that was moved away and has no content of its own."""
    return record.other is not None and record.before != "absent" and not (record.digest or record.link)


def current(changes: Changes, label: str) -> tuple[str, str | None]:
    """What is there now, comparable to a record: its kind and its hash or link target."""
    try:
        with changes.target(label, follow=False) as target:
            if target.place.info is None:
                return "absent", None
            if stat.S_ISDIR(target.place.info.st_mode):
                return "directory", None
            seen = changes.see(target)
    except FileMissing:
        return "absent", None
    if seen is None:
        return "absent", None
    if seen.link is not None:
        return "link", seen.link
    return "file", hashlib.sha256(seen.data).hexdigest() if seen.data is not None else None


def move_back(changes: Changes, record: Record, call: Call) -> Change | None:
    """Undo a move by moving back, when one end is free and the other is not; None when that does not fit."""
    other = record.other or ""
    here, there = exists(changes, record.path), exists(changes, other)
    if is_moved(record) and there and not here:
        return move(changes, other, record.path, call)
    if not is_moved(record) and here and not there:
        back = move(changes, record.path, other, call)
        if record.before != "absent":
            return restore(changes, record, call, "undoFileChange")
        return back
    return None


def exists(changes: Changes, label: str) -> bool:
    """Whether something has this name, links not followed."""
    try:
        with changes.target(label, follow=False) as target:
            return target.place.info is not None
    except FileMissing:
        return False


def restore(changes: Changes, record: Record, call: Call, action: str = "restoreFile") -> Change:
    """Bring back what a record holds; what is there now is backed up first. Never goes through a link."""
    if is_moved(record):
        raise BackupRefused(
            f"This backup notes a move of {record.path!r} to {record.other!r}; use moveFile to reverse it."
        )
    content = changes.backups.content(record.digest) if record.digest else None
    with changes.lock:
        made = changes.make_parents(record.path) if record.before != "absent" else []
        try:
            with changes.target(record.path, follow=False) as target:
                if target.label != record.path:
                    raise PathRefused(
                        f"{record.path!r} now leads by a link to {target.label!r}; no link is followed here. "
                        "Ask the user to remove the link."
                    )
                if record.before == "directory":
                    return restore_directory(target, record)
                change = Change(target, action, changes.see(target), content, record.mode, record.link)
                changes.commit([change], call)
                return change
        except BaseException:
            changes.unmake(made)
            raise


def restore_directory(target: Target, record: Record) -> Change:
    """Bring back a removed empty directory."""
    try:
        os.mkdir(target.place.name, record.mode, dir_fd=target.place.dir_fd)
    except OSError as error:
        raise explained(error, target.path) from None
    return Change(target, "restoreFile", None, None, record=record)
