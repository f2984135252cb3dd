"""Transactions over any number of files and directory moves: all happen, or none, also when the process is killed."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from jaato.errors import ToolError
from jaato.protocol.specs import FileChange
from jaato.tools.call import Call
from jaato.tools.filesystem.atomic import rename_new, sync_names
from jaato.tools.filesystem.atomic_replace import FileState, refuse_changed
from jaato.tools.filesystem.backup_directory import (
    BackupDirectory,
    BackupRefused,
    Record,
    State,
    content_key,
    existing,
)
from jaato.tools.filesystem.backups import Backups
from jaato.tools.filesystem.changes import MAX_EDIT_BYTES, Change, Changes, Target
from jaato.tools.filesystem.client_files import refuse_unsaved
from jaato.tools.filesystem.errors import (
    FileFailed,
    FileMissing,
    RollbackFailed,
    explain_os_error,
    explaining,
)
from jaato.tools.filesystem.undo import current_state, digest_of, exists, is_moved, move_back, restore


def recover_transactions(changes: Changes) -> None:
    """Roll back the transactions of killed processes, except files that were changed since."""
    for name, records in sorted(changes.backups.find_unfinished().items(), reverse=True):
        roll_back(changes, records, name)
        with changes.backups.open() as dirs:
            changes.backups.end(dirs, name)


def roll_back(changes: Changes, records: Sequence[Record], name: str) -> list[str]:
    """Put back what of a set has appeared, last first: files, and then what was moved before them. Gives what could not
    be, with the reasons; their backups stay, for restoreFile. Of a set that is gone without a trace nothing does."""
    stuck: list[str] = []
    whole = all(record.batch for record in records)
    moves = [record for record in records if is_moved(record)]
    moved = [one for one in moves if exists(changes, one.other or "") and not exists(changes, one.path)]
    if len(moved) == len(moves):  # else no file has appeared yet
        for record in reversed([record for record in records if not is_moved(record)]):
            try:
                whole = roll_back_change(changes, record, name) and whole
            except ToolError as error:
                stuck.append(f"{record.path!r} (backup {record.id}): {error}")
    for record in reversed(moved):
        try:
            move_back(changes, record, call_of(record, name))
        except ToolError as error:
            stuck.append(f"{record.other!r}: {error}")
    if whole and not stuck:
        with changes.backups.open() as dirs:
            changes.backups.forget_set(dirs, name)
    return stuck


def roll_back_change(changes: Changes, record: Record, name: str) -> bool:
    """Put one file back if it is exactly what the set has made of it, or away to make room for a link; whether it is as it
    was before."""
    if record.after in (None, record.content_key):
        return True
    with changes.lock:
        now = current_state(changes, record.path)
        if now == record.after or (now == "absent" and str(record.after).startswith("link:")):
            restore(changes, record, call_of(record, name), "recovery")
            return True
    return now == record.content_key


def call_of(record: Record, name: str) -> Call:
    """In whose name something is taken back: that of its session, under the name of the set."""
    return Call(name, "recovery", {}, session_id=record.session_id)


ROOM = 16 << 20
"""Bytes that are to stay free on the disk."""


@dataclass(frozen=True, slots=True)
class FileReplacement:
    """The new content of a path, in place of the content with the key `now`. `at` is its name before anything moves,
    empty where nothing can be.

    `mode` None keeps that of the file that is there. Content is taken from the backups by its digest.
    """

    path: str
    at: str
    now: str
    state: State
    digest: str | None = None
    link: str | None = None
    mode: int | None = None
    size_bytes: int = 0

    @property
    def content_key(self) -> str:
        """The content key of the new content."""
        return content_key(self.state, self.digest, self.link)


@dataclass(frozen=True, slots=True)
class FileMove:
    """A file or directory that gets another name, which must be free; several happen in their order."""

    source: str
    destination: str
    state: State
    mode: int = 0


def commit_transaction(
    changes: Changes,
    relocations: Sequence[FileMove],
    steps: Sequence[FileReplacement],
    call: Call,
    action: str,
) -> None:
    """Do all of it or nothing, also when the process dies. Raises `FileChanged` when a file is not what its step says,
    and other `ToolError`s; nothing has changed then."""
    backups = changes.backups
    files = [step for step in steps if step.state != "directory"]
    made: list[str] = []
    with changes.lock, backups.open() as dirs:
        refuse_full_disk(changes, files)
        name = backups.begin(dirs, [])
        listed: list[Record] = []
        try:
            moves = [record_move(backups, dirs, one, call, action, name) for one in relocations]
            records = [record_replacement(changes, dirs, step, call, action, name) for step in files]
            listed = [*moves, *records]
            backups.note(dirs, name, listed)
            for relocation in relocations:
                made += move_file(changes, relocation, call)
            for path in sorted(step.path for step in steps if step.state == "directory"):
                made += changes.make_parents(f"{path}/x")
            for step, record in zip(files, records, strict=True):
                made += replace_file(changes, dirs, step, record, call)
        except BaseException as error:
            stuck = roll_back(changes, listed, name)
            changes.unmake(made)
            backups.end(dirs, name)
            if stuck:
                raise RollbackFailed(error, stuck) from error
            raise
        backups.end(dirs, name)
        for one in relocations:
            folder = one.state == "directory"
            call.changed.append(FileChange(one.source, "deleted", directory=folder))
            call.changed.append(FileChange(one.destination, "created", directory=folder))
        call.changed += [replacement_change(step) for step in steps]


def replacement_change(step: FileReplacement) -> FileChange:
    """A step as a change reported to clients."""
    match step.state, step.now:
        case "absent", _:
            return FileChange(step.path, "deleted")
        case _, "absent":
            return FileChange(step.path, "created", directory=step.state == "directory")
    return FileChange(step.path, "modified")


def remove_empty(changes: Changes, paths: Iterable[str]) -> None:
    """Remove those of these directories that are empty, the innermost first."""
    for path in sorted(paths, reverse=True):
        with contextlib.suppress(ToolError, OSError), changes.target(path, exact=True) as target:
            os.rmdir(target.place.name, dir_fd=target.place.dir_fd)


def refuse_full_disk(changes: Changes, steps: Sequence[FileReplacement]) -> None:
    """Raise while there is no room for what is to come back: the old content stays until the new one is there."""
    wanted = sum(step.size_bytes for step in steps if step.digest)
    free = os.statvfs(changes.roots.workspace)
    if wanted and wanted + ROOM > free.f_bavail * free.f_frsize:
        raise FileFailed(
            f"{wanted:,} bytes are to be written, and the disk has no room. Nothing was changed."
        )


def record_move(
    backups: Backups, dirs: BackupDirectory, relocation: FileMove, call: Call, action: str, batch: str
) -> Record:
    """Note both ends of a move that is about to be made; gives the record of what leaves."""

    def end(path: str, other: str, before: State) -> Record:
        record = Record.new(path, action, call, before, mode=relocation.mode, other=other, batch=batch)
        return backups.record(dirs, record)

    leaving = end(relocation.source, relocation.destination, relocation.state)
    end(relocation.destination, relocation.source, "absent")
    return leaving


def record_replacement(
    changes: Changes, dirs: BackupDirectory, step: FileReplacement, call: Call, action: str, batch: str
) -> Record:
    """Back up what a step replaces, and note what it is about to leave."""
    call.token.raise_if_cancelled()
    record = Record.new(step.path, action, call)
    now = content_key("absent")
    with contextlib.suppress(FileMissing):  # its directory is gone, too
        if step.at:
            with changes.target(step.at, exact=True) as target:
                now, seen = read_state(changes, target)
                refuse_unsaved(call, changes.roots, target.place, seen)
                record = changes.back_up(dirs, Change(target, action, seen, None), call)
    if now != step.now:
        raise refuse_changed(step.path)
    return changes.backups.record(dirs, replace(record, path=step.path, after=step.content_key, batch=batch))


def move_file(changes: Changes, relocation: FileMove, call: Call) -> list[str]:
    """Move one file or directory to its free name; gives the directories made for it."""
    made = changes.make_parents(relocation.destination)
    with (
        changes.target(relocation.source, exact=True) as here,
        changes.target(relocation.destination, exact=True) as there,
    ):
        for target in (here, there):
            changes.refuse_unsaved(target, call)
        try:
            rename_new(here.place.dir_fd, here.place.name, there.place.dir_fd, there.place.name)
        except FileExistsError:
            raise refuse_changed(relocation.destination) from None
        except FileNotFoundError:
            raise refuse_changed(relocation.source) from None
        except OSError as error:
            raise explain_os_error(error, relocation.source) from None
        sync_names(there.place.dir_fd)
        sync_names(here.place.dir_fd)
    return made


def replace_file(
    changes: Changes, dirs: BackupDirectory, step: FileReplacement, record: Record, call: Call
) -> list[str]:
    """Carry out one step; returns the directories made for it."""
    made = changes.make_parents(step.path) if step.state != "absent" else []
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(changes.target(step.path, exact=True))
        now, seen = read_state(changes, target)
        if now != step.now:
            raise refuse_changed(step.path)
        content = read_stored(changes, step, stack) if step.state == "file" else None
        change = Change(target, record.action, seen, content, step.mode, step.link, record)
        made_file = changes.write_draft(change, dirs, stack, call)
        if made_file is not None and made_file.digest != step.digest:
            raise BackupRefused(f"The backup of {step.path!r} is damaged, so nothing was changed.")
        changes.publish(change, made_file, dirs)
    return made


def read_stored(changes: Changes, step: FileReplacement, stack: contextlib.ExitStack) -> bytes | int:
    """The content that a step restores, from the backups: its verified bytes, or the open file when it is large."""
    digest = step.digest or ""
    if step.size_bytes <= MAX_EDIT_BYTES:
        return changes.backups.content(digest)
    top = existing(changes.backups.workspace, "objects", stack)
    with explaining(step.path):
        fd = os.open(digest, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    stack.callback(os.close, fd)
    return fd


def read_state(changes: Changes, target: Target) -> tuple[str, FileState | None]:
    """The content key of a place, and its snapshot."""
    seen = changes.see(target)
    if seen is None:
        return content_key("absent"), None
    if seen.link is not None:
        return content_key("link", link=seen.link), seen
    if seen.data is not None:
        return content_key("file", hashlib.sha256(seen.data).hexdigest()), seen
    return content_key("file", digest_of(changes.roots.open_place(target.place, target.path))), seen
