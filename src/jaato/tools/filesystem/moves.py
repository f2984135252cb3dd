"""Move a file, directory or link; what it replaces is backed up."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from jaato.errors import ToolError
from jaato.protocol.specs import FileChange
from jaato.tools.call import Call
from jaato.tools.filesystem.atomic import EXCHANGE, lock_directory, rename, rename_new, sync_names
from jaato.tools.filesystem.atomic_replace import FileState, draft, refuse_changed, take_away
from jaato.tools.filesystem.backup_directory import Record, state_of
from jaato.tools.filesystem.changes import Change, Changes, Target
from jaato.tools.filesystem.errors import FileFailed, PathRefused, explain_os_error, kind_of


def move(changes: Changes, source: str, destination: str, call: Call, *, overwrite: bool = False) -> Change:
    """Move within or between roots; links are moved as links. Returns the destination's change.

    An existing destination is replaced only with `overwrite`, and backed up. Raises `ToolError`s, and then
    nothing has moved.
    """
    with changes.stage() as staging:
        here = staging.target(source, follow=False)
        kind = kind_of(here.info.st_mode)
        if kind == "other":
            raise PathRefused(f"{source!r} is neither file, directory nor link, so it is not moved.")
        if destination.endswith("/") and kind != "directory":
            raise PathRefused(
                f"{destination!r} ends with a slash. Name the file's new path, not its directory."
            )
        there = staging.target(destination, follow=False, parents=True)
        check(here, there, overwrite)
        for target in (here, there):
            changes.refuse_unsaved(target, call)
        return carry_out_move(changes, here, there, call, staging.made)


def check(here: Target, there: Target, overwrite: bool) -> None:
    """Raise unless the one can take the other's place."""
    if there.place.info is None:
        return
    if os.path.samestat(there.place.info, here.info):
        raise PathRefused(f"{here.path!r} and {there.path!r} are the same file; nothing was changed.")
    if stat.S_ISDIR(there.place.info.st_mode):
        raise PathRefused(
            f"{there.path!r} is a directory. To move into it, name {there.label}/{here.place.name}."
        )
    if not overwrite:
        raise PathRefused(f"{there.path!r} exists. Choose another name, or set overwrite (a backup is kept).")
    if stat.S_ISDIR(here.info.st_mode):
        raise PathRefused(f"{here.path!r} is a directory and cannot replace the file {there.path!r}.")


def carry_out_move(
    changes: Changes, here: Target, there: Target, call: Call, made: Sequence[str] = ()
) -> Change:
    """Carry the move out, both ends noted first."""
    seen = changes.see(there)
    arriving = Change(there, "moveFile", seen, None, made=made)
    with changes.backups.open() as dirs:
        before, mode = state_of(here.info.st_mode), stat.S_IMODE(here.info.st_mode)
        left = Record.new(here.label, "moveFile", call, before, mode=mode, other=there.label)
        left = changes.backups.record(dirs, left)
        try:
            arriving.record = changes.backups.record(dirs, changes.back_up(dirs, arriving, call, here.label))
            try:
                with changes.roots.changing([here.place, there.place]):
                    rename_over(here, there, seen, dirs.staging)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise explain_move(error, here, there) from None
                copy_and_remove(changes, here, there, seen, dirs.staging)
        except BaseException:
            for record in filter(None, (left, arriving.record)):
                changes.backups.forget(dirs, record)
            raise
    sync_names(there.place.dir_fd)
    sync_names(here.place.dir_fd)
    folder = stat.S_ISDIR(here.info.st_mode)
    call.changed += (
        FileChange(here.label, "deleted", directory=folder),
        FileChange(there.label, "created" if seen is None else "modified", directory=folder),
    )
    return arriving


def rename_over(here: Target, there: Target, seen: FileState | None, staging: int) -> None:
    """Rename; what was at the destination must still be what was seen. Raises `OSError` and `FileChanged`."""
    source = (here.place.dir_fd, here.place.name)
    target = (there.place.dir_fd, there.place.name)
    if seen is None:
        rename_new(*source, *target)
        return
    with lock_directory(there.place.dir_fd):
        if not seen.is_at(*target):
            raise refuse_changed(there.path)
        if not rename(*source, *target, EXCHANGE):
            os.rename(source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0])
            return
        if not seen.is_at(*source):
            rename(*source, *target, EXCHANGE)
            raise refuse_changed(there.path)
    take_away(here.place, here.path, seen, staging)


def copy_and_remove(
    changes: Changes, here: Target, there: Target, seen: FileState | None, staging: int
) -> None:
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
        return refuse_changed(there.path)
    return explain_os_error(error, there.path)
