"""Scan for control files that a sandboxed command must not change, the directories above them, and what git obeys in
repositories."""

from __future__ import annotations

import itertools
import os
import re
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from jaato.errors import ToolError
from jaato.lazy_pattern import lazy_pattern
from jaato.tools.filesystem.atomic import is_below, resolve_path
from jaato.tools.filesystem.control_files import STANDARD, ControlNames, fold_name, match_names

OBEYED = (
    "config", "config.worktree", "hooks", "commondir", "info/attributes", "objects/info/alternates",
    "objects/info/http-alternates",
)  # fmt: skip
"""In a repository: what starts programs, and what leads to another repository."""

ADDRESSES = ("remotes", "branches")
"""Directories in a repository whose files say where a remote is that the configuration does not know."""

OBEYED_IN_WORKTREE = ("config.worktree", "commondir", "gitdir")
"""In the directory of a linked worktree, whose `HEAD` and index change with every commit."""

SKIPPED = frozenset(
    """node_modules .venv venv .tox .nox __pycache__ site-packages target build dist .cache .mypy_cache .ruff_cache
    .pytest_cache .gradle .next .git""".split()
)
"""Directories that hold what was built or installed, in which no repository is looked for."""

MAX_DEPTH = 6
MAX_DIRECTORIES = 2_000
MAX_REPOSITORIES = 40
MAX_CONFIG_BYTES = 1 << 18
MAX_POINTER_BYTES = 4_096
MAX_INCLUDED = 40
INCLUDED = lazy_pattern(r"(?:^|\])[ \t\r]*path[ \t\r]*=((?:\\\r?\n|[^\n])*)", re.MULTILINE | re.IGNORECASE)
QUOTING = lazy_pattern(r'\\\r?\n|\\(.)|(["#;])|([^\\"#;\r\n])', re.DOTALL)
"""The parts of a value: a continued line, an escaped character, a sign, a character."""

Add = Callable[[str, bool], None]
"""Called with each existing control path, and whether it must not change (else it must only not appear)."""


def repository_files(directory: str, add: Add) -> None:
    """Report what git obeys in a repository's own directory, its worktrees and its submodules."""
    existing_names(directory, OBEYED, add)
    for path in (f"{directory}/{name}" for name in ADDRESSES):
        for one in [path] if os.path.islink(path) else [f"{path}/{name}" for name in list_directory(path)]:
            add(one, True)
    for path in find_included(f"{directory}/config", f"{directory}/config.worktree"):
        add(path, True)
    for name in list_directory(f"{directory}/worktrees"):
        add(f"{directory}/worktrees/{name}", False)
        existing_names(f"{directory}/worktrees/{name}", OBEYED_IN_WORKTREE, add)
    for module in modules(f"{directory}/modules", MAX_DEPTH):
        add(module, False)
        repository_files(module, add)


def existing_names(directory: str, names: tuple[str, ...], add: Add) -> None:
    """Report the names that exist."""
    for name in names:
        if os.path.lexists(path := f"{directory}/{name}"):
            add(path, True)


def modules(directory: str, depth: int) -> list[str]:
    """The repositories of submodules below `modules`, whose names may have several parts."""
    found: list[str] = []
    for name in list_directory(directory) if depth else []:
        path = f"{directory}/{name}"
        if os.path.lexists(f"{path}/HEAD") or os.path.lexists(f"{path}/config"):
            found.append(path)
        elif not os.path.islink(path):
            found += modules(path, depth - 1)
    return found


def list_directory(directory: str) -> list[str]:
    """The names in a directory; none where there is no directory."""
    try:
        return os.listdir(directory)
    except OSError:
        return []


def find_included(*configs: str) -> list[str]:
    """The files that configurations include, and those that these include, as far as they are there."""
    waiting, found = deque(configs), dict[str, None]()
    while waiting and len(found) < MAX_INCLUDED:
        config = waiting.popleft()
        for written in INCLUDED.findall(small_text(config, MAX_CONFIG_BYTES)):
            path = os.path.join(os.path.dirname(config), os.path.expanduser(value_of(written)))
            path = os.path.join(resolve_path(os.path.dirname(path)), os.path.basename(path))
            if os.path.lexists(path) and path not in found:
                found[path] = None
                waiting.append(path)
    return list(found)


def value_of(written: str) -> str:
    """The value of a line of a configuration, as git reads it: without quotes, comments and the spaces around it."""
    value, quoted = "", False
    for escaped, sign, plain in QUOTING.findall(written):
        if sign == '"':
            quoted = not quoted
        elif sign and not quoted:
            break
        else:
            value += escaped or sign or plain
    return value.strip()


def follow_git_file(file: str) -> Iterator[str]:
    """The repositories that a `.git` file leads to: its own directory, and the one it shares with others."""
    kind, _, written = small_text(file, MAX_POINTER_BYTES).strip().partition(":")
    if kind != "gitdir":
        return
    directory = resolve_path(os.path.join(os.path.dirname(file), written.strip()))
    yield directory
    if shared := small_text(f"{directory}/commondir", MAX_POINTER_BYTES).strip():
        yield resolve_path(os.path.join(directory, shared))


def small_text(path: str, most: int) -> str:
    """The beginning of a regular file; nothing where there is none."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            return file.read(most).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def is_bare(names: set[str]) -> bool:
    """Whether a directory with these names in it may be taken for a repository without files."""
    return "HEAD" in names and (names >= {"objects", "refs"} or "commondir" in names)


def is_repository(directory: str) -> bool:
    """Whether git takes a directory for a repository."""
    return os.path.lexists(f"{directory}/.git") or is_bare(set(list_directory(directory)))


def find_repositories(root: str) -> list[str]:
    """The directories below a root that are repositories, nearest first, links not followed; bounded.

    The search is breadth-first, so that one directory with very many entries does not exhaust the limit.
    """
    found: list[str] = []
    level, left = [root], MAX_DIRECTORIES
    for _depth in range(MAX_DEPTH):
        below: list[tuple[int, str]] = []
        for directory in level:
            left -= 1
            if left < 0 or len(found) >= MAX_REPOSITORIES:
                return found
            try:
                with os.scandir(directory) as listing:
                    entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
            except OSError:
                continue
            names = {name for name, _ in entries}
            bare = is_bare(names)
            if directory != root and (".git" in names or bare):
                found.append(directory)
            if not bare:
                inner = sorted(name for name, folder in entries if folder and name not in SKIPPED)
                below += [(place, f"{directory}/{name}") for place, name in enumerate(inner)]
        level = [path for _, path in sorted(below)]
    return found


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
    """Directories that are control files of their own and in which commands work, such as `.git`."""

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
            new = [path for path in dict.fromkeys(found) if path not in known and self._existed_before(path)]
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

    def _existed_before(self, repository: str) -> bool:
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
    linked = {key: path for path in fixed for key, path in find_linked_files(path)}
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


def find_linked_files(path: str) -> Iterator[tuple[tuple[int, int], str]]:
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
