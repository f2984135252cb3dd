"""Control paths: files that decide what runs or what is allowed, so no wide grant covers writing them."""

from __future__ import annotations

import itertools
import os
import pwd
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

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
MAX_ENTRIES = 20_000


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
