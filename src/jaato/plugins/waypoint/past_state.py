"""Computes what files held at an earlier time by replaying a session's backup records backwards."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from jaato.errors import ToolError
from jaato.tools.filesystem.atomic import is_below
from jaato.tools.filesystem.backup_directory import Record, State, content_key, state_of
from jaato.tools.filesystem.backups import MAX_FILE_BYTES
from jaato.tools.filesystem.changes import SAVING, Changes
from jaato.tools.filesystem.errors import FileMissing
from jaato.tools.filesystem.transactions import FileMove
from jaato.tools.filesystem.undo import digest_of, is_moved

EDITED = "somebody else has changed it since"
AMID = "somebody else has changed it between two changes of this session"
ANOTHER = "another session has changed it since"
OCCUPIED = "{path!r} is there again, so it cannot be moved back"
GONE = "somebody else has moved or removed it"
HUGE = f"it is larger than the {MAX_FILE_BYTES >> 20} MiB that can be backed up"
PROTECTED = "it decides what runs later, so only the user can take it back"
MAY_BE_FORCED = (EDITED, AMID, ANOTHER)


@dataclass(frozen=True, slots=True)
class PathContent:
    """The content of a path, now or at an earlier time. `origin` is where on the disk it still is under its own name; `unknown` says why it
    cannot be determined."""

    state: State = "absent"
    digest: str | None = None
    link: str | None = None
    mode: int = 0
    size_bytes: int = 0
    origin: str = ""
    unknown: str = ""

    @property
    def content_key(self) -> str:
        """The same as records say it; nothing is equal to what is not known."""
        return f"unknown:{self.unknown}" if self.unknown else content_key(self.state, self.digest, self.link)

    @property
    def is_huge(self) -> bool:
        """Whether it is a file too large to be backed up."""
        return self.digest == ""


ABSENT = PathContent()


def read_path(changes: Changes, path: str) -> PathContent:
    """The content of a path now; unknown when it cannot be read, or is neither file, link nor directory."""
    try:
        with changes.target(path, exact=True) as target:
            info = target.place.info
            if info is None:
                return ABSENT
            mode = stat.S_IMODE(info.st_mode)
            state = state_of(info.st_mode)
            if state == "directory":
                return PathContent("directory", mode=mode, origin=path)
            if state == "link":
                link = os.readlink(target.place.name, dir_fd=target.place.dir_fd)
                return PathContent("link", link=link, origin=path)
            fd = changes.roots.open_place(target.place, path)
            if info.st_size > MAX_FILE_BYTES:
                os.close(fd)
                return PathContent("file", "", mode=mode, size_bytes=info.st_size, origin=path)
            return PathContent("file", digest_of(fd), None, mode, info.st_size, path)
    except FileMissing:
        return ABSENT
    except ToolError as error:
        return PathContent(unknown=str(error))
    except OSError as error:
        return PathContent(unknown=error.strerror or str(error))


@dataclass
class PastState:
    """The files of one session as they were, from now on backwards. `trouble` says, by group of paths that were moved into
    each other, why they are not what the session left."""

    look: Callable[[str], PathContent]
    foreign: frozenset[str] = frozenset()
    """Paths that other sessions have changed meanwhile."""
    protected: Callable[[str], bool] = lambda _path: False
    """Whether a path is one that must stay."""
    contents: dict[str, PathContent] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    trouble: dict[int, str] = field(default_factory=dict)
    moved: list[FileMove] = field(default_factory=list)
    """Directories to be moved back, in this order."""
    stuck: list[tuple[str, str, str]] = field(default_factory=list)
    """Directories that cannot be, both names and why."""
    born: set[str] = field(default_factory=set)
    """Paths at which nothing was for a while."""
    made: set[str] = field(default_factory=set)
    """Directories that were made for what is taken back."""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def now_at(self, path: str) -> str | None:
        """The name on the disk of what has this name before the directories moved; None for nothing."""
        for one in reversed(self.moved):
            if is_below(path, one.destination):
                path = one.source + path[len(one.destination) :]
            elif is_below(path, one.source):
                return None
        return path

    def at(self, path: str) -> PathContent:
        """The content of a path at the time reached."""
        if path in self.contents:
            return self.contents[path]
        place = self.now_at(path)
        return ABSENT if place is None else self.look(place)

    def go_back(self, records: Sequence[Record]) -> None:
        """Take records back, which are given oldest first. What the user had not saved when a file was first changed stays:
        the change found it."""
        partners = {arriving.id: leaving for leaving, arriving in pair_moves(records)}
        first = {record.path: record.id for record in reversed(records)}
        for record in reversed(records):
            if record.action == SAVING and first[record.path] == record.id:
                self.made |= set(record.made)
            elif record.other is None:
                self._edit(record)
            elif (leaving := partners.get(record.id)) is not None:
                self._move(leaving, record)

    def _edit(self, record: Record) -> None:
        """Take back a change of one path."""
        path, now = record.path, self.at(record.path)
        if now.content_key == record.content_key:
            return  # it is not in effect
        first = path not in self.groups
        self.made |= set(record.made)
        self._group(path)
        after = record.after or ("absent" if record.before == "directory" else None)
        if record.before == "directory" and now.state != "absent":
            self._blame(path, now.unknown or OCCUPIED.format(path=path))
        elif now.is_huge:
            self._blame(path, HUGE)
        elif now.content_key != after:
            reason = ANOTHER if path in self.foreign else EDITED if first else AMID
            self._blame(path, now.unknown or reason)
        if "absent" in (record.content_key, after):
            self.born.add(path)
        self.contents[path] = PathContent(
            record.before, record.digest, record.link, record.mode, record.size_bytes
        )

    def _move(self, leaving: Record, arriving: Record) -> None:
        """Take back a move."""
        source, destination = leaving.path, arriving.path
        before, moved = self.at(source), self.at(destination)
        if before.state != "absent" and moved.content_key == arriving.content_key:
            return  # it is not in effect
        if leaving.before == "directory":
            self._move_directory(leaving, arriving, before, moved)
            return
        self._group(source, destination)
        self.made |= set(arriving.made)
        if before.unknown or before.state != "absent":
            self._blame(source, before.unknown or OCCUPIED.format(path=source))
        elif moved.unknown or moved.state != leaving.before:
            self._blame(destination, moved.unknown or GONE)
        self.contents[source] = moved
        self.contents[destination] = PathContent(
            arriving.before, arriving.digest, arriving.link, arriving.mode, arriving.size_bytes
        )
        self.born.add(source)

    def _move_directory(
        self, leaving: Record, arriving: Record, before: PathContent, moved: PathContent
    ) -> None:
        """Take back the move of a directory: what is known below its name gets the old one."""
        source, destination = leaving.path, leaving.other or ""
        inside = [path for path in {*self.contents, *self.groups} if is_below(path, source)]
        below = any(self.at(path).state != "absent" for path in inside if path != source)
        place = self.now_at(source)
        if before.state == "directory" and place is not None and self.look(place).content_key == "absent":
            before = ABSENT  # it came and went meanwhile
        reason = ""
        if moved.state != "directory":
            reason = GONE
        elif before.content_key != "absent" or below:
            reason = OCCUPIED.format(path=source)
        elif self.protected(source) or self.protected(destination):
            reason = PROTECTED
        if reason:
            self.stuck.append((source, destination, before.unknown or moved.unknown or reason))
            self._reach(list(self.groups))
            return

        for path in inside:  # those names mean something else from here on
            self.contents.pop(path, None)
            self.groups.pop(path, None)
            self.born.discard(path)

        def old(path: str) -> str:
            return source + path[len(destination) :] if is_below(path, destination) else path

        self.contents = {old(path): one for path, one in self.contents.items()}
        self.groups = {old(path): one for path, one in self.groups.items()}
        self.born = {old(path) for path in self.born}
        self.made = {old(path) for path in self.made} | set(arriving.made)
        self.stuck = [(there, old(here), reason) for there, here, reason in self.stuck]
        if not moved.origin:
            return  # it was removed since, with all that was in it: it will be made under the old name
        if self.moved and (self.moved[-1].source, self.moved[-1].destination) == (source, destination):
            self.moved.pop()  # there and back
        else:
            self.moved.append(FileMove(destination, source, "directory", moved.mode))

    def _group(self, *paths: str) -> None:
        """These paths belong together."""
        known = {self.groups[path] for path in paths if path in self.groups}
        number = min(known, default=0) or next(self._numbers)
        for path in [*paths, *(path for path, one in self.groups.items() if one in known)]:
            self.groups[path] = number
        reasons = [self.trouble.pop(one) for one in sorted(known) if one in self.trouble]
        if reasons:
            self.trouble[number] = reasons[0]
        self._reach(paths)

    def _reach(self, paths: Iterable[str]) -> None:
        """Note which of these paths are below a directory that cannot be moved back."""
        for source, destination, reason in self.stuck:
            for path in paths:
                if is_below(path, source) or is_below(path, destination):
                    self._blame(path, reason)

    def _blame(self, path: str, reason: str) -> None:
        """Note the newest trouble of a path and those that belong to it; what cannot be helped first."""
        known = self.trouble.get(self.groups[path])
        if known is None or (known in MAY_BE_FORCED and reason not in MAY_BE_FORCED):
            self.trouble[self.groups[path]] = reason

    def spare_directories(self) -> list[str]:
        """Those that were made for what is taken back, but for those that move: they will be looked for."""
        moving = [path for one in self.moved for path in (one.source, one.destination)]
        return sorted(
            path
            for path in self.made
            if not any(is_below(path, other) or is_below(other, path) for other in moving)
        )

    def problem(self, path: str) -> str:
        """Why a path is not what the session left, or cannot be reached; empty for none."""
        return self.trouble.get(self.groups.get(path, 0), "")


def pair_moves(records: Iterable[Record]) -> Iterator[tuple[Record, Record]]:
    """Both records of each move: what left and what arrived."""
    waiting: dict[tuple[str, str], Record] = {}
    for record in records:
        if is_moved(record):
            waiting[record.path, record.other or ""] = record
        elif record.other is not None and (record.other, record.path) in waiting:
            yield waiting.pop((record.other, record.path)), record
