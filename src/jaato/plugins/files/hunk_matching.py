"""Matches the hunks of a patch to a text: at their line numbers, else where their lines are found (fuzzy)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jaato.plugins.files.patch_parser import Hunk, PatchRefused

MAX_FUZZ = 2
MAX_SHOWN = 8
MAX_COMPARED = 2_000_000
MAX_LINE_CHARS = 160
Same = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class PlacedHunk:
    """A hunk at its place: lines `first` to `end` of the text (from 0) become `new`."""

    first: int
    end: int
    new: list[str]
    facts: dict[str, int | str]
    hunk: Hunk


def place_hunks(lines: Sequence[str], hunks: Sequence[Hunk], name: str) -> list[PlacedHunk]:
    """Every hunk at its place, in order and apart from each other. Raises `PatchRefused` for one that does not fit."""
    found: list[PlacedHunk] = []
    drift = free = 0
    for number, hunk in enumerate(hunks, 1):
        placed = place_hunk(lines, hunk, free, drift)
        if placed is None:
            raise PatchRefused(mismatch_error(lines, hunk, f"hunk {number} of {len(hunks)}", name, free))
        if hunk.start is not None:
            drift = placed.first - get_expected_line(hunk)
        free = placed.end
        found.append(placed)
    return found


def get_expected_line(hunk: Hunk) -> int:
    """Where a hunk says it begins, from 0; one without old lines stands behind the line it names."""
    start = hunk.start or 0
    return start if not hunk.old else max(start - 1, 0)


def place_hunk(lines: Sequence[str], hunk: Hunk, free: int, drift: int) -> PlacedHunk | None:
    """One hunk at its place at or behind `free`; None when it fits nowhere."""
    if not hunk.old:
        return place_insertion(lines, hunk, free, drift)
    for fuzz in range(MAX_FUZZ + 1):
        head, tail = trim_context(hunk, fuzz)
        if fuzz and not head and not tail:
            continue
        for same, loose in (
            (operator.eq, False),
            (lambda line, wanted: line.rstrip() == wanted.rstrip(), True),
        ):
            block = hunk.old[head : len(hunk.old) - tail]
            first = search(lines, block, hunk, free + head, drift + head, same)
            if first is not None:
                return placed_hunk(lines, hunk, first - head, head, tail, fuzz, loose)
    return None


def trim_context(hunk: Hunk, fuzz: int) -> tuple[int, int]:
    """How many lines of context at either end are ignored; one line is always compared."""
    signs = [sign for sign, _ in hunk.lines if sign != "+"]
    lead = next((place for place, (sign, _) in enumerate(hunk.lines) if sign != " "), len(signs))
    trail = next((place for place, (sign, _) in enumerate(reversed(hunk.lines)) if sign != " "), len(signs))
    head, tail = min(lead, fuzz), 0 if hunk.ends else min(trail, fuzz)
    return (head, tail) if head + tail < len(signs) else (0, 0)


def search(
    lines: Sequence[str], block: list[str], hunk: Hunk, free: int, drift: int, same: Same
) -> int | None:
    """Where the block is: nearest to where it should be, or the only place when no line is named."""
    last = len(lines) - len(block)
    if hunk.ends:
        return last if last >= free and fits(lines, block, last, same) else None
    if hunk.start is None:
        places = [
            place
            for place in range(line_after_anchor(lines, hunk.anchor, free), last + 1)
            if fits(lines, block, place, same)
        ]
        if len(places) > 1 and not hunk.anchor:
            raise PatchRefused(
                f"The lines of {hunk.head[:60]!r} occur {len(places)} times (at lines "
                f"{', '.join(str(place + 1) for place in places[:5])}). Give more lines around the change, or its line "
                "number as @@ -12,3 +12,4 @@."
            )
        return places[0] if places else None
    wanted = get_expected_line(hunk) + drift
    return next(
        (place for place in nearest_first(wanted, free, last) if fits(lines, block, place, same)), None
    )


def line_after_anchor(lines: Sequence[str], anchor: str, free: int) -> int:
    """The line behind the anchor; where the search may begin anyway when it does not occur."""
    wanted = anchor.strip()
    if wanted:
        for place in range(free, len(lines)):
            if lines[place].strip() == wanted:
                return place + 1
    return free


def nearest_first(wanted: int, least: int, most: int) -> Iterator[int]:
    """Places from `least` to `most`, the nearest to the wanted one first."""
    middle = min(max(wanted, least), max(most, least))
    for distance in range(max(middle - least, most - middle) + 1):
        if middle + distance <= most:
            yield middle + distance
        if distance and middle - distance >= least:
            yield middle - distance


def fits(lines: Sequence[str], block: list[str], place: int, same: Same) -> bool:
    """Whether the block stands at a place."""
    return 0 <= place <= len(lines) - len(block) and all(
        same(lines[place + offset], wanted) for offset, wanted in enumerate(block)
    )


def placed_hunk(
    lines: Sequence[str], hunk: Hunk, first: int, head: int, tail: int, fuzz: int, loose: bool
) -> PlacedHunk:
    """The hunk at this place; context lines stay as the text has them."""
    new: list[str] = []
    place = first
    count = len(hunk.old)
    for sign, text in hunk.lines:
        if sign == "+":
            new.append(text)
            continue
        inside = head <= place - first < count - tail
        if sign == " " and inside:
            new.append(lines[place])
        place += 1
    facts: dict[str, int | str] = {"line": first + 1}
    if hunk.start is not None and first != get_expected_line(hunk):
        facts["offset"] = first - get_expected_line(hunk)
    if fuzz:
        facts["fuzz"] = fuzz
    if loose:
        facts["note"] = "white space at the ends of lines differs"
    return PlacedHunk(first + head, first + count - tail, new, facts, hunk)


def place_insertion(lines: Sequence[str], hunk: Hunk, free: int, drift: int) -> PlacedHunk | None:
    """A hunk of new lines alone: behind the line it names, or behind its anchor, or at the end."""
    if hunk.ends and hunk.start is None:
        first = len(lines)
    elif hunk.start is None:
        first = line_after_anchor(lines, hunk.anchor, free)
        if not hunk.anchor or first == free:
            return None
    else:
        first = get_expected_line(hunk) + drift
    if not free <= first <= len(lines):
        return None
    return PlacedHunk(first, first, hunk.new, {"line": first + 1}, hunk)


def mismatch_error(lines: Sequence[str], hunk: Hunk, which: str, name: str, free: int) -> str:
    """Why a hunk fits nowhere: what it looks for, and the place that is most like it."""
    text = f"{name!r}: {which} ({hunk.head[:80]}) does not fit. Nothing was changed. "
    if not hunk.old:
        return text + f"It adds lines at line {hunk.start}, but the file has {len(lines)} lines."
    if hunk.new and search_plain(lines, hunk.new) is not None:
        return text + f"It seems to be applied already, at line {(search_plain(lines, hunk.new) or 0) + 1}."
    wanted = hunk.old
    best, score = nearest_place(lines, wanted)
    shown = "\n".join(shorten(line) for line in wanted[:MAX_SHOWN])
    text += f"It looks for {len(wanted)} lines:\n{shown}\n"
    if score == 0:
        return text + "None of them is in the file. Read it with readFile and make the patch anew."
    differs = next(
        (
            offset
            for offset, line in enumerate(wanted)
            if best + offset >= len(lines) or lines[best + offset] != line
        ),
        0,
    )
    there = best + differs
    if there >= len(lines):
        return text + f"The file ends after line {len(lines)}."
    found = "\n".join(shorten(line) for line in lines[there : there + 3])
    text += f"Nearest is line {best + 1} ({score} of {len(wanted)} lines); line {there + 1} differs, there it says:\n{found}"
    return (
        text if best >= free else f"{text}\nThat is before the end of the hunk before; order hunks by line."
    )


def search_plain(lines: Sequence[str], block: list[str]) -> int | None:
    """Where a block stands, None when nowhere; only in texts of bearable size."""
    if len(block) < 2 or len(lines) > MAX_COMPARED:
        return None
    return next((place for place in range(len(lines)) if fits(lines, block, place, operator.eq)), None)


def nearest_place(lines: Sequence[str], wanted: list[str]) -> tuple[int, int]:
    """The place where most lines agree, and how many; each wanted line votes for the places it would make."""
    votes: dict[int, int] = {}
    places: dict[str, list[int]] = {}
    for offset, line in enumerate(wanted):
        if line.strip():
            places.setdefault(line.strip(), []).append(offset)
    for place, line in enumerate(lines):
        for offset in places.get(line.strip(), ())[:20]:
            if place >= offset:
                votes[place - offset] = votes.get(place - offset, 0) + 1
    if not votes:
        return 0, 0
    best = max(votes, key=lambda place: (votes[place], -place))
    return best, votes[best]


def shorten(line: str) -> str:
    """A line for a message."""
    return f"  {line}" if len(line) <= MAX_LINE_CHARS else f"  {line[:MAX_LINE_CHARS]}…"
