"""The lines in which two texts differ, as a unified diff. Runs in a process of its own."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from jaato.errors import ToolError

Block = tuple[int, int, int]
"""Where lines are the same: in the old text, in the new one, how many."""
SMALL = 100_000_000
"""Products of two lengths up to this are worked out exactly."""
MAX_LINE_CHARS = 5_000
MAX_DIFF_CHARS = 1_000_000
NO_END = "\\ No newline at end of file\n"


class DiffRefused(ToolError):
    """The files cannot be compared line by line."""

    code = "diff_refused"


def compare(request: dict[str, Any]) -> dict[str, Any]:
    """The difference of two files, or of a file and a text."""
    most = request["max_bytes"]
    old = content(request["old"], request["names"][0], most)
    new = (
        request["text"].encode("utf-8", "surrogatepass")
        if request["new"] is None
        else content(request["new"], request["names"][1], most)
    )
    if old == new:
        return {"diff": "", "equal": True, "summary": "The files are identical."}
    for data, name in zip((old, new), request["names"], strict=True):
        if b"\0" in data[:65_536] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            sizes = f"{len(old)} and {len(new)} bytes"
            summary = f"Binary files differ ({sizes}; {name!r} is binary, first difference at byte {first(old, new)})."
            return {"diff": "", "equal": False, "binary": True, "summary": summary}
    before, after = lines(decoded(old)), lines(decoded(new))
    squeeze = request["ignore_whitespace"]
    keys = [["".join(line.split()) for line in side] if squeeze else side for side in (before, after)]
    diff, added, removed, cut = unified(before, after, matching(keys[0], keys[1]), request)
    if not added and not removed:
        return {"diff": "", "equal": True, "summary": "The files differ in white space alone."}
    summary = f"{added} lines added, {removed} removed."
    said: dict[str, Any] = {"diff": diff, "equal": False, "added": added, "removed": removed}
    if cut:
        said["more"] = True
        summary += f" The diff is cut after {cut} lines; raise max_lines or set context=0."
    return {**said, "summary": summary}


def content(fd: int, name: str, most: int) -> bytes:
    """All of an open file. Raises `DiffRefused` when it is too large."""
    with os.fdopen(fd, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise DiffRefused(
            f"{name!r} has more than {most >> 20} MB. Compare checksums, or use run with cmp or diff."
        )
    return data


def first(old: bytes, new: bytes) -> int:
    """The offset of the first byte that differs."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[:middle] == new[:middle] else (low, middle - 1)
    return low


