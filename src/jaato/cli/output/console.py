"""Write the answer, tables and JSON to stdout and everything else to stderr, without control characters on a terminal."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from errno import EIO
from typing import Any, Literal, TextIO, TypeVar

from jaato.lazy_pattern import lazy_pattern

CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
STEERING = lazy_pattern(f"[{CONTROLS}]")
HIDDEN = lazy_pattern(
    f"[{CONTROLS}\u00ad\u180e\u200b-\u200d\u2028\u2029\u2060-\u2065\ufeff\U000e0000-\U000e0fff]"
)
SURROGATES = lazy_pattern("[\ud800-\udfff]")
COLOURS = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
Look = Literal["", "dim", "bold", "red", "green", "yellow", "blue", "cyan"]
BAR_CHARS = 24
MAX_WAITING_CHARS = 100_000
"""Characters of notes that wait for the end of a line of the answer, until it is broken for them."""
BRACKETED_PASTE, PLAIN_PASTE = "\x1b[?2004h", "\x1b[?2004l"
"""Have the terminal mark pasted text, or not."""


def printable(text: str) -> str:
    """Text without characters that could move the cursor, change colours or hide text."""
    return SURROGATES.sub("\ufffd", STEERING.sub("", text.replace("\r\n", "\n")))


def visible(text: str) -> str:
    """Text with control and invisible characters spelled out, as `<U+001B>`; newlines and tabs stay.

    For text that a user decides about.
    """
    named = HIDDEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)
    return SURROGATES.sub("\ufffd", named)


def one_line(text: str, width: int) -> str:
    """Text on one line of at most `width` characters."""
    line = visible(" ".join(re.split(r"[ \t\n\r\f\v]+", text.strip())))
    return line if len(line) <= width else f"{line[: max(1, width - 1)]}…"


class Console:
    """Writes to stdout and stderr, which may share a terminal: no line of stderr interrupts a line of the answer."""

    def __init__(
        self, environ: Mapping[str, str], out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self.out_is_terminal = self._out.isatty()
        self.err_is_terminal = self._err.isatty()
        plain = bool(environ.get("NO_COLOR")) or environ.get("TERM", "") in ("", "dumb")
        self.colours = self.err_is_terminal and not plain
        self.moves = self.err_is_terminal and environ.get("TERM", "") not in ("", "dumb")
        self.whole_messages = is_file(self._out)
        """Whether stdout is a file; only complete messages are written to it."""
        self.beside: Callable[[Callable[[], None]], object] | None = None
        """Runs a write above the line that an editor is drawing."""
        self.covered = False
        """Whether other text was written after a prompt whose answer has not come."""
        self._prompted = self._marks_paste = False
        self.in_text = False
        """Whether a line of the answer is not complete."""
        self._bar = ""
        self._progress = ""
        """The last progress that was printed."""
        self._waiting: list[tuple[str, Look]] = []
        """Notes that are written once the line of the answer is complete, or has kept too many characters waiting."""
        self._waiting_chars = 0

    @property
    def can_ask(self) -> bool:
        """Whether questions can be asked: stdin and stderr are a terminal."""
        return sys.stdin.isatty() and self.err_is_terminal

    @property
    def width(self) -> int:
        """The columns of the terminal; 100 when stderr is none."""
        if not self.err_is_terminal:
            return 100
        import shutil  # with every kind of archive

        return shutil.get_terminal_size((100, 24)).columns

    def paint(self, text: str, look: Look) -> str:
        """Text in a colour, if colours are enabled."""
        return f"\x1b[{COLOURS[look]}m{text}\x1b[0m" if look and self.colours else text

    def text(self, text: str) -> None:
        """Write a part of the answer. Raises BrokenPipeError when its reader exited."""
        if not text:
            return
        self._leave_prompt()
        self._clear_bar()
        line, newline, rest = text.partition("\n") if self._waiting else (text, "", "")
        text = line + newline
        self._put(printable(text) if self.out_is_terminal else text)
        self.in_text = not text.endswith("\n")
        if newline:
            self._write_waiting()
            self.text(rest)

    def end_text(self) -> None:
        """End a message: write a newline unless it ends with one."""
        if self.in_text:
            self.in_text = False
            self._put("\n")
        self._write_waiting()

    def _write_waiting(self) -> None:
        waiting, self._waiting, self._waiting_chars = self._waiting, [], 0
        for text, look in waiting:
            self.note(text, look)

    def _put(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except OSError as error:
            if error.errno != EIO:
                raise
            raise BrokenPipeError from None  # the terminal was closed

    def note(self, text: str, look: Look = "", *, waits: bool = False) -> None:
        """Write a line to stderr. One that `waits` does not break a line of the answer, and is written after it, unless too
        many wait."""
        if self.in_text and self.out_is_terminal and self.err_is_terminal:
            if waits:
                self._waiting.append((text, look))
                self._waiting_chars += len(text) + 1
                if self._waiting_chars > MAX_WAITING_CHARS:
                    self.end_text()
                return
            self.end_text()
        self._leave_prompt()
        self._clear_bar()
        self._write(self.paint(printable(text), look) + "\n")

    def prompt(self, text: str, *, stays: bool = False) -> None:
        """Write a prompt to stderr, without a newline. Text that is written before the answer to one that `stays` begins a
        new line, and sets `covered`."""
        if self.in_text and self.out_is_terminal:
            self.end_text()
        self._leave_prompt()
        self._clear_bar()
        paste = BRACKETED_PASTE if stays and self.moves else ""
        self._write(paste + self.paint(printable(text), "bold"))
        self._prompted, self.covered = stays, False
        self._marks_paste = bool(paste)

    def end_prompt(self) -> None:
        """End a prompt that `stays`: its answer has come, with a newline, or it needs none."""
        self._prompted = self.covered = False
        if self._marks_paste:
            self._marks_paste = False
            self._write(PLAIN_PASTE)

    def _leave_prompt(self) -> None:
        if self._prompted:
            self._prompted, self.covered = False, True
            self._write("\n")

    def progress(self, step: str, done: int, total: int | None, unit: str = "bytes") -> None:
        """Show progress: as a bar on a terminal, else as a line for every tenth."""
        part = min(1.0, done / total) if total else 0.0
        if self.moves:
            filled = round(part * BAR_CHARS)
            of_total = f"{amount_text(done, unit, name=False)} of {amount_text(total, unit)}"
            bar = f"{step} [{'#' * filled}{'.' * (BAR_CHARS - filled)}] {part:4.0%} {of_total}"
            if bar == self._progress and not self._bar:
                return  # its end was already printed
            self._progress = bar
            self._write(f"\r\x1b[K{one_line(bar, self.width - 1)}")
            self._bar = bar
            if total and done >= total:
                self._write("\n")
                self._bar = ""
            return
        line = f"{step}: {int(part * 10) * 10} % of {amount_text(total, unit)}"
        if line != self._progress:
            self._progress = line
            self._write(line + "\n")

    def _clear_bar(self) -> None:
        if self._bar and self.moves:
            self._write("\r\x1b[K")
        self._bar = ""

    def _write(self, text: str) -> None:
        if self.beside is not None:
            self.beside(lambda: self._write_now(text))
        else:
            self._write_now(text)

    def _write_now(self, text: str) -> None:
        try:
            self._err.write(text)
            self._err.flush()
        except (OSError, ValueError):
            pass  # stderr is closed; the work continues


def amount_text(count: int | None, unit: str, *, name: bool = True) -> str:
    """A count with its unit; `name` false leaves out the name of one that is not bytes."""
    if unit == "bytes" or count is None:
        return size_text(count)
    return f"{count:,} {unit}".rstrip() if name else f"{count:,}"


def size_text(count: int | None) -> str:
    """A number of bytes with its unit."""
    if count is None:
        return "?"
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"


def is_file(stream: TextIO) -> bool:
    """Whether a stream is a regular file."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


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
