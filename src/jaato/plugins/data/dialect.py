"""How a CSV file is written: its encoding, its delimiter, where a row begins.

Runs in a process of its own.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator

from jaato.errors import ToolError

DELIMITERS = ",;\t|"
SEPARATOR = re.compile(r'\A\ufeff?"?sep=([,;\t|])"?\r?\n', re.IGNORECASE)
"""The line by which spreadsheets say the delimiter to each other."""


class CsvRefused(ToolError):
    """The file cannot be read as a table."""

    code = "csv_refused"


class Lines:
    """Lines of a text for a reader of CSV, the last ones kept: those of one row."""

    def __init__(self, text: Iterable[str]) -> None:
        self._lines = iter(text)
        self.row: list[str] = []
        self.number = 0

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.row.append(line)
        self.number += 1
        return line

    def is_open(self, delimiter: str) -> bool:
        """Whether the last row ends within quotation marks: then a strict reader does not find its end."""
        try:
            list(csv.reader(self.row, delimiter=delimiter, strict=True))
        except csv.Error as error:
            return "end of data" in str(error)
        return False


def spanned(rows: Iterator[list[str]], text: Lines) -> Iterator[list[str]]:
    """The rows, with `text` keeping the lines of the last one alone."""
    while True:
        kept, text.row = text.row, []
        row = next(rows, None)
        if row is None:
            text.row = text.row or kept
            return
        yield row


def encoding_of(sample: bytes, path: str) -> str:
    """The encoding of a text by its first bytes. Raises `CsvRefused` for bytes that are no text."""
    if sample.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in sample:
        raise CsvRefused(f"{path!r} is binary, not CSV. For SQLite databases there is sqlite_query.")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return "cp1252" if not set(sample) & {0x81, 0x8D, 0x8F, 0x90, 0x9D} else "latin-1"
    return "utf-8"


def delimiter_of(sample: str) -> str:
    """The delimiter that splits the first lines most evenly into most fields; a comma when none does."""
    best, found = (0.0, 0), ","
    for delimiter in DELIMITERS:
        reader = csv.reader(io.StringIO(sample[:65_536], newline=""), delimiter=delimiter)
        widths: list[int] = []
        try:
            for row in reader:
                if row:
                    widths.append(len(row))
                if len(widths) == 200:
                    break
        except csv.Error:
            continue
        usual = max(set(widths), key=widths.count, default=1)
        if usual > 1:
            score = (round(widths.count(usual) / len(widths), 1), usual)
            if score > best:
                best, found = score, delimiter
    return found
