"""Whether a call may change a control path, by its arguments: the paths in them, and what code mentions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jaato.tools.atomic import resolved
from jaato.tools.control import MAX_PATH_CHARS, control_path, holds_workspace
from jaato.tools.control_names import STANDARD, ControlNames, Tier, folded

MENTION = re.compile(
    r"\.(?:jaato|mcp\.json|git/|git\b(?![-\w.])|gitmodules|gitconfig|bashrc|bash_(?:profile|login|logout|aliases)|"
    r"profile\b|z(?:shrc|shenv|profile|login|logout)|kshrc|mkshrc|[t]?cshrc|inputrc|envrc|vscode\b|ssh/|"
    r"config/(?:git|jaato|fish))|state/jaato|hooks/(?:pre|post|commit|prepare|applypatch|update|fsmonitor)|"
    r"core\.(?:hooksPath|fsmonitor|sshCommand|editor|pager)|etc/profile|bash\.bashrc",
    re.IGNORECASE,
)
"""Text that names a control path, inside a command or code."""

CONTENT_KEYS = frozenset(
    "content new_content old new text old_string new_string prologue epilogue replacement replace "
    "body message "
    "description task prompt query question".split()
)
PATCHED = re.compile(r"^(?:\+\+\+|---|rename to|copy to) (?:[ab]/)?([^\t\n]+)", re.MULTILINE)
"""A line of a unified diff that names a file."""
MAX_STRINGS = 1_000


def control_argument(
    arguments: dict[str, Any],
    place: str,
    executes: bool,
    protected: Iterable[Path],
    names: ControlNames = STANDARD,
) -> str | None:
    """Which control path a call of a writing or executing tool may change, judged by its arguments.

    The second tier counts for tools that write; what is executed runs in the sandbox and may write it.
    """
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
        elif key in CONTENT_KEYS or ("\n" in text and key not in PATH_KEYS):
            continue
        tiers: Tier = 1 if executes else 2
        if found_path := control_path(text, place, protected, names=names, tiers=tiers):
            return found_path
        if key in DESTINATIONS and brings_control(text, names):
            return text
        if key in ("path", "source_path", "destination_path") and holds_workspace(text, place, place):
            return text
    return None


def brings_control(path: str, names: ControlNames) -> bool:
    """Whether a directory that is moved to this path may bring control files: `.github`, `.venv`."""
    parts = [folded(part) for part in path.split("/") if part not in ("", ".")]
    return bool(parts) and (names.first.holds(parts) or names.second.holds(parts))


def changes_inside(arguments: dict[str, Any], place: str) -> bool:
    """Whether every path in the arguments of a file tool, and every file that a patch names, lies in the workspace."""
    root = resolved(place)
    top = arguments.get("path")
    paths = [text for key, text in strings(arguments) if key in PATH_KEYS]
    for key, text in strings(arguments):
        if key == "patch":
            below = top if isinstance(top, str) else "."
            paths += [
                os.path.join(below, name.strip('"')) for name in PATCHED.findall(text) if name != "/dev/null"
            ]
    return all(
        len(path) <= MAX_PATH_CHARS
        and "\0" not in path
        and not path.startswith("~")
        and f"{resolved(os.path.join(place, path))}/".startswith(f"{root}/")
        for path in paths
    )


def plain(key: str, value: Any) -> bool:
    """Whether an argument of an executing tool can name no path at all: the common case, told in no time."""
    if isinstance(value, str):
        return "." not in value and "/" not in value and key not in PATH_KEYS
    return not isinstance(value, dict | list | tuple)


DESTINATIONS = frozenset(("destination_path", "destination", "target", "dest"))
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
