"""Unified diffs that stay fast on large files and short for a reader."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from jaato.tools.filesystem.text_encoding import NO_NEWLINE, align_lines, display_text, lines_of, strip

CONTEXT = 3
MAX_LINES = 120
MAX_CHARS = 8000
MAX_LINE_CHARS, TAIL_CHARS = 200, 50
Opcode = tuple[str, int, int, int, int]


def make_unified_diff(old: str, new: str) -> str:
    """The difference of two texts in unified form, at most `MAX_LINES` lines; empty when both are the same.

    Lines that differ in their ends alone are shown as changed, with a note.
    """
    start, old_end, new_end = differing_part(old, new)
    number = old.count("\n", 0, start)
    before, after = lines_of(old[start:old_end]), lines_of(new[start:new_end])
    lines: list[str] = []
    for group in group_opcodes(align_lines(before, after)):
        first, last = group[0], group[-1]
        lines.append(f"@@ -{span(first[1], last[2], number)} +{span(first[3], last[4], number)} @@")
        for tag, a, b, c, d in group:
            if tag == "equal":
                lines += [f" {cut(line)}" for line in before[a:b]]
                continue
            old_lines, new_lines = before[a : min(b, a + MAX_LINES)], after[c : min(d, c + MAX_LINES)]
            lines += cut_all("-", old_lines, new_lines)
            lines += cut_all("+", new_lines, old_lines)
        if len(lines) > MAX_LINES:
            break
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"… the diff goes on; it is cut at {MAX_LINES} lines"]
    text = "\n".join(lines)
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}\n… the diff goes on; it is cut here"


def cut_all(sign: str, lines: list[str], others: list[str]) -> list[str]:
    """Lines of one side of a change to show, each beside that of the other side."""
    pairs = zip_longest(lines, others[: len(lines)], fillvalue="")
    return [f"{sign}{cut(line, other)}" for line, other in pairs]


def cut(line: str, other: str = "") -> str:
    """A line to show: without its end, and saying so when it ends in CR LF or not at all. Of a long one, the part where it
    begins to differ from the other one, and its end."""
    body = display_text(strip(line))
    if len(body) > MAX_LINE_CHARS:
        same = common_prefix(body, display_text(strip(other)))
        start = max(0, min(same - TAIL_CHARS, len(body) - MAX_LINE_CHARS))
        stop = start + MAX_LINE_CHARS - TAIL_CHARS
        tail = max(stop, len(body) - TAIL_CHARS)
        shown = f"{body[start:stop]}{'…' if tail > stop else ''}{body[tail:]}"
        body = f"{'…' if start else ''}{shown} ({len(body)} characters)"
    return body if line.endswith("\n") else f"{body}{NO_NEWLINE}"


def span(start: int, end: int, number: int) -> str:
    """A range of lines, counted from a line number, as a hunk's head writes it."""
    return f"{number + start + (end > start)},{end - start}"


def differing_part(old: str, new: str) -> tuple[int, int, int]:
    """The part of two texts that differs with some lines around it: its start, and its end in either."""
    same = common_prefix(old, new)
    start = same
    for _ in range(CONTEXT + 1):
        start = old.rfind("\n", 0, max(start, 0)) if start > 0 else -1
    start += 1
    rest = min(len(old), len(new)) - same
    tail = common_prefix(old[len(old) - rest :][::-1], new[len(new) - rest :][::-1])
    end = len(old) - tail
    for _ in range(CONTEXT + 1):
        end = old.find("\n", end) + 1 or len(old)
    return start, end, end + len(new) - len(old)


def common_prefix(old: str, new: str) -> int:
    """How many characters two texts share from their start, by bisection."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def group_opcodes(opcodes: list[Opcode]) -> list[list[Opcode]]:
    """The opcodes in hunks with `CONTEXT` lines around each change."""
    import difflib

    matcher: Any = difflib.SequenceMatcher()
    matcher.opcodes = opcodes
    return list(matcher.get_grouped_opcodes(CONTEXT))
