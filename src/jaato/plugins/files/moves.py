"""Moving a file or directory, and taking a change back."""

from __future__ import annotations

import errno
import os
import stat

from jaato.errors import ToolError
from jaato.plugins.files.backups import BackupRefused, Record
from jaato.plugins.files.changes import Change, Changes, Target
from jaato.plugins.files.disk import EXCHANGE, rename, rename_new, settle
from jaato.plugins.files.replace import Seen, changed, draft, take_away
from jaato.tools.beneath import FileFailed, FileMissing, PathRefused, explained
from jaato.tools.call import Call
from jaato.tools.paths import kind_of


class NothingToUndo(ToolError):
    """No change of this file is known."""

    code = "nothing_to_undo"


def move(changes: Changes, source: str, destination: str, call: Call, *, overwrite: bool = False) -> Change:
    """Move within or between roots; links are moved as links. Returns the destination's change.

    An existing destination is replaced only with `overwrite`, and backed up. Raises `ToolError`s, and then
    nothing has moved.
    """
    with changes.lock, changes.target(source, follow=False) as here:
        kind = kind_of(here.info.st_mode)
        if kind == "other":
            raise PathRefused(f"{source!r} is neither file, directory nor link, so it is not moved.")
        if destination.endswith("/") and kind != "directory":
            raise PathRefused(
                f"{destination!r} ends with a slash. Name the file's new path, not its directory."
            )
        made = changes.make_parents(destination)
        try:
            with changes.target(destination, follow=False) as there:
                check(here, there, overwrite)
                return moved(changes, here, there, call)
        except BaseException:
            changes.unmake(made)
            raise


def check(here: Target, there: Target, overwrite: bool) -> None:
    """Raise unless the one can take the other's place."""
    if there.place.info is None:
        return
    if os.path.samestat(there.place.info, here.info):
        raise PathRefused(f"{here.path!r} and {there.path!r} are the same file; nothing to move.")
    if stat.S_ISDIR(there.place.info.st_mode):
        raise PathRefused(
            f"{there.path!r} is a directory. To move into it, name the new path: {there.label}/{here.place.name}."
        )
    if not overwrite:
        raise PathRefused(f"{there.path!r} exists. Choose another name, or set overwrite (a backup is kept).")
    if stat.S_ISDIR(here.info.st_mode):
        raise PathRefused(f"{here.path!r} is a directory and cannot replace the file {there.path!r}.")


def moved(changes: Changes, here: Target, there: Target, call: Call) -> Change:
    """Carry the move out, both ends noted first."""
    seen = changes.see(there)
    leaving = Change(here, "moveFile", None, None)
    arriving = Change(there, "moveFile", seen, None)
    with changes.backups.open() as shelf:
        left = Record(
            id="",
            path=here.label,
            action="moveFile",
            time=0.0,
            before=state_of(here),
            mode=stat.S_IMODE(here.info.st_mode),
            other=there.label,
            call_id=call.id,
            session_id=call.session_id,
        )
        leaving.record = changes.backups.record(shelf, left)
        try:
            arriving.record = changes.remember(shelf, arriving, call, here.label)
            try:
                rename_over(here, there, seen, shelf.staging)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise explain_move(error, here, there) from None
                carry(changes, here, there, seen, shelf.staging)
        except BaseException:
            for record in (leaving.record, arriving.record):
                if record is not None:
                    changes.backups.forget(shelf, record)
            raise
    settle(there.place.dir_fd)
    settle(here.place.dir_fd)
    return arriving


def state_of(target: Target) -> str:
    """What is at a target, as a record names it."""
    return kind_of(target.info.st_mode)


def rename_over(here: Target, there: Target, seen: Seen | None, staging: int) -> None:
    """Rename; what was at the destination must still be what was seen. Raises `OSError` and `FileChanged`."""
    source = (here.place.dir_fd, here.place.name)
    target = (there.place.dir_fd, there.place.name)
    if seen is None:
        rename_new(*source, *target)
        return
    if not seen.is_at(*target):
        raise changed(there.path)
    if not rename(*source, *target, EXCHANGE):
        os.rename(source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0])
    elif seen.is_at(*source):
        take_away(here.place, here.path, seen, staging)
    else:
        rename(*source, *target, EXCHANGE)
        raise changed(there.path)


def carry(changes: Changes, here: Target, there: Target, seen: Seen | None, staging: int) -> None:
    """Move a file to another file system: copy, then remove."""
    if not stat.S_ISREG(here.info.st_mode):
        raise FileFailed(
            f"{here.path!r} and {there.path!r} are on different file systems; only files move there."
        )
    old = changes.see(here)
    fd = changes.roots.open_place(here.place, here.path)
    try:
        mode = stat.S_IMODE(here.info.st_mode)
        with draft(there.place, there.path, fd, staging, mode=mode) as made:
            if seen is None:
                made.publish_new()
            else:
                made.publish_over(seen)
    finally:
        os.close(fd)
    if old is not None:
        take_away(here.place, here.path, old, staging)


def explain_move(error: OSError, here: Target, there: Target) -> ToolError:
    """Why a rename failed."""
    if error.errno == errno.EINVAL:
        return PathRefused(f"{here.path!r} cannot be moved into itself ({there.path!r}).")
    if error.errno == errno.EEXIST:
        return changed(there.path)
    return explained(error, there.path)


def undo(changes: Changes, path: str, call: Call) -> tuple[Change, Record]:
    """Take back the last change of a path; undoing again brings it back. Returns what was done and of what."""
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


def is_moved(record: Record) -> bool:
    """Whether a record is of something that was moved away and has no content of its own."""
    return record.other is not None and record.before in ("file", "directory", "link") and not record.digest


def current(changes: Changes, label: str) -> tuple[str, str | None]:
    """What is there now, comparable to a record: its kind and its hash or link target."""
    import hashlib

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
            f"This backup notes that {record.path!r} was moved to {record.other!r}; use moveFile to move it back."
        )
    content = changes.backups.content(record.digest) if record.digest else None
    with changes.lock:
        made = changes.make_parents(record.path) if record.before != "absent" else []
        try:
            with changes.target(record.path, follow=False) as target:
                if target.label != record.path:
                    raise PathRefused(
                        f"{record.path!r} now leads by a link to {target.label!r}; nothing is restored through links. "
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
