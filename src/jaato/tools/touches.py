"""Whether a call may change a control path, by its arguments: the paths in them, and what code mentions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jaato.tools.control import control_path, holds_workspace

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
WRITING_GIT = re.compile(
    r"(?:config(?!\s+(?:--get\S*|--list|-l)\b)|init|clone|submodule|maintenance|lfs|hook|sparse-checkout|worktree\s+add|"
    r"remote\s+(?:add|set-url|rename|remove|rm|set-head|set-branches))\b"
)
MAX_STRINGS = 1_000


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
        elif key in CONTENT_KEYS or ("\n" in text and key not in PATH_KEYS):
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
