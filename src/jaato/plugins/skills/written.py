"""What an instruction file says of itself: its front matter."""

from __future__ import annotations

import re
from typing import NamedTuple

FENCE = "---"
KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?$")
MAX_HEAD_LINES = 200


class Written(NamedTuple):
    """A file taken apart: the plain values of its front matter, and the rest."""

    head: dict[str, str]
    body: str


def taken_apart(text: str) -> Written:
    """A file with or without front matter; a value may be quoted, folded (`>`) or kept (`|`), or go on indented.

    What nests deeper is skipped: nothing here needs it.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != FENCE:
        return Written({}, text)
    for end, line in enumerate(lines[1 : MAX_HEAD_LINES + 1], 1):
        if line.rstrip() == FENCE:
            return Written(values(lines[1:end]), "\n".join(lines[end + 1 :]).lstrip("\n"))
    return Written({}, text)


def values(lines: list[str]) -> dict[str, str]:
    """The values of the top level by their keys."""
    found: dict[str, list[str]] = {}
    key = ""
    for line in lines:
        match = KEY.match(line)
        if match is not None:
            key = match[1].lower()
            found[key] = [(match[2] or "").strip()]
        elif key and (line.startswith((" ", "\t")) or not line.strip()):
            found[key].append(line.strip())
    return {key: joined(parts) for key, parts in found.items()}


def joined(parts: list[str]) -> str:
    """A value from its lines."""
    first, *others = parts
    if first[:1] in (">", "|") and first.rstrip("+-0123456789") in (">", "|"):
        return (" " if first[0] == ">" else "\n").join(others).strip()
    whole = " ".join(part for part in [first, *others] if part)
    if len(whole) > 1 and whole[0] == whole[-1] and whole[0] in "\"'":
        return whole[1:-1]
    return whole
