"""Lay unified diffs out: as they are, or with old and new side by side where it is wide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from jaato.tui.transcript.lines import Lines, count_plain, fill, lay_out_plain
from jaato.tui.transcript.looks import Looks

SIDE_BY_SIDE_WIDTH = 120
"""Columns from which a diff is shown side by side."""
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
ABRIDGED = "… "
HEADS = ("--- ", "+++ ", "diff ", "index ", "rename ", "similarity ", "new file", "deleted file", "\\ ")


class Row(NamedTuple):
    """A line of a diff: its mark, its text, and its number in the old and in the new file."""

    mark: str
    text: str
    old: int = 0
    new: int = 0


def parse_diff(diff: str) -> Iterator[Row]:
    """The lines of a clean unified diff; those around hunks have the mark `@`. Within a hunk the counts of its head decide, not
    what a line looks like. Of the two lines for a file that keeps its name one is left out."""
    old = new = left_old = left_new = 0
    is_whole = True
    lines = diff.split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        is_inside = left_old > 0 or left_new > 0
        found = HUNK.match(line)
        if found is not None:
            old, new = int(found[1]), int(found[3])
            left_old, left_new = int(found[2] or 1), int(found[4] or 1)
            yield Row("@", line)
        elif line.startswith(ABRIDGED):
            left_old = left_new = 0
            is_whole = False
            yield Row("@", line)
        elif line.startswith(HEADS) and not (is_inside and line[0] in "+-"):
            if not (is_whole and line.startswith("--- ") and following == f"+++ {line[4:]}"):
                yield Row("@", line)
        elif line.startswith("+"):
            yield Row("+", line[1:], 0, new)
            new, left_new = new + 1, left_new - 1
        elif line.startswith("-"):
            yield Row("-", line[1:], old, 0)
            old, left_old = old + 1, left_old - 1
        else:
            yield Row(" ", line[1:], old, new)
            old, new, left_old, left_new = old + 1, new + 1, left_old - 1, left_new - 1


def lay_out_diff(diff: str, width: int, looks: Looks) -> Lines:
    """The lines of a clean unified diff."""
    rows = [*parse_diff(diff.rstrip("\n"))]
    if width >= SIDE_BY_SIDE_WIDTH and any(row.mark == "@" for row in rows) and fits_sides(rows, width):
        return lay_out_sides(rows, width, looks)
    styles = {"+": looks.added, "-": looks.removed, "@": looks.hunk, " ": looks.text}
    found = Lines()
    for row in rows:
        line = row.text if row.mark == "@" else f"{row.mark} {row.text}"
        found.add(count_plain(line, width), partial(lay_out_row, row.mark, line, width, styles[row.mark]))
    return found


def lay_out_row(mark: str, line: str, width: int, style: Style) -> list[Strip]:
    """A line of a diff, what was added or removed up to the edge."""
    return fill(lay_out_plain(line, width, style), width, style if mark in "+-" else Style())


def fits_sides(rows: list[Row], width: int) -> bool:
    """Whether no line of a side is longer than its half, so that nothing of a change is hidden."""
    room = (width - 1) // 2 - count_digits(rows) - 3
    return all(cell_len(row.text) <= room for row in rows if row.mark != "@")


def count_digits(rows: list[Row]) -> int:
    """The digits of the highest line number."""
    return max((len(str(max(row.old, row.new))) for row in rows), default=1)


def lay_out_sides(rows: list[Row], width: int, looks: Looks) -> Lines:
    """Old on the left, new on the right; the lines fit."""
    half, digits = (width - 1) // 2, count_digits(rows)
    found = Lines()
    left: list[Row] = []
    right: list[Row] = []

    def flush() -> None:
        for at in range(max(len(left), len(right))):
            one = left[at] if at < len(left) else None
            other = right[at] if at < len(right) else None
            found.add(1, partial(join_sides, one, other, half, digits, looks))
        left.clear()
        right.clear()

    for row in rows:
        if row.mark == "-":
            left.append(row)
        elif row.mark == "+":
            right.append(row)
        else:
            flush()
            if row.mark == "@":
                found.add_plain(row.text, width, looks.hunk)
            else:
                found.add(1, partial(join_sides, row, row, half, digits, looks))
    flush()
    return found


def join_sides(old: Row | None, new: Row | None, half: int, digits: int, looks: Looks) -> list[Strip]:
    """One line of both sides."""
    segments: list[Segment] = []
    for row, number in ((old, old.old if old else 0), (new, new.new if new else 0)):
        if segments:
            segments.append(Segment("│", looks.dim))
        style = looks.text
        if row is not None and row.mark in "+-":
            style = looks.added if row.mark == "+" else looks.removed
        text = f"{row.mark} {row.text}" if row is not None else ""
        padding = " " * max(0, half - digits - 1 - cell_len(text))
        segments += [Segment(f"{number or '':>{digits}} ", looks.dim), Segment(text + padding, style)]
    return [Strip(segments, 2 * half + 1)]