def decoded(data: bytes) -> str:
    """The text of a file; UTF-8, else UTF-16 by its mark, else Latin-1, which takes anything."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def lines(text: str) -> list[str]:
    """The lines of a text with their ends, split at newlines alone."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def matching(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """The blocks of equal lines in order; a few lines more than needed may count as different in large texts."""
    found: list[Block] = []
    work = [(0, len(old), 0, len(new))]
    while work:
        a, b, c, d = work.pop()
        start = a
        while a < b and c < d and old[a] == new[c]:
            a, c = a + 1, c + 1
        if a > start:
            found.append((start, c - (a - start), a - start))
        end = b
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
        if end > b:
            found.append((b, d, end - b))
        if a == b or c == d:
            continue
        anchors = unique(old, new, a, b, c, d)
        if anchors:
            edges = [(a - 1, c - 1), *anchors, (b, d)]
            found += [(left, right, 1) for left, right in anchors]
            work += [(x + 1, y, z + 1, w) for (x, z), (y, w) in pairwise(edges)]
        elif (b - a) * (d - c) <= SMALL:
            found += [(a + x, c + y, 1) for x, y in common(old[a:b], new[c:d])]
    return sorted(found)


def common(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """A longest sequence of lines that both have, from its end: in which places, however often lines repeat.

    A row of the table of lengths is one number, whose bit is 0 where the length grows by one.
    """
    masks: dict[str, int] = {}
    for place, line in enumerate(new):
        masks[line] = masks.get(line, 0) | 1 << place
    full = (1 << len(new)) - 1
    row = full
    rows = [row]
    for line in old:
        same = row & masks.get(line, 0)
        row = (row + same | row - same) & full
        rows.append(row)
    left, right = len(old), len(new)
    while left and right:
        if rows[left] >> right - 1 & 1:
            right -= 1
            continue
        left -= 1
        if rows[left] >> right - 1 & 1:
            right -= 1
            yield left, right


def unique(old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int) -> list[tuple[int, int]]:
    """The longest run of lines that occur once on either side, in the same order on both."""
    counts, others = Counter(old[a:b]), Counter(new[c:d])
    places = {line: place for place, line in enumerate(new[c:d], c) if others[line] == 1}
    pairs = [
        (place, places[line])
        for place, line in enumerate(old[a:b], a)
        if counts[line] == 1 and line in places
    ]
    from bisect import bisect_left

    tails: list[int] = []
    last: list[int] = []
    back: list[int] = []
    for index, (_, place) in enumerate(pairs):
        height = bisect_left(tails, place)
        back.append(last[height - 1] if height else -1)
        if height == len(tails):
            tails.append(place)
            last.append(index)
        else:
            tails[height], last[height] = place, index
    chain: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        chain.append(pairs[index])
        index = back[index]
    return chain[::-1]


def changes(blocks: Sequence[Block], old_size: int, new_size: int) -> Iterator[tuple[int, int, int, int]]:
    """The ranges between the blocks: lines from a to b are replaced by those from c to d."""
    a = c = 0
    for x, y, size in [*blocks, (old_size, new_size, 0)]:
        if a < x or c < y:
            yield a, x, c, y
        a, c = x + size, y + size


def unified(
    old: list[str], new: list[str], blocks: list[Block], request: dict[str, Any]
) -> tuple[str, int, int, int]:
    """The diff, how many lines it adds and removes, and after how many lines it was cut, if it was."""
    around = request["context"]
    groups: list[list[tuple[int, int, int, int]]] = []
    added = removed = 0
    for change in changes(blocks, len(old), len(new)):
        removed += change[1] - change[0]
        added += change[3] - change[2]
        if groups and change[0] - groups[-1][-1][1] <= 2 * around:
            groups[-1].append(change)
        else:
            groups.append([change])
    names = request["names"]
    out = [f"--- a/{names[0].lstrip('/')}\n", f"+++ b/{names[1].lstrip('/')}\n"]
    size = 0
    for group in groups:
        hunk = hunk_of(old, new, group, around)
        size += sum(map(len, hunk))
        if len(out) + len(hunk) > request["max_lines"] + 2 or size > MAX_DIFF_CHARS:
            room = max(request["max_lines"] + 2 - len(out), 0)
            out += [
                line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…\n" for line in hunk[:room]
            ]
            return "".join(out)[:MAX_DIFF_CHARS].rstrip("\n") + "\n", added, removed, len(out) - 2
        out += hunk
    return "".join(out), added, removed, 0


def hunk_of(old: list[str], new: list[str], group: list[tuple[int, int, int, int]], around: int) -> list[str]:
    """One hunk with its head."""
    start, end = max(group[0][0] - around, 0), min(group[-1][1] + around, len(old))
    other = group[0][2] - (group[0][0] - start)
    other_end = group[-1][3] + (end - group[-1][1])
    out = [f"@@ -{span(start, end)} +{span(other, other_end)} @@\n"]
    place = start
    for a, b, c, d in group:
        out += [ended(f" {line}") for line in old[place:a]]
        out += [ended(f"-{line}") for line in old[a:b]]
        out += [ended(f"+{line}") for line in new[c:d]]
        place = b
    return out + [ended(f" {line}") for line in old[place:end]]


def span(start: int, end: int) -> str:
    """A range of lines as a hunk's head has it."""
    count = end - start
    return f"{start + (count > 0)}" if count == 1 else f"{start + (count > 0)},{count}"


def ended(line: str) -> str:
    """A line of a diff; one without an end is marked so."""
    return line if line.endswith("\n") else f"{line}\n{NO_END}"
