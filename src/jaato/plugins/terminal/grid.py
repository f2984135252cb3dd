"""The characters of a terminal's screen: rows that know when they changed, and those that have scrolled away."""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections import deque

HISTORY_LINES = 2000
MAX_MARKS = 8
"""How many combining characters a cell may have."""


@functools.lru_cache(maxsize=4096)
def width(char: str) -> int:
    """How many columns a character takes: 0, 1 or 2."""
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Row:
    """A line of the screen. `cells` may be shorter than the screen is wide; a wide character is followed by an empty
    one. `changed_at` is the tick of its last change."""

    __slots__ = ("cells", "changed_at")

    def __init__(self, changed_at: int = 0) -> None:
        self.cells: list[str] = []
        self.changed_at = changed_at

    @property
    def text(self) -> str:
        """What can be read of it."""
        return "".join(self.cells).rstrip()

    def put(self, column: int, cells: list[str]) -> None:
        """Replace what stands from this column on."""
        row = self.cells
        if len(row) < column:
            row.extend(" " * (column - len(row)))
        self.mend(column)
        self.mend(column + len(cells))
        row[column : column + len(cells)] = cells

    def mend(self, column: int) -> None:
        """Before a cut in the middle of a wide character: two spaces instead."""
        row = self.cells
        if 0 < column < len(row) and not row[column]:
            row[column - 1] = row[column] = " "

    def erase(self, start: int, end: int) -> None:
        """Blank what stands from column `start` to before `end`."""
        self.mend(start)
        if end >= len(self.cells):
            del self.cells[start:]
        else:
            self.put(start, [" "] * (end - start))

    def insert(self, column: int, count: int, columns: int) -> None:
        """Push the rest of the line to the right by so many spaces."""
        if column < len(self.cells):
            self.mend(column)
            self.cells[column:column] = [" "] * count
            self.cut(columns)

    def delete(self, column: int, count: int) -> None:
        """Pull the rest of the line to the left."""
        self.mend(column)
        self.mend(column + count)
        del self.cells[column : column + count]

    def cut(self, columns: int) -> None:
        """Let nothing stand beyond the right edge."""
        self.mend(columns)
        del self.cells[columns:]


class Grid:
    """The rows of a screen and its history. Rows and columns count from 0; every change takes the current `tick`."""

    def __init__(self, rows: int, columns: int) -> None:
        self.columns = columns
        self.tick = 1
        self.rows = [Row() for _ in range(rows)]
        self.history: deque[tuple[int, str]] = deque(maxlen=HISTORY_LINES)
        self.dropped_at = 0
        """The tick of the newest line that has fallen out of the history."""
        self.aside: list[Row] | None = None
        """The rows of the ordinary screen while a full-screen program shows another."""

    def row(self, number: int) -> Row:
        """A row that is about to change."""
        row = self.rows[number]
        row.changed_at = self.tick
        return row

    def scroll_up(self, top: int, bottom: int, count: int) -> None:
        """Move rows `top` to `bottom` up; what leaves an ordinary screen at its top becomes history."""
        for _ in range(min(count, bottom - top + 1)):
            gone = self.rows.pop(top)
            self.rows.insert(bottom, Row())
            if top == 0 and self.aside is None:
                self.remember(gone)
        if top > 0 or self.aside is not None:
            self.touch(top, bottom)

    def scroll_down(self, top: int, bottom: int, count: int) -> None:
        """Move rows `top` to `bottom` down."""
        for _ in range(min(count, bottom - top + 1)):
            del self.rows[bottom]
            self.rows.insert(top, Row())
        self.touch(top, bottom)

    def remember(self, row: Row) -> None:
        """Append a row to the history."""
        if len(self.history) == HISTORY_LINES:
            self.dropped_at = max(self.dropped_at, self.history[0][0])
        self.history.append((row.changed_at, row.text))

    def touch(self, top: int, bottom: int) -> None:
        """These rows have changed."""
        for row in self.rows[top : bottom + 1]:
            row.changed_at = self.tick

    def clear(self, top: int, bottom: int) -> None:
        """Blank whole rows, which only those with something on them notice."""
        for number in range(top, bottom + 1):
            if self.rows[number].cells:
                self.rows[number] = Row(self.tick)

    def switch(self, alternate: bool) -> None:
        """Show the other screen, blank, or the ordinary one again as it was."""
        if alternate and self.aside is None:
            self.aside = self.rows
            self.rows = [Row(self.tick) for _ in self.rows]
        elif not alternate and self.aside is not None:
            self.rows, self.aside = self.aside, None

    def resize(self, rows: int, columns: int, cursor_row: int) -> int:
        """Take another size; the row the cursor is in then. Rows leave at the bottom while they are blank."""
        self.columns = columns
        for screen in (self.rows, self.aside):
            if screen is None:
                continue
            while len(screen) > rows:
                if cursor_row < len(screen) - 1 and not screen[-1].text:
                    screen.pop()
                    continue
                gone = screen.pop(0)
                cursor_row -= screen is self.rows
                if screen is self.aside or self.aside is None:
                    self.remember(gone)
            screen.extend(Row() for _ in range(rows - len(screen)))
            for row in screen:
                row.cut(columns)
        self.touch(0, rows - 1)
        return max(0, min(cursor_row, rows - 1))

    def lines_since(self, tick: int) -> list[str]:
        """What was written after a tick: from the first line that changed to the last, old ones first."""
        older = itertools.dropwhile(lambda line: line[0] <= tick, self.history)
        lines = [*older] if self.aside is None else []
        lines += [(row.changed_at, row.text) for row in self.rows]
        changed = [number for number, (at, _text) in enumerate(lines) if at > tick]
        return [text for _at, text in lines[changed[0] : changed[-1] + 1]] if changed else []

    def lines(self) -> list[str]:
        """The screen as it stands, without blank rows at its end."""
        lines = [row.text for row in self.rows]
        while lines and not lines[-1]:
            lines.pop()
        return lines
