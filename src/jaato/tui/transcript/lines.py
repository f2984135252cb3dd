"""Wrap text into strips of the terminal's cells. Foreign text is cleaned first and is never read as markup."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from jaato.cli.output.console import printable

TAB = 4
SEPARATORS = {0x2028: " ", 0x2029: " ", 0x0B: " ", 0x0C: " ", 0x85: " "}
MAX_LINES = 400
"""Lines that are drawn of one result or text that is not the agent's answer."""
MAX_WORD_CHARS = 20_000
"""Characters of a text that is broken between words, which costs far more."""
MAX_CHARS = 200_000
"""Characters that are laid out of one text; of a longer one the beginning."""


@lru_cache(1)
def get_console() -> Console:
    """The console that rich wraps with; nothing is written to it."""
    return Console(file=io.StringIO(), width=80, color_system=None, legacy_windows=False, _environ={})


def clean(text: str, *, tabs: bool = True) -> str:
    """Text without control characters that could move the cursor or hide something. Tabs go to the next multiple of four
    columns; without `tabs` each is four blanks, so that pieces of a text can be cleaned one by one."""
    plain = printable(text).translate(SEPARATORS)
    return plain.expandtabs(TAB) if tabs else plain.replace("\t", " " * TAB)


def wrap_text(text: Text, width: int) -> list[Text]:
    """The lines of a text at a width, broken between words where there are any."""
    if "\n" not in text.plain and text.cell_len <= width:
        return [text]
    return list(text.wrap(get_console(), max(1, width), overflow="fold"))


def make_strip(text: Text) -> Strip:
    """One line as a strip."""
    if not text.spans:
        return Strip(
            [Segment(text.plain, Style.parse(text.style) if isinstance(text.style, str) else text.style)]
        )
    text.end = ""
    segments = [segment for segment in text.render(get_console()) if segment.text]
    return Strip(segments, sum(cell_len(segment.text) for segment in segments))


def lay_out_plain(text: str, width: int, style: Style) -> list[Strip]:
    """The lines of clean text in one style, broken at the width; the cheapest way to lay text out."""
    found: list[Strip] = []
    for line in text.split("\n"):
        if not line:
            found.append(Strip([], 0))
        elif line.isascii():
            found += [
                Strip([Segment(line[at : at + width], style)], min(width, len(line) - at))
                for at in range(0, len(line), width)
            ]
        else:
            found += [Strip([Segment(part, style)], cell_len(part)) for part in chop_cells(line, width)]
    return found


def lay_out_words(text: str, width: int, style: Style) -> list[Strip]:
    """The lines of clean text in one style, broken between words."""
    return [make_strip(line) for line in wrap_text(Text(text, style), width)]


class Lines:
    """Lines of which only the number is known until they are seen, so that a long text costs what is visible of it."""

    def __init__(self, strips: Iterable[Strip] = ()) -> None:
        self._makers: list[Callable[[], list[Strip]]] = []
        self._ends: list[int] = []
        """The number of lines up to the end of each part."""
        self._made: tuple[int, list[Strip]] = -1, []
        """The part that was made last."""
        self.extend(strips)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, at: int) -> Strip:
        if not 0 <= at < len(self):
            raise IndexError(at)
        part = bisect_right(self._ends, at)
        if self._made[0] != part:
            self._made = part, self._makers[part]()
        return self._made[1][at - self._ends[part]]

    def __iter__(self) -> Iterator[Strip]:
        return (strip for make in self._makers for strip in make())

    def add(self, height: int, make: Callable[[], list[Strip]]) -> None:
        """Add as many lines as are made later."""
        self._makers.append(make)
        self._ends.append(len(self) + height)

    def extend(self, strips: Iterable[Strip]) -> None:
        """Add lines that are made."""
        if made := list(strips):
            self.add(len(made), lambda: made)

    def join(self, lines: Lines) -> None:
        """Add the lines of another text."""
        first = len(self)
        self._makers += lines._makers
        self._ends += [first + end for end in lines._ends]

    def add_plain(self, text: str, width: int, style: Style) -> None:
        """Add clean text in one style, broken at the width."""
        for line in text.split("\n"):
            self.add(count_plain(line, width), partial(lay_out_plain, line, width, style))

    def add_words(self, text: str, width: int, style: Style) -> None:
        """Add clean text in one style, broken between words, a very long one anywhere. Only a line that is broken is laid
        out at once."""
        is_long = len(text) > MAX_WORD_CHARS
        for line in text.split("\n"):
            if is_long or cell_len(line) <= width:
                self.add_plain(line, width, style)
            else:
                self.extend(lay_out_words(line, width, style))


def count_plain(line: str, width: int) -> int:
    """The lines that `lay_out_plain` makes of one."""
    if line.isascii():
        return max(1, -(-len(line) // width))
    return 1 if cell_len(line) <= width else len(chop_cells(line, width))


def add_prefix(strips: list[Strip], first: str, rest: str, style: Style) -> list[Strip]:
    """Strips with a prefix before the first and another before the others; both have the same width."""
    heads = [Segment(first, style), Segment(rest, style)]
    width = cell_len(first)
    return [
        Strip([heads[min(number, 1)], *strip], width + strip.cell_length)
        for number, strip in enumerate(strips)
    ]


def fill(strips: list[Strip], width: int, style: Style) -> list[Strip]:
    """Strips that are extended to the width with blanks in a style."""
    return [strip.extend_cell_length(width, style) for strip in strips]


def shorten_path(path: str, home: str) -> str:
    """A path as a shell's prompt shows it: the home directory as `~`."""
    is_below = len(home) > 1 and (path == home or path.startswith(f"{home}/"))
    return f"~{path[len(home) :]}" if is_below else path


def cut_line(text: str, width: int) -> str:
    """A clean line cut to a width in cells, with an ellipsis."""
    if cell_len(text) <= width:
        return text
    room = max(0, width - 1)
    parts = chop_cells(text, room) if room else []
    return f"{parts[0] if parts else ''}…"
