"""The files beneath a directory in the order of their paths, without hidden and ignored ones and links."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from jaato.errors import CancelledException, ToolError
from jaato.plugins.search.globs import Rule, rules_of
from jaato.tools.cancel import CancelToken
from jaato.tools.paths import Roots

MAX_DEPTH = 128
MAX_ENTRIES = 500_000
MAX_IGNORE_BYTES = 1 << 20
TIME_LIMIT_S = 20.0
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Limits:
    """What ends a walk early, and why it did."""

    token: CancelToken
    ends_at: float = field(default_factory=lambda: time.monotonic() + TIME_LIMIT_S)
    entries: int = 0
    stopped: str | None = None
    unread: list[str] = field(default_factory=list)

    @property
    def left_s(self) -> float:
        """The seconds that are left."""
        return self.ends_at - time.monotonic()

    def go_on(self) -> bool:
        """Whether to go on; raises `CancelledException` when the call was cancelled."""
        if self.token.is_cancelled:
            raise CancelledException("The search was cancelled.")
        if self.stopped is None and self.left_s <= 0:
            self.stopped = f"it took longer than {TIME_LIMIT_S:.0f} s"
        if self.stopped is None and self.entries > MAX_ENTRIES:
            self.stopped = f"there are more than {MAX_ENTRIES:,} files and directories"
        return self.stopped is None


@dataclass(frozen=True, slots=True)
class Found:
    """A file: its names below the start, and the open directory it stands in while the walk is there."""

    names: tuple[str, ...]
    dir_fd: int

    def open(self) -> int | None:
        """A descriptor of the regular file for reading; None when it is no longer one or may not be read."""
        try:
            fd = os.open(self.names[-1], OPEN_FILE, dir_fd=self.dir_fd)
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        return None


Ignore = tuple[int, list[Rule]]
"""Rules, and how many names of a path (below the root) come before what they speak of."""


@dataclass(slots=True)
class Level:
    """A directory on the way down: what is left of its entries, and the rules that hold in it."""

    fd: int
    names: tuple[str, ...]
    entries: Iterator[tuple[str, bool]]
    rules: tuple[Ignore, ...]


def is_ignored(names: Sequence[str], is_directory: bool, rules: Sequence[Ignore]) -> bool:
    """Whether the last rule that speaks of this path ignores it; rules of deeper directories come first."""
    for depth, own in reversed(rules):
        below = names[depth:]
        for rule in reversed(own):
            if rule.fits(below, is_directory):
                return not rule.keeps
    return False


def read_rules(dir_fd: int, name: str = ".gitignore") -> list[Rule]:
    """The rules of a directory's .gitignore, none when there is no sensible one."""
    try:
        fd = os.open(name, OPEN_FILE, dir_fd=dir_fd)
    except OSError:
        return []
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_IGNORE_BYTES:
            return []
        return rules_of(file.read(MAX_IGNORE_BYTES).decode("utf-8", "surrogateescape"))


class Walk:
    """One walk; iterate it once. `hidden` takes names with a leading dot too, `ignored` what .gitignore leaves out.

    `.git` is never entered. Directories are held open on the way down, so nothing outside is reached by moving them.
    """

    def __init__(self, roots: Roots, start: str, limits: Limits, *, hidden: bool, ignored: bool) -> None:
        self.roots = roots
        self.start = start
        self.limits = limits
        self.hidden = hidden
        self.ignored = ignored
        self.left_out = 0
        with roots.locate(start) as place:
            self.root: Path = place.root.path
            self.base: tuple[str, ...] = place.parts

    def __iter__(self) -> Iterator[Found]:
        """Every file, in the order of the names of its path."""
        levels = [self.first()]
        try:
            while levels:
                if not self.limits.go_on():
                    return
                level = levels[-1]
                entry = next(level.entries, None)
                if entry is None:
                    os.close(levels.pop().fd)
                    continue
                name, is_directory = entry
                self.limits.entries += 1
                names = (*level.names, name)
                if level.rules and is_ignored((*self.base, *names), is_directory, level.rules):
                    self.left_out += 1
                    continue
                if not is_directory:
                    yield Found(names, level.fd)
                    continue
                below = self.enter(level, names)
                if below is not None:
                    levels.append(below)
        finally:
            for level in levels:
                os.close(level.fd)

    def first(self) -> Level:
        """The start, with the rules of every directory between the root and it."""
        rules: list[Ignore] = []
        root = str(self.root)
        if not self.ignored:
            rules += self.above(0, PurePosixPath(root, ".git", "info"), "exclude")
            for depth in range(len(self.base)):
                rules += self.above(depth, PurePosixPath(root, *self.base[:depth]), ".gitignore")
        fd = self.roots.open_dir(self.start)
        return self.level(fd, (), tuple(rules))

    def above(self, depth: int, directory: PurePosixPath, name: str) -> list[Ignore]:
        """The rules of a file above the start, as far as there is one."""
        try:
            fd = self.roots.open_dir(str(directory))
        except ToolError:
            return []
        try:
            own = read_rules(fd, name)
        finally:
            os.close(fd)
        return [(depth, own)] if own else []

    def level(self, fd: int, names: tuple[str, ...], rules: tuple[Ignore, ...]) -> Level:
        """The directory read: its entries in order, and its own rules after those above."""
        own = [] if self.ignored else read_rules(fd)
        if own:
            rules = (*rules, (len(self.base) + len(names), own))
        entries: list[tuple[str, bool]] = []
        try:
            with os.scandir(fd) as listing:
                for entry in listing:
                    if entry.name == ".git" or (entry.name.startswith(".") and not self.hidden):
                        continue
                    is_directory = entry.is_dir(follow_symlinks=False)
                    if is_directory or entry.is_file(follow_symlinks=False):
                        entries.append((entry.name, is_directory))
        except OSError:
            self.limits.unread.append("/".join(names) or ".")
        return Level(fd, names, iter(sorted(entries)), rules)

    def enter(self, level: Level, names: tuple[str, ...]) -> Level | None:
        """The directory below; None when it cannot be read or lies too deep."""
        fd = None
        if len(names) <= MAX_DEPTH:
            try:
                fd = os.open(names[-1], OPEN_DIRECTORY, dir_fd=level.fd)
            except OSError:
                fd = None
        if fd is None:
            self.limits.unread.append("/".join(names))
            return None
        return self.level(fd, names, level.rules)
