"""Control paths: files that decide what runs or what is allowed, so no wide grant covers writing them."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import os
import pwd
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from jaato.tools.atomic import resolved

DIRECTORIES = frozenset({".jaato", ".git", ".ssh", ".vscode"})
"""A directory of this name, at any depth, with everything in it."""

FILES = frozenset(
    {
        ".mcp.json",
        ".envrc",
        ".gitconfig",
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".bash_aliases",
        ".profile",
        ".login",
        ".logout",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        ".zlogin",
        ".zlogout",
        ".kshrc",
        ".mkshrc",
        ".cshrc",
        ".tcshrc",
        ".inputrc",
        ".xprofile",
        ".xinitrc",
        ".xsession",
        ".xsessionrc",
        ".pam_environment",
        "config.fish",
    }
)
"""A file of this name, at any depth."""

CONFIG = frozenset({"fish", "git", "environment.d", "autostart", "systemd"})
"""Directories of `.config` that start programs; `.config` itself is one, since it can be moved into place."""

ORDERS = frozenset({"config", "config.worktree", "hooks"})
"""What git obeys in a repository's own directory."""

IGNORED = dict.fromkeys(
    [0x200C, 0x200D, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF], None
)
SYSTEM = re.compile(r"etc/(?:profile|bash\.bashrc|bashrc|zsh|gitconfig|environment|ld\.so\.preload|cron)")
WILD = re.compile(r"[*?\[]")
NAMES = (*sorted(DIRECTORIES), *sorted(FILES), ".config")
MAX_ENTRIES = 20_000
MAX_PATH_CHARS = 4_096


def folded(name: str) -> str:
    """The name as a file system that ignores case, trailing dots or invisible characters has it."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name).translate(IGNORED)
    name = name.casefold().split(":", 1)[0].rstrip(" .") if name not in (".", "..") else name
    return ".git" if name == "git~1" else name


def names_control(parts: Sequence[str]) -> bool:
    """Whether this path, by its names alone, is a control path."""
    names = [folded(part) for part in parts]
    if not names:
        return False
    if not DIRECTORIES.isdisjoint(names) or names[-1] in FILES or parts[-1] == "HEAD":
        return True  # a HEAD makes a directory a bare git repository, with a config and hooks of its own
    if ".config" in names:
        below = names[names.index(".config") + 1 :]
        return not below or below[0] in CONFIG
    return in_bare_repository_names(names)


def in_bare_repository_names(names: Sequence[str]) -> bool:
    """Whether the path lies in a directory called like a bare repository, `x.git`, where git reads orders."""
    return any(name.endswith(".git") and below in ORDERS for name, below in itertools.pairwise(names))


def in_bare_repository(root: Path, parts: Sequence[str]) -> bool:
    """Whether the resolved path is the config or a hook of a directory that git takes for a repository."""
    return any(
        folded(part) in ORDERS and (root.joinpath(*parts[:index]) / "HEAD").exists()
        for index, part in enumerate(parts)
    )


def is_linked_control(info: os.stat_result, roots: Sequence[Path]) -> bool:
    """Whether a file with several links is a control file; also when there is too much to search."""
    if not stat.S_ISREG(info.st_mode) or info.st_nlink < 2:
        return False
    wanted = (info.st_dev, info.st_ino)
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    for path in (home / name for name in FILES):
        try:
            found = os.lstat(path)
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == wanted:
            return True
    left = MAX_ENTRIES
    for root in roots:
        for path, inode in entries(root):
            left -= 1
            if left < 0:
                return True
            if inode == info.st_ino and names_control(path.relative_to(root).parts):
                return True
    return False


def entries(root: Path) -> Iterator[tuple[Path, int]]:
    """Everything below a directory with its inode number, links not followed."""
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(directory) as listing:
                for entry in listing:
                    yield directory / entry.name, entry.inode()
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(directory / entry.name)
        except OSError:
            continue


def named(path: str) -> bool:
    """Whether the path as written goes through a control name."""
    parts = [part for part in path.replace("\\", "/").split("/") if part]
    return names_control(parts) or ("etc" in parts and SYSTEM.search(path) is not None)


def control_path(
    path: str, place: str, protected: Iterable[Path] = (), root: str | None = None, *, hidden: bool = True
) -> str | None:
    """Which control path a path means: as written, normalised, through links, by identity; None when it
    means none.

    `place` is the directory it is relative to, `root` the workspace if that is another; `protected` are
    directories whose whole content counts as control. A pattern means what it may match, `hidden` says whether
    that includes names with a leading dot.
    """
    if not path or len(path) > MAX_PATH_CHARS or "\0" in path:
        return None
    if may_match_control(path, hidden):
        return path
    written = os.path.join(place, os.path.expanduser(path) if path.startswith("~") else path)
    root = root or place
    inside = path if not os.path.isabs(path) else os.path.relpath(written, root)
    if named(inside) or named(os.path.normpath(inside)):
        return path
    real = resolved(written)
    below = os.path.relpath(real, resolved(root))
    if named(below):
        return below
    for directory in protected:
        if real == str(directory) or real.startswith(f"{directory}/"):
            return path
    return same_thing(real, resolved(root))


def may_match_control(path: str, hidden: bool) -> bool:
    """Whether a pattern of file names may match a control path; `hidden` when `*` also matches a leading dot."""
    return any(
        WILD.search(part) is not None
        and (hidden or part.startswith("."))
        and any(fnmatch.fnmatch(name, part) for name in NAMES)
        for part in path.split("/")
    )


def holds_workspace(path: str, place: str, root: str) -> bool:
    """Whether a path is the workspace or a directory above it, so that changing it changes every control
    path."""
    real, root = resolved(os.path.join(place, path)), resolved(root)
    return root == real or root.startswith(real.rstrip("/") + "/")


def same_thing(real: str, root: str) -> str | None:
    """Whether the path, or a directory above it, is a control file under another name: a hard link, a bind
    mount."""
    identities = control_identities(
        root, tuple(changed(f"{root}/{one}") for one in ("", ".git", ".git/hooks", ".jaato"))
    )
    if not identities:
        return None
    current = real
    while current.startswith(root) and current != root:
        try:
            state = os.stat(current)
        except (OSError, ValueError):
            state = None
        if state is not None and (found := identities.get((state.st_dev, state.st_ino))) is not None:
            return found
        current = os.path.dirname(current)
    return None


def changed(directory: str) -> int:
    """When a directory last gained or lost an entry; 0 when there is none."""
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0


@functools.lru_cache(maxsize=16)
def control_identities(root: str, _changed: tuple[int, ...]) -> dict[tuple[int, int], str]:
    """The device and inode of each control file and directory that exists in a workspace."""
    names = [*NAMES, ".git/config", ".git/hooks"]
    for directory in (".git/hooks", ".jaato"):
        try:
            names += [f"{directory}/{entry}" for entry in os.listdir(os.path.join(root, directory))[:200]]
        except OSError:
            continue
    found: dict[tuple[int, int], str] = {}
    for name in names:
        try:
            state = os.stat(os.path.join(root, name))
        except OSError:
            continue
        found[state.st_dev, state.st_ino] = name
    return found
