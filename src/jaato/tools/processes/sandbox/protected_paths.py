"""Scan for control files that a sandboxed command must not change, and the directories above them."""

from __future__ import annotations

import itertools
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from jaato.errors import ToolError
from jaato.tools.filesystem.atomic import is_below, resolve_path
from jaato.tools.filesystem.control_files import STANDARD, ControlNames, fold_name, match_names
from jaato.tools.processes.sandbox.git_repositories import (
    find_included,
    find_repositories,
    follow_git_file,
    is_bare,
    is_repository,
    list_directory,
    repository_files,
)

RESCAN_SHARE = 50
"""A search is repeated when this many times its own duration has passed: it takes two per cent of the time at most."""

MAX_ENTRIES = 20_000
MAX_LINKED = 200
OWN = frozenset((str(Path(__file__).resolve().parents[3]), os.path.realpath(sys.prefix)))
"""The directories of jaato's own code and of its imports."""


class LinkedControlFile(ToolError):
    """A control file has another name that cannot be found, under which a command could change it."""

    code = "linked_control_file"


class ProtectedPaths(msgspec.Struct, frozen=True):
    """The control files of the first tier as a sandbox needs them, absolute. `fixed` must not change, `pinned` are the
    directories above them, which must not be renamed; both are real. `present` is all that is there, with where it leads
    if it is a link: what is not among it must not appear."""

    pinned: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    present: Mapping[str, str | None] = msgspec.field(default_factory=dict)


class ControlFileScan(msgspec.Struct):
    """The control paths found below some directories."""

    present: dict[str, str | None] = msgspec.field(default_factory=dict)
    fixed: set[str] = msgspec.field(default_factory=set)
    held: set[str] = msgspec.field(default_factory=set)
    """Directories that are control files of their own and in which work goes on, such as `.git`."""

    def add(self, path: str, fixed: bool) -> None:
        """Note a path that is there."""
        try:
            link = os.readlink(path) if os.path.islink(path) else None
        except OSError:
            link = None
        self.present[path] = link
        if fixed:
            self.fixed.add(path)
        elif link is None and os.path.isdir(path):
            self.held.add(path)

    def real(self, paths: Iterable[str]) -> Iterator[str]:
        """Resolve paths; the directory of several is resolved once."""
        directories: dict[str, str] = {}
        for path in paths:
            directory, name = os.path.split(path)
            if self.present.get(path) is not None:
                yield resolve_path(path)
                continue
            if directory not in directories:
                directories[directory] = resolve_path(directory)
            yield f"{directories[directory]}/{name}"


def scan_control_files(root: str, names: ControlNames, found: ControlFileScan) -> None:
    """Note the control files of a directory that is the root of a workspace or of a repository."""
    listing = list_directory(root)
    begins, globbed = names.first.begins, names.first.globbed
    for name in listing:
        path, plain = f"{root}/{name}", fold_name(name)
        if plain == ".git":
            add_git(path, found)
        elif names.first.has(plain):
            found.add(path, True)
        elif plain in begins or globbed:
            for wanted in names.first.paths:
                for below in match_entry(root, name, wanted):
                    found.add(below, not os.path.islink(below))
    if is_bare(set(listing)):
        found.add(f"{root}/HEAD", False)
        repository_files(root, found.add)


def add_git(path: str, found: ControlFileScan) -> None:
    """Note `.git`: a directory in which git works, or a file or link that leads to one."""
    if os.path.isdir(path) and not os.path.islink(path):
        found.add(path, False)
        repository_files(path, found.add)
        return
    found.add(path, True)
    for directory in follow_git_file(path) if not os.path.islink(path) else [resolve_path(path)]:
        repository_files(directory, found.add)


def match_entry(directory: str, name: str, wanted: Sequence[str]) -> Iterator[str]:
    """Match an entry of a directory, or what is below it, with these names; a link stands for its target."""
    if not match_names(wanted[:1], [fold_name(name)]):
        return
    path = f"{directory}/{name}"
    if len(wanted) == 1:
        yield path
        return
    for below in list_directory(path):
        for found in match_entry(path, below, wanted[1:]):
            yield path if os.path.islink(path) else found


def protected_paths(
    roots: Sequence[str],
    repositories: Iterable[str] = (),
    names: ControlNames = STANDARD,
    aliases: Iterable[str] = (),
    home: str = "",
) -> ProtectedPaths:
    """The control files of these real directories and of the repositories below them, and those of the home that lead
    there."""
    found = ControlFileScan()
    for root in (*roots, *homes_in(roots, home), *repositories):
        scan_control_files(root, names, found)
    real = {*found.real(found.fixed), *OWN, *aliases}
    real |= {*follow_links(real), *(path for path in find_kept_elsewhere(home, names) if path not in roots)}
    fixed = {path for path in real if root_of(path, roots) is not None and os.path.exists(path)}
    fixed = {path for path in fixed if not any(above in fixed for above in above_of(path, roots))}
    pinned = {path for path in found.real(found.held) if root_of(path, roots) is not None}
    pinned |= {above for path in (*fixed, *pinned) for above in above_of(path, roots)}
    pinned -= {path for path in pinned if path in fixed or any(one in fixed for one in above_of(path, roots))}
    return ProtectedPaths(tuple(sorted(pinned)), tuple(sorted(fixed)), found.present)


