"""Changing files: backed up first, checked against what was read, all of a set or none of it."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Sequence

from jaato.errors import ToolError
from jaato.tools.call import Call
from jaato.tools.file_errors import FileFailed, explained
from jaato.tools.files.backups import Backups
from jaato.tools.files.disk import settle
from jaato.tools.files.records import Record, held, state_of
from jaato.tools.files.replace import Draft, Seen, draft, take_away
from jaato.tools.files.shelf import Shelf
from jaato.tools.files.targets import Change, Target, Targets
from jaato.tools.files.told import tell
from jaato.tools.paths import Roots


class Changes(Targets):
    """Every change of files beneath some roots goes through here, one at a time. Raises `ToolError`s."""

    def __init__(self, roots: Roots, backups: Backups) -> None:
        super().__init__(roots)
        self.backups = backups
        self.lock = threading.RLock()

    def commit(self, changes: Sequence[Change], call: Call) -> None:
        """Make every change or none: all are backed up and written first, then they appear."""
        with self.lock, self.backups.open() as shelf, contextlib.ExitStack() as drafts:
            begun = ""
            try:
                before = [self.kept(shelf, change, call) for change in changes]
                ready = [self.written(change, shelf, drafts, call) for change in changes]
                for change, record, made in zip(changes, before, ready, strict=True):
                    whole = record_with(record, {"after": left(change, made)})
                    change.record = self.backups.record(shelf, whole)
                if len(changes) > 1:
                    begun = self.backups.begin(shelf, [one.record for one in changes if one.record])
                with self.roots.changing(change.target.place for change in changes):
                    for change, made in zip(changes, ready, strict=True):
                        self.publish(change, made, shelf)
                self.backups.end(shelf, begun)
                tell(call, changes)
            except BaseException as error:
                stuck = self._roll_back(changes, shelf)
                self.backups.end(shelf, begun)
                if stuck:
                    tell(call, [change for change in changes if change.done])
                    raise FileFailed(
                        f"{error} Besides, not everything could be put back: {'; '.join(stuck)}."
                    ) from error
                raise

    def remember(self, shelf: Shelf, change: Change, call: Call, other: str) -> Record:
        """Back up what something moved here will replace, and note that it is about to."""
        return self.backups.record(shelf, self.kept(shelf, change, call, other))

    def kept(self, shelf: Shelf, change: Change, call: Call, other: str | None = None) -> Record:
        """Back up what a change will replace or remove; the record of it is not yet written."""
        target, seen = change.target, change.seen
        record = Record(
            id="",
            path=target.label,
            action=change.action,
            time=0.0,
            before="absent",
            other=other,
            made=list(change.made),
            call_id=call.id,
            session_id=call.session_id,
        )
        if seen is None:
            return record
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
        return record_with(record, fields)

    def _keep(self, shelf: Shelf, target: Target, seen: Seen) -> tuple[str, int]:
        """The content of what was seen, in the backups."""
        if seen.data is not None:
            return self.backups.keep(shelf, seen.data)
        fd = self.roots.open_place(target.place, target.path)
        try:
            return self.backups.keep(shelf, fd)
        finally:
            os.close(fd)

    def written(self, change: Change, shelf: Shelf, drafts: contextlib.ExitStack, call: Call) -> Draft | None:
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
            go_on=call.token.raise_if_cancelled,
        )
        change.notes.extend(made.notes)
        return drafts.enter_context(made)

    def publish(self, change: Change, made: Draft | None, shelf: Shelf) -> None:
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


def left(change: Change, made: Draft | None) -> str:
    """What a change leaves at its place, as records say it."""
    if made is not None:
        return held("file", made.digest)
    return held("absent") if change.link is None else held("link", link=change.link)


def record_with(record: Record, fields: dict[str, object]) -> Record:
    """The record with some fields set."""
    import msgspec

    return msgspec.structs.replace(record, **fields)
