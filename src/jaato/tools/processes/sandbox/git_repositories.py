"""Find git repositories below a workspace, and the files in them that git obeys."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator

from jaato.tools.filesystem.atomic import resolve_path

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
INCLUDED = re.compile(r"(?:^|\])[ \t\r]*path[ \t\r]*=((?:\\\r?\n|[^\n])*)", re.MULTILINE | re.IGNORECASE)
QUOTING = re.compile(r'\\\r?\n|\\(.)|(["#;])|([^\\"#;\r\n])', re.DOTALL)
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