def homes_in(roots: Sequence[str], home: str) -> list[str]:
    """The home, where it lies in one of the roots and has control files of its own there."""
    return [home] if home and home not in roots and root_of(home, roots) is not None else []


def find_kept_elsewhere(home: str, names: ControlNames) -> Iterator[str]:
    """Where the control files of the home really are that links or a configuration of git lead to, as a repository of
    such files keeps them."""
    if not home:
        return
    found = ControlFileScan()
    scan_control_files(home, names, found)
    real = list(found.real(found.present))
    yield from real
    yield from follow_links(real)
    yield from map(resolve_path, find_included(f"{home}/.gitconfig", f"{home}/.config/git/config"))


def follow_links(paths: Iterable[str]) -> Iterator[str]:
    """The targets of links in these directories, such as a hook that is a link to a script."""
    for path in paths:
        try:
            with os.scandir(path) as listing:
                entries = itertools.islice(listing, MAX_LINKED)
                yield from [resolve_path(entry.path) for entry in entries if entry.is_symlink()]
        except OSError:
            continue


def root_of(path: str, roots: Iterable[str]) -> str | None:
    """The root that a path is or lies below, the innermost."""
    fitting = [root for root in roots if is_below(path, root)]
    return max(fitting, key=len, default=None)


def above_of(path: str, roots: Iterable[str]) -> Iterator[str]:
    """The directories above a path, up to its root and without that."""
    root = root_of(path, roots)
    above = os.path.dirname(path)
    while root is not None and above != root and len(above) > len(root):
        yield above
        above = os.path.dirname(above)


class ControlFiles:
    """The control files below some roots; the search for repositories is cached for a while.

    `was_writable_at` says whether a confined command could write at a time: a repository that one has made is not
    protected from the next, which may want to remove it.
    """

    def __init__(
        self,
        roots: Sequence[str],
        names: ControlNames,
        was_writable_at: Callable[[float], bool],
        home: str = "",
    ) -> None:
        self.roots = tuple(roots)
        self._home = home
        self._names = names
        self._was_writable_at = was_writable_at
        self.repositories: list[str] = []
        self._aliases: list[str] = []
        self._until = 0.0

    def forget(self) -> None:
        """Search anew the next time."""
        self._until = 0.0

    def protected(self) -> ProtectedPaths:
        """Scan for what a command that starts now must not change. Raises `LinkedControlFile`."""
        began = time.monotonic()
        if began >= self._until:
            known = set(self.repositories)
            found = [path for root in self.roots for path in find_repositories(root)]
            new = [path for path in dict.fromkeys(found) if path not in known and self._given(path)]
            # one that is known stays so: what commands make must not keep the search from it
            self.repositories = [*filter(is_repository, self.repositories), *new]
            plain = protected_paths(self.roots, self.repositories, self._names, home=self._home)
            self._aliases = other_names(plain.fixed, self.roots)
            now = time.monotonic()
            self._until = now + RESCAN_SHARE * (now - began)
        return protected_paths(self.roots, self.repositories, self._names, self._aliases, self._home)

    def present(self) -> Mapping[str, str | None]:
        """The control files that are there now."""
        found = ControlFileScan()
        for root in (*self.roots, *homes_in(self.roots, self._home), *self.repositories):
            scan_control_files(root, self._names, found)
        return found.present

    def _given(self, repository: str) -> bool:
        """Whether a repository existed before any command could create it."""
        for name in (".git/config", ".git", "config", "HEAD"):
            try:
                return not self._was_writable_at(os.lstat(f"{repository}/{name}").st_ctime)
            except OSError:
                continue
        return True


def other_names(fixed: Iterable[str], roots: Sequence[str]) -> list[str]:
    """Other names below the roots of files that must not change. Raises `LinkedControlFile` if there is too much to
    search."""
    linked = {key: path for path in fixed for key, path in linked_files(path)}
    if not linked:
        return []
    found = []
    left = MAX_ENTRIES
    for root in roots:
        for directory, folders, files in os.walk(root):
            left -= len(folders) + len(files)
            if left < 0:
                shown = next(iter(linked.values()))
                raise LinkedControlFile(
                    f"{shown} has several hard links, and the workspace is too large to find the others, by which a "
                    f"command could change it. Make it a file of its own: cp -p {shown} copy && mv copy {shown}"
                )
            for name in files:
                path = f"{directory}/{name}"
                if key_of(path) in linked and path not in linked.values():
                    found.append(path)
    return found


def linked_files(path: str) -> Iterator[tuple[tuple[int, int], str]]:
    """The files with several names that a path is, or has below it; bounded."""
    paths = [path]
    if os.path.isdir(path):
        if path in OWN:
            return  # installers link what they install to a cache; what is in a cache is no name of the workspace
        walked = (f"{place}/{name}" for place, _, files in os.walk(path) for name in files)
        paths = [one for one, _ in zip(walked, range(MAX_ENTRIES), strict=False)]
    for one in paths:
        try:
            info = os.lstat(one)
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode) and info.st_nlink > 1:
            yield (info.st_dev, info.st_ino), one


def key_of(path: str) -> tuple[int, int] | None:
    """Device and inode of a file."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino
