"""Lists on stdout, for people and, with `--json`, for programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from jaato.cli.output.terminal import HIDDEN, one_line, printable, visible

Record = TypeVar("Record")


def print_json(document: Any) -> None:
    """One JSON document; what would steer a terminal or hide in it is written as `\\uXXXX`, which is the same JSON."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    sys.stdout.write(HIDDEN.sub(in_json, text) + "\n")


def in_json(found: re.Match[str]) -> str:
    """Characters of a text in JSON as escape sequences."""
    import json

    return json.dumps(found[0])[1:-1]


def print_rows(rows: Iterable[Sequence[str]]) -> None:
    """Rows in columns; the last column is cut to the terminal, or whole where there is none."""
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
    """Records as one JSON list, or each as a row of columns below the heading; without any, no row."""
    if as_json:
        print_json(records)
    elif records:
        print_rows([*([heading] if heading else []), *map(row, records)])


def time_text(timestamp: str) -> str:
    """An ISO 8601 time to the minute."""
    return timestamp[:16].replace("T", " ")


def counted(number: int, noun: str) -> str:
    """So many of them."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def columns() -> int:
    """How wide a line may be; 0 where nobody looks."""
    import shutil

    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 0


def print_line(text: str) -> None:
    """A line, safe for the terminal."""
    sys.stdout.write((printable(text) if sys.stdout.isatty() else text) + "\n")
