"""Apply changes to files: each is backed up first and checked against what was read; all of a set happen, or none."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from msgspec.structs import replace

from jaato.errors import ToolError
from jaato.protocol.specs import FileChange
from jaato.tools.call import Call
from jaato.tools.filesystem.atomic import sync_names
from jaato.tools.filesystem.atomic_replace import FileState, PendingFile, draft, take_away
from jaato.tools.filesystem.backup_directory import BackupDirectory, Record, content_key, state_of
from jaato.tools.filesystem.backups import Backups
from jaato.tools.filesystem.client_files import (
    MAX_TEXT_BYTES,
    Buffer,
    check_no_buffer,
    files_of,
    read_buffer,
    refuse_unsaved,
    write_by_client,
)
from jaato.tools.filesystem.containment import Roots
from jaato.tools.filesystem.errors import (
    FileFailed,
    FileMissing,
    PathRefused,
    RollbackFailed,
    explain_os_error,
    explaining,
    file_missing,
)
from jaato.tools.filesystem.safe_open import ResolvedPath
from jaato.tools.filesystem.text_encoding import Form, form_of

MAX_EDIT_BYTES = 64 << 20
SAVING = "save"
"""The action of records of unsaved text that was edited: as if the user had saved it just before."""


class TooLarge(ToolError):
    """The file is larger than can be edited in memory."""

    code = "file_too_large"


@dataclass(frozen=True, slots=True)
class Target:
    """A place to change: how the caller named it, and its true name (relative in the workspace)."""

    path: str
    place: ResolvedPath
    label: str

    @property
    def info(self) -> os.stat_result:
        """The `lstat` of the place. Raises `FileMissing` when it is absent."""
        if self.place.info is None:
            raise file_missing(self.path)
        return self.place.info


@dataclass(frozen=True, slots=True)
class Loaded:
    """A text file as it was read, ready to be edited: with what is unsaved in the `buffer` of a client that serves files."""

    target: Target
    seen: FileState
    form: Form
    text: str
    buffer: Buffer | None = None


@dataclass(slots=True)
class Change:
    """One step: `content` (bytes, or an open file to copy) in place of what was `seen`; None removes it. Where a client serves
    the file, `buffer` is what it has."""

    target: Target
    action: str
    seen: FileState | None
    content: bytes | int | None
    mode: int | None = None
    link: str | None = None
    record: Record | None = None
    saving: Record | None = None
    """The record of what the disk held, where unsaved text was edited: as if that had been saved first."""
    made: Sequence[str] = ()
    """The directories that were made for it."""
    notes: list[str] = field(default_factory=list)
    published: FileState | None = None
    done: bool = False
    buffer: Buffer | None = None
    kept: bool = False
    """Whether its records stay though it failed: the file is not as it was."""


MAX_COUNTED_BYTES = 1 << 20
"""Of how large a file lines are counted."""
MAX_REPORTED = 500
MAX_PATH_CHARS = 1_000


def record_changes(call: Call, changes: Iterable[Change]) -> None:
    """Note changes that have appeared; a file that was written as it was is none."""
    for change in changes:
        reported = to_file_change(change)
        if reported is not None:
            call.changed.append(reported)


def to_file_change(change: Change) -> FileChange | None:
    """A change in short."""
    path, seen = change.target.label, change.seen
    old = b"" if seen is None else seen.data
    if change.content is None:
        new = b"" if change.link is None else None
    else:
        new = change.content if isinstance(change.content, bytes) else None
    if seen is None:
        added, _ = count_changed_lines(b"", new)
        return FileChange(path, "created", added, None if added is None else 0)
    if change.content is None and change.link is None:
        _, removed = count_changed_lines(old, b"")
        return FileChange(path, "deleted", None if removed is None else 0, removed)
    if old is not None and old == new:
        return None
    return FileChange(path, "modified", *count_changed_lines(old, new))


def count_changed_lines(old: bytes | None, new: bytes | None) -> tuple[int | None, int | None]:
    """How many lines only the new content has, and how many only the old; None for what is large or no text."""
    if old is None or new is None or max(len(old), len(new)) > MAX_COUNTED_BYTES or b"\0" in old + new:
        return None, None
    before, after = Counter(old.splitlines()), Counter(new.splitlines())
    return (after - before).total(), (before - after).total()


def summarize_changes(changes: Sequence[FileChange]) -> tuple[list[FileChange], int]:
    """One entry for each file, without those created and deleted again, and how many were left out."""
    found: dict[str, FileChange] = {}
    for change in changes:
        before = found.pop(change.path, None)
        now = change if before is None else before.then(change)
        if now is not None:
            found[change.path] = now
    reported = [change for change in found.values() if len(change.path) <= MAX_PATH_CHARS][:MAX_REPORTED]
    return reported, len(found) - len(reported)


class Changes:
    """Changes files below some roots, one change or set of changes at a time. Raises `ToolError`s."""

    def __init__(self, roots: Roots, backups: Backups) -> None:
        self.roots = roots
        self.backups = backups
        self.lock = threading.RLock()

    @contextlib.contextmanager
    def target(self, path: str, *, follow: bool = True, exact: bool = False) -> Iterator[Target]:
        """Where a path leads, for a change. Refuses a root, and a control path that hides behind a link. `exact` is for a true
        name: no link is followed, and one that now leads elsewhere is refused."""
        with self.roots.locate(path, follow=follow and not exact) as place:
            if place.is_root:
                raise PathRefused(f"{path!r} is a root directory itself; name something in it.")
            if self.roots.hides_control(path, place):
                raise PathRefused(
                    f"{path!r} leads by a link to {self.roots.label(place)!r}, which is protected. Name it itself."
                )
            label = self.roots.label(place)
            if exact and label != path:
                raise PathRefused(
                    f"{path!r} now leads by a link to {label!r}; no link is followed here.",
                    ask="remove the link.",
                )
            yield Target(path, place, label)

    @contextlib.contextmanager
    def stage(self) -> Iterator[Staging]:
        """Prepare changes, alone; the directories that were made for them are removed again if this is left by an error."""
        with self.lock, contextlib.ExitStack() as places:
            staging = Staging(self, places)
            try:
                yield staging
            except BaseException:
                self.unmake(staging.made)
                raise

    def load(self, target: Target, call: Call | None = None) -> Loaded:
        """Read a text file to edit it, with what a client of the call's session has not saved. Raises `TooLarge` and `NotText`
        too."""
        seen = self.see(target)
        if seen is None or seen.data is None:
            raise TooLarge(
                f"{target.path!r} has {target.info.st_size} bytes; at most {MAX_EDIT_BYTES} can be edited."
            )
        form = form_of(seen.data)
        text = form.decode(seen.data)
        files = files_of(call) if call is not None else None
        buffer = None
        if files is not None and call is not None:
            buffer = read_buffer(files, self.roots, target.place, text, form, call.token)
            if buffer is not None and buffer.unsaved is not None:
                text = buffer.unsaved
        return Loaded(target, seen, form, text, buffer)

    def load_absent(self, target: Target, call: Call) -> Buffer | None:
        """The buffer of a file that is to be created; None where no client serves files. Raises `UnsavedFile`."""
        files = files_of(call)
        return None if files is None else check_no_buffer(files, target.label, call.token)

    def refuse_unsaved(self, target: Target, call: Call) -> None:
        """Refuse to change a file that a client has other text for. Raises `UnsavedFile`."""
        info = target.place.info
        if files_of(call) is not None and (info is None or stat.S_ISREG(info.st_mode)):
            refuse_unsaved(call, self.roots, target.place, self.see(target))

    def see(self, target: Target) -> FileState | None:
        """A snapshot of a target, with its content up to `MAX_EDIT_BYTES`; None when it is absent."""
        info = target.place.info
        if info is None:
            return None
        if stat.S_ISLNK(info.st_mode):
            with explaining(target.path):
                return FileState(info, link=os.readlink(target.place.name, dir_fd=target.place.dir_fd))
        with os.fdopen(self.roots.open_place(target.place, target.path), "rb", buffering=0) as file:
            info = os.fstat(file.fileno())
            if info.st_size > MAX_EDIT_BYTES:
                return FileState(info)
            with explaining(target.path):
                return FileState(info, file.readall())

    def is_absent(self, path: str) -> bool:
        """Whether nothing has this path, its directory perhaps not either."""
        try:
            with self.roots.locate(path) as place:
                return place.info is None
        except FileMissing:
            return True

    def make_parents(self, path: str) -> list[str]:
        """Make the missing directories above a path; returns those made, outermost first."""
        made: list[str] = []
        root, rest = self.roots.relative(path)
        for parent in reversed(PurePosixPath(rest).parents[:-1]):
            step = str(root / parent)
            with self.target(step) as target:
                if target.place.info is None:
                    try:
                        with self.roots.changing([target.place]):
                            os.mkdir(target.place.name, 0o777, dir_fd=target.place.dir_fd)
                    except FileExistsError:
                        continue
                    except OSError as error:
                        raise explain_os_error(error, step) from None
                    made.append(target.label)
                elif not stat.S_ISDIR(target.place.info.st_mode):
                    raise PathRefused(f"{target.label!r} is not a directory, so nothing can be made in it.")
        return made

    def unmake(self, made: Sequence[str]) -> None:
        """Remove directories that were made for something that then failed, while they are empty."""
        for label in reversed(made):
            with contextlib.suppress(ToolError, OSError), self.target(label) as target:
                os.rmdir(target.place.name, dir_fd=target.place.dir_fd)

    def commit(self, changes: Sequence[Change], call: Call) -> None:
        """Make every change or none: all are backed up and written first, then they appear."""
        with self.lock, self.backups.open() as dirs, contextlib.ExitStack() as drafts:
            for change in changes:
                refuse_unsaved(call, self.roots, change.target.place, change.seen, change.buffer)
            begun = ""
            try:
                before = [self.back_up(dirs, change, call) for change in changes]
                ready = [self.write_draft(change, dirs, drafts, call) for change in changes]
                for change, record, made in zip(changes, before, ready, strict=True):
                    if made is not None:
                        after = content_key("file", made.digest)
                    else:
                        after = content_key("link" if change.link is not None else "absent", link=change.link)
                    if change.buffer is not None and change.buffer.unsaved is not None:
                        record = self._record_saving(dirs, change, record, change.buffer.unsaved)  # noqa: PLW2901
                    change.record = self.backups.record(dirs, replace(record, after=after))
                if len(changes) > 1:
                    begun = self.backups.begin(dirs, [one.record for one in changes if one.record])
                with self.roots.changing(change.target.place for change in changes):
                    for change, made in zip(changes, ready, strict=True):
                        if not self._publish_by_client(change, dirs, call):
                            self.publish(change, made, dirs)
                            if change.buffer is not None:
                                change.buffer.note_disk_written(change.target.label)
                self.backups.end(dirs, begun)
                record_changes(call, changes)
            except BaseException as error:
                stuck = self._roll_back(changes, dirs)
                self.backups.end(dirs, begun)
                if stuck:
                    record_changes(call, [change for change in changes if change.done])
                    raise RollbackFailed(error, stuck) from error
                raise

    def back_up(self, dirs: BackupDirectory, change: Change, call: Call, other: str | None = None) -> Record:
        """Back up what a change will replace or remove; the record of it is not yet written."""
        target, seen = change.target, change.seen
        record = Record.new(target.label, change.action, call, other=other, made=list(change.made))
        if seen is None:
            return record
        mode = seen.info.st_mode
        record = replace(record, before=state_of(mode), mode=stat.S_IMODE(mode), link=seen.link)
        if stat.S_ISREG(mode):
            digest, size = self._keep(dirs, target, seen)
            record = replace(record, digest=digest, size_bytes=size)
            if seen.info.st_nlink > 1:
                change.notes.append(
                    f"the file had {seen.info.st_nlink} hard links; only this one has changed, "
                    "the others keep the old content"
                )
        return record

    def _keep(self, dirs: BackupDirectory, target: Target, seen: FileState) -> tuple[str, int]:
        """The content of what was seen, in the backups."""
        if seen.data is not None:
            return self.backups.keep(dirs, seen.data)
        fd = self.roots.open_place(target.place, target.path)
        try:
            return self.backups.keep(dirs, fd)
        finally:
            os.close(fd)

    def _record_saving(self, dirs: BackupDirectory, change: Change, record: Record, unsaved: str) -> Record:
        """Record that unsaved text takes the place of what the disk holds, and return the record of the change that follows:
        neither is lost."""
        digest, size = self.backups.keep(dirs, unsaved.encode())
        change.saving = self.backups.record(
            dirs, replace(record, action=SAVING, after=content_key("file", digest))
        )
        return replace(record, digest=digest, size_bytes=size, made=[])

    def _publish_by_client(self, change: Change, dirs: BackupDirectory, call: Call) -> bool:
        """Have the client that serves a file write it; whether that has been done. Raises `ToolError`s."""
        buffer, seen, content = change.buffer, change.seen, change.content
        if buffer is None:
            return False
        if buffer.note:
            change.notes.append(buffer.note)
        if (
            not isinstance(content, bytes)
            or len(content) > MAX_TEXT_BYTES
            or not buffer.can_write
            or change.mode is not None
            or (seen is not None and seen.info.st_nlink > 1)
        ):
            return False
        target = change.target
        try:
            written = write_by_client(buffer, self.roots, target.place, seen, content, call.token)
        except FileFailed:
            change.kept = True
            raise
        if written.note:
            change.notes.append(written.note)
        if not written.done:
            change.seen = written.state
            return False
        change.published, change.done = written.state, True
        assert written.state is not None
        if written.state.data != content and written.state.data is not None and change.record is not None:
            change.content = written.state.data
            after = content_key("file", hashlib.sha256(written.state.data).hexdigest())
            change.record = self.backups.amend(dirs, replace(change.record, after=after))
        return True

    def write_draft(
        self, change: Change, dirs: BackupDirectory, drafts: contextlib.ExitStack, call: Call
    ) -> PendingFile | None:
        """The new content, on disk but not yet in its place."""
        if change.content is None:
            return None
        seen = change.seen
        like = seen.info if seen is not None and stat.S_ISREG(seen.info.st_mode) else None
        made = draft(
            change.target.place,
            change.target.path,
            change.content,
            dirs.staging,
            like=like,
            mode=change.mode,
            go_on=call.token.raise_if_cancelled,
        )
        change.notes.extend(made.notes)
        return drafts.enter_context(made)

    def publish(self, change: Change, made: PendingFile | None, dirs: BackupDirectory) -> None:
        """Publish one change."""
        place = change.target.place
        if made is None:
            if change.seen is not None:
                take_away(place, change.target.path, change.seen, dirs.staging)
                change.done = True
            if change.link is not None:
                with explaining(change.target.path):
                    os.symlink(change.link, place.name, dir_fd=place.dir_fd)
                    change.published = FileState(
                        os.stat(place.name, dir_fd=place.dir_fd, follow_symlinks=False), link=change.link
                    )
                sync_names(place.dir_fd)
        else:
            data = change.content if isinstance(change.content, bytes) else None
            if change.seen is None:
                made.publish_new()
            else:
                made.publish_over(change.seen)
            change.published = FileState(os.fstat(made.fd), data)
        change.done = True

    def _roll_back(self, changes: Sequence[Change], dirs: BackupDirectory) -> list[str]:
        """Put back what has appeared already, last first; says what could not be."""
        stuck: list[str] = []
        for change in reversed(changes):
            if change.done:
                try:
                    self._put_back(change, dirs)
                except (ToolError, OSError):
                    backup = change.record.id if change.record else "none"
                    stuck.append(f"{change.target.label!r} (backup {backup}; restoreFile brings it back)")
                    continue
            if change.record is not None and not change.kept:
                self.backups.forget(dirs, change.record)
            if change.saving is not None and not change.kept and not change.done:
                self.backups.forget(dirs, change.saving)
        return stuck

    def _put_back(self, change: Change, dirs: BackupDirectory) -> None:
        """Undo one published change, unless the file has changed since."""
        place, path, seen = change.target.place, change.target.path, change.seen
        if seen is None or seen.link is not None:
            if change.published is not None:
                take_away(place, path, change.published, dirs.staging)
            if seen is not None and seen.link is not None:
                os.symlink(seen.link, place.name, dir_fd=place.dir_fd)
            return
        digest = change.record.digest if change.record else None
        data = seen.data if seen.data is not None else self.backups.content(digest or "")
        if change.buffer is not None and change.buffer.unsaved is not None:
            data = (
                change.buffer.unsaved.encode()
            )  # it may be nowhere else any more; the record `saving` has the rest
        with draft(
            place, path, data, dirs.staging, like=seen.info, mode=stat.S_IMODE(seen.info.st_mode)
        ) as old:
            if change.published is not None:
                old.publish_over(change.published)
            else:
                old.publish_new()


class Staging:
    """The places of some changes, open until they are made, and the directories that were made for them."""

    def __init__(self, changes: Changes, places: contextlib.ExitStack) -> None:
        self._changes = changes
        self._places = places
        self.made: list[str] = []

    def target(self, path: str, *, follow: bool = True, exact: bool = False, parents: bool = False) -> Target:
        """Where a path leads, the missing directories above it made if `parents`. Raises `ToolError`s."""
        if parents:
            self.made += self._changes.make_parents(path)
        return self._places.enter_context(self._changes.target(path, follow=follow, exact=exact))
