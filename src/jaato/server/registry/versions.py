"""Which of several versions is the newest: as semantic versions have it, and by registration where they are none."""

from __future__ import annotations

import re

NUMBER = r"(0|[1-9][0-9]{0,17})"
PART = r"(?:0|[1-9][0-9]{0,17}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
SEMANTIC = re.compile(
    rf"{NUMBER}\.{NUMBER}\.{NUMBER}(?:-({PART}(?:\.{PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
"""A semantic version (semver.org, 2.0.0): its three numbers, and what it is before; what it was built of does not count."""

Age = tuple[bool, tuple[int, ...], bool, tuple[tuple[bool, int, str], ...], int]


def age_of(version: str, number: int) -> Age:
    """By what versions are ordered, the newest last; `number` says how many were registered before this one."""
    found = SEMANTIC.fullmatch(version)
    if found is None:
        return False, (), False, (), number
    before = found[4]
    parts = () if before is None else tuple(part_of(one) for one in before.split("."))
    return True, (int(found[1]), int(found[2]), int(found[3])), before is None, parts, number


def part_of(text: str) -> tuple[bool, int, str]:
    """A part of what a version is before: numbers are less than words."""
    return (False, int(text), "") if text.isdigit() else (True, 0, text)
