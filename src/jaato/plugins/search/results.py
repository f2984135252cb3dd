"""Renders search results as text for the model and as structured data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaato.tools.filesystem.containment import shown_name
from jaato.tools.processes.ripgrep import Line, SearchLimits

MAX_LINE = 400
MAX_NAMED = 10


@dataclass(slots=True)
class Result:
    """The matching lines shown, and counts of everything."""

    lines: dict[str, Sequence[Line]] = field(default_factory=dict)
    total: int = 0
    files: int = 0
    searched: int = 0
    shown: int = 0

    def add(self, name: str, lines: list[Line], most: int) -> None:
        """Show the lines of a file up to the last match there is room for."""
        room = most - self.shown
        matches = [at for at, line in enumerate(lines) if line.is_match]
        if len(matches) > room:
            lines, matches = lines[: matches[room]], matches[:room]
        if matches:
            self.lines[name] = lines
            self.shown += len(matches)


def shorten_line(line: Line) -> str:
    """The text of a line, of a long one the part around its match."""
    text = line.text
    if len(text) <= MAX_LINE:
        return text
    start = max(0, min(line.column - MAX_LINE // 4, len(text) - MAX_LINE))
    end = start + MAX_LINE
    return f"{'…' * (start > 0)}{text[start:end]}{'…' * (end < len(text))} ({len(text)} characters)"


def render_lines(result: Result) -> str:
    """The lines as a model reads them: `number: match` and `number- neighbour` beneath each file's name."""
    blocks: list[str] = []
    for name, lines in result.lines.items():
        block = [shown_name(name)]
        last = lines[0].number - 1
        for line in lines:
            if line.number > last + 1 and any(not other.is_match for other in lines):
                block.append("--")
            block.append(f"{line.number}{':' if line.is_match else '-'} {shorten_line(line)}")
            last = line.number
        blocks.append("\n".join(block))
    return "\n\n".join(blocks)


def count_remarks(result: Result, limits: SearchLimits) -> list[str]:
    """How many lines there are beside those that are shown."""
    lines = f"{result.total} matching lines in {result.files}"
    if result.total > result.shown:
        more = f"the first {result.shown} are shown. Narrow with path, glob or a longer pattern."
        return [f"{lines} files; {more}"]
    if result.total:
        return [f"{lines} of {result.searched} files."]
    return [f"No line matches in {result.searched} files."] if limits.stopped is None else []


def structured_result(result: Result, limits: SearchLimits) -> dict[str, Any]:
    """The result as data for programs."""
    matches = [
        {"path": name, "line": line.number, "text": shorten_line(line)}
        for name, lines in result.lines.items()
        for line in lines
        if line.is_match
    ]
    data: dict[str, Any] = {
        "matches": matches,
        "total": result.total,
        "files": result.files,
        "searched": result.searched,
        "truncated": result.shown < result.total,
    }
    return data | stop_fields(limits)


def stop_fields(limits: SearchLimits) -> dict[str, Any]:
    """What ended a search early or was not read, as data."""
    data: dict[str, Any] = {} if limits.stopped is None else {"stopped": limits.stopped}
    return data | ({"unreadable": limits.unread[:100]} if limits.unread else {})


def stop_message(limits: SearchLimits) -> list[str]:
    """What ended a search early or was not read, in words."""
    notes = []
    if limits.stopped is not None:
        notes.append(
            f"Stopped: {limits.stopped}; there may be more. Start in a smaller directory, or simplify the pattern."
        )
    if limits.unread:
        notes.append(f"Could not be read: {list_names(limits.unread)}.")
    return notes


def list_names(names: list[str]) -> str:
    """A few names and how many more there are."""
    more = len(names) - MAX_NAMED
    return ", ".join(map(shown_name, names[:MAX_NAMED])) + (f" and {more} more" if more > 0 else "")


def add_notes(text: str, notes: Sequence[str]) -> str:
    """The text with remarks below it."""
    return "\n\n".join(part for part in (text, "\n".join(f"[{note}]" for note in notes)) if part)
