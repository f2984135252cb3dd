"""Print tables for people, or JSON for programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from jaato.cli.output.console import HIDDEN, one_line, printable, visible

Record = TypeVar("Record")


def print_json(document: Any) -> None:
    """Print a JSON document; control and invisible characters are escaped as `\\uXXXX`."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    sys.stdout.write(HIDDEN.sub(escape_json, text) + "\n")


def escape_json(found: re.Match[str]) -> str:
    """Escape the matched characters for JSON."""
    import json

    return json.dumps(found[0])[1:-1]


def print_rows(rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns; the last column is truncated to the width of the terminal, if there is one."""
    table = [[visible(" ".join(cell.split())) for cell in row] for row in rows]
    if not table:
        return
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]) - 1)]
    room = columns() - sum(widths) - 2 * len(widths)
    for row in table:
        last = row[-1] if room < 20 else one_line(row[-1], room)
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        sys.stdout.write("  ".join([*cells, last]).rstrip() + "\n")


def print_records(
    records: Sequence[Record],
    row: Callable[[Record], Sequence[str]],
    *,
    as_json: bool,
    heading: Sequence[str] = (),
) -> None:
    """Print records as a JSON list, or as table rows below a heading; no records print no heading."""
    if as_json:
        print_json(records)
    elif records:
        print_rows([*([heading] if heading else []), *map(row, records)])


def time_text(timestamp: str) -> str:
    """An ISO 8601 time, to the minute."""
    return timestamp[:16].replace("T", " ")


def format_count(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def format_date(at: float | None) -> str:
    """A time as its UTC date; None is the end of a token that never expires."""
    import time

    return "never" if at is None else time.strftime("%Y-%m-%d", time.gmtime(at))


def columns() -> int:
    """The width of the terminal; 0 when stdout is none."""
    import shutil

    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 0


def print_line(text: str) -> None:
    """Print a line, without control characters if stdout is a terminal."""
    sys.stdout.write((printable(text) if sys.stdout.isatty() else text) + "\n")
