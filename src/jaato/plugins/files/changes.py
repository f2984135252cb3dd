"""Changing files: backed up first, checked against what was read, all of a set or none of it."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from jaato.errors import ToolError
from jaato.plugins.files.backups import Backups, Record, Shelf, state_of
from jaato.plugins.files.disk import settle
from jaato.plugins.files.replace import Draft, Seen, draft, take_away
from jaato.plugins.files.text import Form, form_of
from jaato.tools.beneath import FileFailed, FileMissing, PathRefused, Place, explained
from jaato.tools.call import Call
from jaato.tools.paths import Roots, special

MAX_EDIT_BYTES = 64 << 20


class TooLarge(ToolError):
    """The file is larger than can be edited in memory."""

    code = "file_too_large"


@dataclass(frozen=True, slots=True)
class Target:
    """A place to change: how the caller named it, and its true name (relative in the workspace)."""

    path: str
    place: Place
    label: str

    @property
    def info(self) -> os.stat_result:
        """What is there. Raises `FileMissing` when nothing is."""
        if self.place.info is None:
            raise FileMissing(f"{self.path!r} does not exist. Look for it with list_directory or glob_files.")
        return self.place.info


@dataclass(frozen=True, slots=True)
class Loaded:
    """A text file as it was read, ready to be edited."""

    target: Target
    seen: Seen
    form: Form
    text: str


@dataclass(slots=True)
class Change:
    """One step: `content` (bytes, or an open file to copy) in place of what was `seen`; None removes it."""

    target: Target
    action: str
    seen: Seen | None
    content: bytes | int | None
    mode: int | None = None
    link: str | None = None
    record: Record | None = None
    notes: list[str] = field(default_factory=list)
    published: Seen | None = None
    done: bool = False


class Changes:
    """Every change of files beneath some roots goes through here, one at a time. Raises `ToolError`s."""

    def __init__(self, roots: Roots, backups: Backups) -> None:
        self.roots = roots
        self.backups = backups
        self.lock = threading.RLock()

    @contextlib.contextmanager
    def target(self, path: str, *, follow: bool = True) -> Iterator[Target]:
        """Where a path leads, for a change. Refuses a root, and a control path that hides behind a link."""
        with self.roots.locate(path, follow=follow) as place:
            if place.is_root:
                raise PathRefused(f"{path!r} is a root directory itself; name something in it.")
            if self.roots.hides_control(path, place):
                raise PathRefused(
                    f"{path!r} leads by a link to {self.label(place)!r}, which is protected. Name it itself."
                )
            yield Target(path, place, self.label(place))

    def label(self, place: Place) -> str:
        """The true name of a place: relative in the workspace, else absolute."""
        inside = place.root.path == self.roots.workspace
        return str(PurePosixPath(*place.parts)) if inside else str(place.path)

    def load(self, target: Target) -> Loaded:
        """Read a text file to edit it. Raises `TooLarge` and `NotText` too."""
        seen = self.see(target)
        if seen is None or seen.data is None:
            raise TooLarge(
                f"{target.path!r} has {target.info.st_size} bytes; at most {MAX_EDIT_BYTES} can be edited."
            )
        form = form_of(seen.data)
        return Loaded(target, seen, form, form.decode(seen.data))

    def see(self, target: Target) -> Seen | None:
        """What is at a target now, read if it is a file of bearable size; None when nothing is."""
        info = target.place.info
        if info is None:
            return None
        if stat.S_ISLNK(info.st_mode):
            try:
                return Seen(info, link=os.readlink(target.place.name, dir_fd=target.place.dir_fd))
            except OSError as error:
                raise explained(error, target.path) from None
        if stat.S_ISDIR(info.st_mode):
            raise PathRefused(
                f"{target.path!r} is a directory, not a file; list_directory shows what is in it."
            )
        if not stat.S_ISREG(info.st_mode):
            raise special(target.path, info.st_mode)
        with os.fdopen(self.roots.open_place(target.place, target.path), "rb", buffering=0) as file:
            info = os.fstat(file.fileno())
            if info.st_size > MAX_EDIT_BYTES:
                return Seen(info)
            try:
                return Seen(info, file.readall())
            except OSError as error:
                raise explained(error, target.path) from None

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
                        os.mkdir(target.place.name, 0o777, dir_fd=target.place.dir_fd)
                    except FileExistsError:
                        continue
                    except OSError as error:
                        raise explained(error, step) from None
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
        with self.lock, self.backups.open() as shelf, contextlib.ExitStack() as drafts:
            try:
                for change in changes:
                    change.record = self.remember(shelf, change, call)
                ready = [self._draft(change, shelf, drafts) for change in changes]
                for change, made in zip(changes, ready, strict=True):
                    self._publish(change, made, shelf)
            except BaseException as error:
                stuck = self._roll_back(changes, shelf)
                if stuck:
                    raise FileFailed(
                        f"{error} Besides, not everything could be put back: {'; '.join(stuck)}."
                    ) from error
                raise

    def remember(self, shelf: Shelf, change: Change, call: Call, other: str | None = None) -> Record:
        """Back up what a change will replace or remove, and note that it is about to."""
        target, seen = change.target, change.seen
        record = Record(
            id="",
            path=target.label,
            action=change.action,
            time=0.0,
            before="absent",
            other=other,
            call_id=call.id,
            session_id=call.session_id,
        )
        if seen is None:
            return self.backups.record(shelf, record)
        fields: dict[str, object] = {
            "before": state_of(seen.info.st_mode),
            "mode": stat.S_IMODE(seen.info.st_mode),
        }
        if seen.link is not None:
            fields["link"] = seen.link
        elif stat.S_ISREG(seen.info.st_mode):
            fields["digest"], fields["size_bytes"] = self._keep(shelf, target, seen)
            if seen.info.st_nlink > 1:
                change.notes.append(
                    f"the file had {seen.info.st_nlink} hard links; only this one has changed, "
                    "the others keep the old content"
                )
        return self.backups.record(shelf, record_with(record, fields))

    def _keep(self, shelf: Shelf, target: Target, seen: Seen) -> tuple[str, int]:
        """The content of what was seen, in the backups."""
        if seen.data is not None:
            return self.backups.keep(shelf, seen.data)
        fd = self.roots.open_place(target.place, target.path)
        try:
            return self.backups.keep(shelf, fd)
        finally:
            os.close(fd)

    def _draft(self, change: Change, shelf: Shelf, drafts: contextlib.ExitStack) -> Draft | None:
        """The new content, on disk but not yet in its place."""
        if change.content is None:
            return None
        seen = change.seen
        like = seen.info if seen is not None and stat.S_ISREG(seen.info.st_mode) else None
        made = draft(
            change.target.place,
            change.target.path,
            change.content,
            shelf.staging,
            like=like,
            mode=change.mode,
        )
        change.notes.extend(made.notes)
        return drafts.enter_context(made)

    def _publish(self, change: Change, made: Draft | None, shelf: Shelf) -> None:
        """Let one change appear."""
        place = change.target.place
        if made is None:
            if change.seen is not None:
                take_away(place, change.target.path, change.seen, shelf.staging)
                change.done = True
            if change.link is not None:
                try:
                    os.symlink(change.link, place.name, dir_fd=place.dir_fd)
                    change.published = Seen(
                        os.stat(place.name, dir_fd=place.dir_fd, follow_symlinks=False), link=change.link
                    )
                except OSError as error:
                    raise explained(error, change.target.path) from None
                settle(place.dir_fd)
        else:
            data = change.content if isinstance(change.content, bytes) else None
            if change.seen is None:
                made.publish_new()
            else:
                made.publish_over(change.seen)
            change.published = Seen(os.fstat(made.fd), data)
        change.done = True

    def _roll_back(self, changes: Sequence[Change], shelf: Shelf) -> list[str]:
        """Put back what has appeared already, last first; says what could not be."""
        stuck: list[str] = []
        for change in reversed(changes):
            if change.done:
                try:
                    self._put_back(change, shelf)
                except (ToolError, OSError):
                    backup = change.record.id if change.record else "none"
                    stuck.append(f"{change.target.label!r} (backup {backup}; restoreFile brings it back)")
                    continue
            if change.record is not None:
                self.backups.forget(shelf, change.record)
        return stuck

    def _put_back(self, change: Change, shelf: Shelf) -> None:
        """Undo one published change, unless somebody has changed the file since."""
        place, path, seen = change.target.place, change.target.path, change.seen
        if seen is None or seen.link is not None:
            if change.published is not None:
                take_away(place, path, change.published, shelf.staging)
            if seen is not None and seen.link is not None:
                os.symlink(seen.link, place.name, dir_fd=place.dir_fd)
            return
        digest = change.record.digest if change.record else None
        data = seen.data if seen.data is not None else self.backups.content(digest or "")
        with draft(
            place, path, data, shelf.staging, like=seen.info, mode=stat.S_IMODE(seen.info.st_mode)
        ) as old:
            if change.published is not None:
                old.publish_over(change.published)
            else:
                old.publish_new()


def record_with(record: Record, fields: dict[str, object]) -> Record:
    """The record with some fields set."""
    import msgspec

    return msgspec.structs.replace(record, **fields)
