"""Whether a call may change a control path: by its arguments, by what a command or code mentions."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jaato.tools.atomic import resolved
from jaato.tools.control import names_control

MENTION = re.compile(
    r"\.(?:jaato|mcp\.json|git/|git\b(?![-\w.])|gitmodules|gitconfig|bashrc|bash_(?:profile|login|logout|aliases)|"
    r"profile\b|z(?:shrc|shenv|profile|login|logout)|kshrc|mkshrc|[t]?cshrc|inputrc|envrc|vscode\b|ssh/|"
    r"config/(?:git|jaato|fish))|state/jaato|hooks/(?:pre|post|commit|prepare|applypatch|update|fsmonitor)|"
    r"core\.(?:hooksPath|fsmonitor|sshCommand|editor|pager)|etc/profile|bash\.bashrc",
    re.IGNORECASE,
)
"""Text that names a control path, inside a command or code."""

SYSTEM = re.compile(r"etc/(?:profile|bash\.bashrc|bashrc|zsh|gitconfig|environment|ld\.so\.preload|cron)")
STARTING = (".bashrc", ".profile", ".zshrc", ".envrc", ".gitconfig", ".mcp.json")
FOLDERS = (".git", ".git/hooks", ".jaato", ".vscode", ".ssh")
REPRESENTATIVE = (
    ".git/config", ".git/hooks/pre-commit", ".jaato/permissions.json", ".mcp.json", ".bashrc", ".profile",
    ".zshrc",
    ".envrc", ".vscode/tasks.json", "x/.git/config", "x/.envrc", "x/.jaato/permissions.json",
)  # fmt: skip
CONTENT_KEYS = frozenset(
    "content new_content old new text old_string new_string prologue epilogue replacement replace "
    "body message "
    "description task prompt query question".split()
)
WRITING_GIT = re.compile(
    r"(?:config(?!\s+(?:--get\S*|--list|-l)\b)|init|clone|submodule|maintenance|lfs|hook|sparse-checkout|worktree\s+add|"
    r"remote\s+(?:add|set-url|rename|remove|rm|set-head|set-branches))\b"
)
MAX_PATH_CHARS = 4_096
MAX_STRINGS = 1_000


def named(path: str) -> bool:
    """Whether the path as written goes through a control name."""
    parts = [part for part in path.replace("\\", "/").split("/") if part]
    return names_control(parts) or ("etc" in parts and SYSTEM.search(path) is not None)


def control_path(
    path: str, place: str, protected: Iterable[Path] = (), root: str | None = None
) -> str | None:
    """Which control path a path means: as written, normalised, through links, by identity; None when it
    means none.

    `place` is the directory it is relative to, `root` the workspace if that is another; `protected` are
    directories
    whose whole content counts as control.
    """
    if not path or len(path) > MAX_PATH_CHARS or "\0" in path:
        return None
    if re.search(r"[*?\[]", path) and any(fnmatch.fnmatch(one, path) for one in REPRESENTATIVE):
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


def holds_workspace(path: str, place: str, root: str) -> bool:
    """Whether a path is the workspace or a directory above it, so that changing it changes every control
    path."""
    real, root = resolved(os.path.join(place, path)), resolved(root)
    return root == real or root.startswith(real.rstrip("/") + "/")


def same_thing(real: str, root: str) -> str | None:
    """Whether the path, or a directory above it, is a control file under another name: a hard link, a bind
    mount."""
    identities = control_identities(root, tuple(changed(f"{root}/{one}") for one in ("", *FOLDERS[:3])))
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
    names = [*STARTING, *FOLDERS, ".git/config"]
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


def control_argument(
    arguments: dict[str, Any], place: str, executes: bool, protected: Iterable[Path]
) -> str | None:
    """Which control path a call of a writing or executing tool may change, judged by its arguments."""
    if executes and all(plain(key, value) for key, value in arguments.items()):
        return None
    protected = tuple(protected)
    for count, (key, text) in enumerate(strings(arguments)):
        if count >= MAX_STRINGS:
            return "more paths than are looked at"
        if executes:
            if (found := MENTION.search(text)) is not None:
                return found[0]
            if key not in PATH_KEYS:
                continue
        elif key in CONTENT_KEYS or "\n" in text:
            continue
        if found_path := control_path(text, place, protected):
            return found_path
        if key in ("path", "source_path", "destination_path") and holds_workspace(text, place, place):
            return text
    return None


def plain(key: str, value: Any) -> bool:
    """Whether an argument of an executing tool can name no path at all: the common case, told in no time."""
    if isinstance(value, str):
        return "." not in value and "/" not in value and key not in PATH_KEYS
    return not isinstance(value, dict | list | tuple)


PATH_KEYS = frozenset(
    "path paths file filename file_path filepath source_path destination_path destination target dest "
    "dir directory "
    "root output output_path uri".split()
)


def strings(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every string of an argument value with the name it stands under."""
    if isinstance(value, str):
        yield key, value
    elif depth < 20 and isinstance(value, dict):
        for name, item in value.items():
            yield from strings(item, str(name), depth + 1)
    elif depth < 20 and isinstance(value, list | tuple):
        for item in value:
            yield from strings(item, key, depth + 1)
