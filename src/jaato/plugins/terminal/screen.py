"""The screen of a terminal emulator (the visible part of VT220 and xterm), with scrollback."""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections import deque

HISTORY_LINES = 2000
MAX_MARKS = 8
"""How many combining characters a cell may have."""


@functools.lru_cache(maxsize=4096)
def character_width(char: str) -> int:
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


LINES = dict(zip("`afgjklmnopqrstuvwxyz{|}~", "◆▒°±┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·", strict=True))
"""The line drawing characters."""


class Screen:
    """A screen with a cursor. Every method is bounded by the size of the screen, whatever its arguments."""

    def __init__(self, rows: int, columns: int) -> None:
        self.grid = Grid(rows, columns)
        self.reset()

    def reset(self) -> None:
        """As after switching on; the history stays."""
        grid = self.grid
        grid.switch(False)
        grid.clear(0, self.height - 1)
        self.row = self.column = 0
        self.full = False
        """Whether the last column was written, so that the next character begins a line."""
        self.top, self.bottom = 0, self.height - 1
        self.saved = (0, 0, False, False)
        self.wraps, self.from_margin, self.inserts = True, False, False
        self.application_keys = self.pastes = False
        self.charsets = [False, False]
        """Whether each of the two character sets draws lines."""
        self.charset = 0
        self.last = " "
        self.tabs = set(range(8, 1000, 8))

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(self.grid.rows)

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.grid.columns

    def draw(self, text: str) -> None:
        """Write printable characters."""
        if self.charsets[self.charset]:
            text = "".join(LINES.get(char, char) for char in text)
        self.last = text[-1]
        if not text.isascii() or self.inserts:
            for char in text:
                self._draw_one(char)
            return
        while text:
            self._begin(1)
            part = text[: self.columns - self.column]
            text = text[len(part) :]
            self.grid.row(self.row).put(self.column, list(part))
            self._advance(len(part))

    def _draw_one(self, char: str) -> None:
        size = character_width(char)
        if size == 0:
            self._mark(char)
            return
        if size > self.columns:
            return
        self._begin(size)
        row = self.grid.row(self.row)
        if self.inserts:
            row.insert(self.column, size, self.columns)
        row.put(self.column, [char] if size == 1 else [char, ""])
        self._advance(size)

    def _mark(self, mark: str) -> None:
        """Put a combining character on the one before."""
        cells = self.grid.row(self.row).cells
        at = self.column if self.full else self.column - 1
        while 0 <= at < len(cells) and not cells[at]:
            at -= 1
        if 0 <= at < len(cells) and len(cells[at]) <= MAX_MARKS:
            cells[at] += mark

    def _begin(self, size: int) -> None:
        """Make room for a character of this width at the cursor."""
        if not self.full and self.column + size <= self.columns:
            return
        if self.wraps:
            self.column = 0
            self.line_feed()
        else:
            self.column = self.columns - size
        self.full = False

    def _advance(self, size: int) -> None:
        self.column += size
        if self.column >= self.columns:
            self.column, self.full = self.columns - 1, True

    def repeat(self, count: int) -> None:
        """Write the last character again."""
        self.draw(self.last * min(count, self.columns))

    def line_feed(self) -> None:
        """One line down, scrolling at the bottom margin."""
        if self.row == self.bottom:
            self.grid.scroll_up(self.top, self.bottom, 1)
        elif self.row < self.height - 1:
            self.row += 1
        self.full = False

    def reverse_feed(self) -> None:
        """One line up, scrolling at the top margin."""
        if self.row == self.top:
            self.grid.scroll_down(self.top, self.bottom, 1)
        elif self.row > 0:
            self.row -= 1
        self.full = False

    def tab(self, count: int = 1) -> None:
        """To the next tab stop, or the one before."""
        for _ in range(min(abs(count), 16)):
            if count > 0:
                ahead = [stop for stop in self.tabs if self.column < stop < self.columns]
                self.move(self.row, min(ahead, default=self.columns - 1))
            else:
                self.move(self.row, max((stop for stop in self.tabs if stop < self.column), default=0))

    def move(self, row: int, column: int) -> None:
        """Put the cursor somewhere on the screen."""
        self.row = max(0, min(row, self.height - 1))
        self.column = max(0, min(column, self.columns - 1))
        self.full = False

    def shift(self, down: int, right: int) -> None:
        """Move the cursor from where it is; it stops at a margin it has not crossed."""
        row = self.row + down
        if down < 0 and self.row >= self.top:
            row = max(row, self.top)
        if down > 0 and self.row <= self.bottom:
            row = min(row, self.bottom)
        self.move(row, self.column + right)

    def place(self, row: int, column: int) -> None:
        """Move the cursor to a position counted from the top, or from the margin in origin mode."""
        if self.from_margin:
            self.move(min(self.top + row, self.bottom), column)
        else:
            self.move(row, column)

    def margins(self, top: int, bottom: int) -> None:
        """Let only these rows scroll."""
        if 0 <= top < bottom < self.height:
            self.top, self.bottom = top, bottom
            self.place(0, 0)

    def save(self) -> None:
        """Remember the cursor."""
        self.saved = (self.row, self.column, self.from_margin, self.charsets[0])

    def restore(self) -> None:
        """Put the cursor where it was remembered."""
        row, column, self.from_margin, self.charsets[0] = self.saved
        self.move(row, column)

    def erase_line(self, what: int) -> None:
        """Blank the line from the cursor (0), up to it (1) or whole (2)."""
        start, end = ((self.column, self.columns), (0, self.column + 1), (0, self.columns))[what]
        self.grid.row(self.row).erase(start, end)

    def erase_screen(self, what: int) -> None:
        """Blank the screen from the cursor (0), up to it (1) or whole (2, 3)."""
        grid = self.grid
        if what >= 2:
            grid.clear(0, self.height - 1)
            return
        self.erase_line(what)
        if what == 0:
            grid.clear(self.row + 1, self.height - 1)
        else:
            grid.clear(0, self.row - 1)

    def edit_lines(self, count: int) -> None:
        """Insert blank lines at the cursor, or remove some."""
        if self.top <= self.row <= self.bottom:
            if count > 0:
                self.grid.scroll_down(self.row, self.bottom, count)
            else:
                self._remove_lines(-count)
            self.column, self.full = 0, False

    def _remove_lines(self, count: int) -> None:
        grid = self.grid
        for _ in range(min(count, self.bottom - self.row + 1)):
            del grid.rows[self.row]
            grid.rows.insert(self.bottom, type(grid.rows[0])())
        grid.touch(self.row, self.bottom)

    def resize(self, rows: int, columns: int) -> None:
        """Take another size."""
        self.row = self.grid.resize(rows, columns, self.row)
        self.top, self.bottom = 0, rows - 1
        self.move(self.row, self.column)
