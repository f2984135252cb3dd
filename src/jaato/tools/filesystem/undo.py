"""Undo a change, and restore what a backup holds; neither loses what is there now."""

from __future__ import annotations

import hashlib
import os

from jaato.errors import ToolError
from jaato.protocol.specs import FileChange
from jaato.tools.call import Call
from jaato.tools.filesystem.atomic_replace import FileChanged
from jaato.tools.filesystem.backup_directory import BackupRefused, Record, content_key, state_of
from jaato.tools.filesystem.changes import Change, Changes, Target
from jaato.tools.filesystem.errors import FileMissing, explaining
from jaato.tools.filesystem.moves import move


class NothingToUndo(ToolError):
    """No change of this file is known."""

    code = "nothing_to_undo"


def undo(changes: Changes, path: str, call: Call) -> tuple[Change, Record]:
    """Take back the last change of a path; undoing again brings it back. Returns that and its record.

    Raises `FileChanged` when the file is no longer as that change left it: later changes are kept.
    """
    with changes.lock:
        label, records = find_records(changes, path)
        now = current_state(changes, label)
        for newer, record in enumerate(records):
            if record.other is not None:
                back = move_back(changes, record, call)
                if back is not None:
                    return back, record
            if is_moved(record) or record.content_key == now:
                continue  # it left nothing here, or is not in effect
            if record.after not in (None, now) or record.other is not None:
                if newer:
                    break
                raise refuse_meddled(path, record)
            if newer and record.before == "absent":
                break
            return restore(changes, record, call, "undoFileChange"), record
    raise NothingToUndo(
        f"{path!r} is as it was before its last known change. listBackups shows every version."
    )


def refuse_meddled(path: str, record: Record) -> FileChanged:
    """The refusal to undo when the file was changed since by another program or person."""
    if record.other is not None:
        return FileChanged(
            f"{path!r} cannot be moved back: {record.other!r} is there again. Nothing was changed; "
            "use moveFile with a free name."
        )
    remedy = (
        "removeFile removes it, if that is wanted."
        if record.before == "absent"
        else f"restoreFile with backup_id {record.id!r} brings the earlier version back, if that is wanted."
    )
    return FileChanged(
        f"{path!r} is not as the last change by a tool left it: somebody else has changed it since. "
        f"Nothing was undone. Read it; {remedy}"
    )


def find_records(changes: Changes, path: str) -> tuple[str, list[Record]]:
    """The records of a path, by its own name or by that of the file a link leads to."""
    for follow in (False, True):
        with changes.target(path, follow=follow) as target:
            records = changes.backups.records(target.label)
            if records:
                return target.label, records
    raise NothingToUndo(f"No change of {path!r} is known here, so there is nothing to undo.")


def find_backup(changes: Changes, path: str, backup_id: str) -> Record:
    """The record with this id among those of a path. Raises `BackupRefused` when there is none."""
    _, records = find_records(changes, path)
    for record in records:
        if record.id == backup_id and record.before == "absent" and record.other is None:
            raise BackupRefused(
                f"Before this change {path!r} did not exist, so there is nothing to bring back. "
                "To be rid of the file, use removeFile."
            )
        if record.id == backup_id:
            return record
    raise BackupRefused(f"{path!r} has no backup {backup_id!r}. listBackups shows those it has.")


def is_moved(record: Record) -> bool:
    """Whether a record is of something that was moved away and has no content of its own."""
    return record.other is not None and record.before != "absent" and not (record.digest or record.link)


def current_state(changes: Changes, label: str) -> str:
    """The content key of what is there now."""
    try:
        with changes.target(label, follow=False) as target:
            info = target.place.info
            if info is None:
                return content_key("absent")
            state = state_of(info.st_mode)
            if state == "file":
                return content_key(state, digest_of(changes.roots.open_place(target.place, label)))
            seen = changes.see(target) if state == "link" else None
            return content_key(state, link=seen.link if seen is not None else None)
    except FileMissing:
        return content_key("absent")


def digest_of(fd: int) -> str:
    """The hash of an open file, which is closed."""
    with os.fdopen(fd, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    with changes.stage() as staging:
        target = staging.target(record.path, exact=True, parents=record.before != "absent")
        if record.before == "directory":
            return restore_directory(target, record, call)
        change = Change(target, action, changes.see(target), content, record.mode, record.link)
        changes.commit([change], call)
        return change


def restore_directory(target: Target, record: Record, call: Call) -> Change:
    """Bring back a removed empty directory."""
    with explaining(target.path):
        os.mkdir(target.place.name, record.mode, dir_fd=target.place.dir_fd)
    call.changed.append(FileChange(target.label, "created", directory=True))
    return Change(target, "restoreFile", None, None, record=record)
