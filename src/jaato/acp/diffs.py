"""Unified diffs as the pairs of old and new text that editors show."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from jaato.lazy_pattern import lazy_pattern
from jaato.tools.filesystem.text_encoding import NO_NEWLINE

HUNK = lazy_pattern(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
MAX_HUNKS = 50
MAX_CHARS = 400_000


class Hunk(NamedTuple):
    """A changed part of a file: its lines before (None: the file is new) and after, and the line it begins at."""

    path: str
    old: str | None
    new: str
    line: int


def parse_diff(diff: str, path: str = "") -> Iterator[Hunk]:
    """The hunks of a unified diff; `path` is the file where the diff has no head. What was cut off is left out."""
    is_new = False
    before = ""
    old: list[str] = []
    new: list[str] = []
    start = left_old = left_new = 0
    for line in [*diff[:MAX_CHARS].split("\n"), "--- "]:
        inside = left_old > 0 or left_new > 0
        if inside and line[:1] in (" ", "-", "+", ""):
            if line[:1] != "+":
                old.append(line[1:])
                left_old -= 1
            if line[:1] != "-":
                new.append(line[1:])
                left_new -= 1
            continue
        if inside and line.startswith("\\"):
            continue
        if old or new:
            yield Hunk(path, join(old) if old or not is_new else None, join(new), start)
            old, new = [], []
        left_old = left_new = 0
        if line.startswith("--- "):
            before = name_of(line)
        elif line.startswith("+++ "):
            path, is_new = name_of(line), before == "/dev/null"
            path = before if path == "/dev/null" else path
        elif (found := HUNK.match(line)) is not None:
            start, is_new = int(found[3]), is_new or (found[1], found[2]) == ("0", "0")
            left_old, left_new = count_of(found, 2), count_of(found, 4)


def count_of(found: re.Match[str], group: int) -> int:
    """How many lines a hunk has; one where it does not say."""
    return 1 if found[group] is None else int(found[group])


def name_of(line: str) -> str:
    """The file of a line of a diff's head, without git's prefixes and a time."""
    name = line[4:].partition("\t")[0].strip()
    return name[2:] if name[:2] in ("a/", "b/") else name


def join(lines: list[str]) -> str:
    """Lines as text, whose last one may have no newline."""
    text = "\n".join(lines)
    return text.removesuffix(NO_NEWLINE) if text.endswith(NO_NEWLINE) or not lines else f"{text}\n"


def absolute(workspace: str, path: str) -> str:
    """A path of the workspace, as editors want it: absolute."""
    return os.path.normpath(os.path.join(workspace, os.path.expanduser(path)))
