"""CSV files as tables of an SQLite database in memory: detects encoding, delimiter and column types.

Runs in a process of its own.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato.errors import ToolError
from jaato.plugins.data.sqlite import BoundedConnection, fetch_rows, may_read
from jaato.tools.processes.sandbox_process import QueryTimer

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


def track_row_lines(rows: Iterator[list[str]], text: Lines) -> Iterator[list[str]]:
    """The rows, with `text` keeping the lines of the last one alone."""
    while True:
        kept, text.row = text.row, []
        row = next(rows, None)
        if row is None:
            text.row = text.row or kept
            return
        yield row


def detect_encoding(sample: bytes, path: str) -> str:
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


def detect_delimiter(sample: str) -> str:
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


SAMPLE_BYTES = 256 << 10
MAX_COLUMNS = 1_000
MAX_FIELD_CHARS = 1 << 20
TOP_VALUES = 5
WIND_UP_S = 2.0
"""More than a query's time, so that it ends in order where it can."""
SAMPLE_ROWS = 5
LONGEST_DIGITS = 15
"""So many digits every number of floating point keeps."""


class Table:
    """One file loaded as a table."""

    def __init__(self, name: str, file: dict[str, Any]) -> None:
        self.name = name
        self.path: str = file["path"]
        self.encoding = ""
        self.delimiter = ""
        self.columns: list[str] = []
        self.types: list[str] = []
        self.rows = 0
        self.ragged = 0
        self.open_line = 0

    def facts(self) -> dict[str, Any]:
        """How the file was read."""
        facts: dict[str, Any] = {
            "table": self.name,
            "delimiter": self.delimiter,
            "encoding": self.encoding,
            "rows": self.rows,
        }
        notes: list[str] = []
        if self.ragged:
            notes.append(
                f"{self.ragged} rows have too few or too many fields; missing ones are NULL, others left out"
            )
        if self.open_line:
            notes.append(
                f"a quotation mark in the row at line {self.open_line} is never closed, so all lines after it are one field"
            )
        if notes:
            facts["note"] = "; ".join(notes)
        return facts


def query(request: dict[str, Any]) -> dict[str, Any]:
    """Load the files and run one reading statement over them."""
    connection = open_in_memory()
    tables = [load(connection, name, file, request) for name, file in request["files"].items()]
    guarded = BoundedConnection(connection, may_read, request["query_s"])
    with QueryTimer(
        request["query_s"] + WIND_UP_S
    ):  # for what Guarded's clock does not see: one step that is long
        result = fetch_rows(
            guarded, guarded.run(request["sql"], request["params"] or ()), request["max_rows"]
        )
    notes = [
        table.facts() for table in tables if table.ragged or table.open_line or table.encoding != "utf-8"
    ]
    return {**result, "read_as": notes} if notes else result


def describe(request: dict[str, Any]) -> dict[str, Any]:
    """Load one file and say what is in each column."""
    connection = open_in_memory()
    table = load(connection, "data", request["files"]["data"], request)
    guarded = BoundedConnection(connection, may_read, request["time_s"])
    columns = [
        column_facts(guarded, name, kind) for name, kind in zip(table.columns, table.types, strict=True)
    ]
    sample = fetch_rows(guarded, guarded.run(f"SELECT * FROM data LIMIT {SAMPLE_ROWS}"), SAMPLE_ROWS)["rows"]  # noqa: S608
    return {**table.facts(), "columns": columns, "sample": sample}


def column_facts(guarded: BoundedConnection, name: str, kind: str) -> dict[str, Any]:
    """Type, emptiness, range and, where there are few, the commonest values of a column."""
    quoted = quote_name(name)
    count, distinct, least, most = guarded.run(
        f"SELECT count({quoted}), count(DISTINCT {quoted}), min({quoted}), max({quoted}) FROM data"  # noqa: S608
    ).fetchone()
    nulls = guarded.run("SELECT count(*) FROM data").fetchone()[0] - count
    facts: dict[str, Any] = {"name": name, "type": kind, "distinct": distinct}
    if nulls:
        facts["empty"] = nulls
    if count:
        facts |= {"min": shorten(least), "max": shorten(most)}
    if 0 < distinct <= count // 2:
        top = guarded.run(
            f"SELECT {quoted}, count(*) FROM data WHERE {quoted} IS NOT NULL GROUP BY 1 "  # noqa: S608
            f"ORDER BY 2 DESC, 1 LIMIT {TOP_VALUES}"
        )
        facts["commonest"] = [[shorten(value), number] for value, number in top]
    return facts


def shorten(value: Any) -> Any:
    """A value, cut when it is a long text."""
    return f"{value[:60]}…" if isinstance(value, str) and len(value) > 60 else value


def open_in_memory() -> sqlite3.Connection:
    """An empty one, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)
    connection.execute("PRAGMA journal_mode=OFF")
    connection.execute("PRAGMA temp_store=MEMORY")
    return connection


def load(connection: sqlite3.Connection, name: str, file: dict[str, Any], request: dict[str, Any]) -> Table:
    """Read a file into a table of this name. Raises `CsvRefused`."""
    table = Table(name, file)
    with os.fdopen(file["fd"], "rb") as raw:
        sample = raw.read(SAMPLE_BYTES)
        raw.seek(0)
        table.encoding = detect_encoding(sample, table.path)
        start = sample.decode(table.encoding, "replace")
        result = SEPARATOR.match(start)
        table.delimiter = request["delimiter"] or (result[1] if result else detect_delimiter(start))
        text = Lines(io.TextIOWrapper(raw, encoding=table.encoding, errors="replace", newline=""))
        csv.field_size_limit(MAX_FIELD_CHARS)
        if result:
            next(text)
        reader = csv.reader(text, delimiter=table.delimiter)
        try:
            first = next((row for row in reader if row), None)
            if first is None:
                raise CsvRefused(f"{table.path!r} is empty.")
            table.columns = column_names(first if request["header"] else [""] * len(first))
            columns = ", ".join(map(quote_name, table.columns))
            try:
                connection.execute(f"CREATE TABLE {quote_name(name)} ({columns})")
            except sqlite3.Error as error:
                raise CsvRefused(f"{table.path!r} makes no table: {error}.") from None
            lines = reader if request["header"] else itertools.chain([first], reader)
            insert_rows(connection, table, lines, text)
            if text.is_open(table.delimiter):
                table.open_line = text.number - len(text.row) + 1
        except csv.Error as error:
            raise CsvRefused(
                f"{table.path!r} cannot be read as CSV, in the row at line {text.number - len(text.row) + 1}: {error}. "
                f"Is a quotation mark there never closed? Is {table.delimiter!r} the delimiter?"
            ) from None
        except UnicodeError as error:
            raise CsvRefused(f"{table.path!r} cannot be read as {table.encoding}: {error}.") from None
    convert_columns(connection, table)
    return table


def column_names(row: list[str]) -> list[str]:
    """Column names: those of the first row, made unique; one without a name is column_3. Raises `CsvRefused`."""
    if len(row) > MAX_COLUMNS:
        raise CsvRefused(
            f"There are {len(row)} columns; at most {MAX_COLUMNS} can be read. Is the delimiter right?"
        )
    names: list[str] = []
    taken: set[str] = set()
    for number, cell in enumerate(row, 1):
        text = cell.encode("utf-8", "replace").decode().replace("\0", "")  # as SQLite takes it
        name = text.strip()[:200] or f"column_{number}"
        base, count = name, 2
        while name.lower() in taken:
            name, count = f"{base}_{count}", count + 1
        taken.add(name.lower())
        names.append(name)
    return names


def quote_name(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def insert_rows(
    connection: sqlite3.Connection, table: Table, lines: Iterator[list[str]], text: Lines
) -> None:
    """Insert every row, cut or lengthened to the number of columns."""
    width = len(table.columns)
    marks = ", ".join("?" * width)

    def rows() -> Iterator[Sequence[str | None]]:
        for line in track_row_lines(lines, text):
            if len(line) == width:
                yield line
            elif line:
                table.ragged += 1
                yield [*line[:width], *[None] * (width - len(line))]
            else:
                continue
            table.rows += 1

    connection.execute("BEGIN")
    connection.executemany(f"INSERT INTO {quote_name(table.name)} VALUES ({marks})", rows())  # noqa: S608
    connection.execute("COMMIT")


def convert_columns(connection: sqlite3.Connection, table: Table) -> None:
    """Find each column's type and convert it: whole numbers, numbers, else text; empty fields become NULL.

    Spaces around a number do not count. Whole numbers too long for any type, as identifiers are, stay text.
    """
    checks: list[str] = []
    for name in table.columns:
        column, bare = quote_name(name), f"trim({quote_name(name)})"
        too_long = f"length({bare}) > {LONGEST_DIGITS} AND {bare} NOT GLOB '*[^-0-9]*'"
        whole = f"CAST(CAST({bare} AS INTEGER) AS TEXT) = {bare}"
        numeric = f"({bare} GLOB '[-0-9]*' AND json_valid({bare}))"
        checks += [
            f"coalesce(sum({bare} <> ''), 0)",
            f"coalesce(sum({bare} <> '' AND NOT {whole}), 0)",
            f"coalesce(sum({bare} <> '' AND NOT {numeric} OR {too_long} AND NOT {whole}), 0)",
            f"coalesce(sum({column} = ''), 0)",
            f"coalesce(sum({too_long}), 0)",
        ]
    changes: list[str] = []
    row: list[int] = []
    for start in range(0, len(checks), 1_000):  # SQLite takes so many columns in a result
        part = ", ".join(checks[start : start + 1_000])
        row += connection.execute(f"SELECT {part} FROM {quote_name(table.name)}").fetchone()  # noqa: S608
    for number, name in enumerate(table.columns):
        filled, not_whole, not_number, empty, long = row[number * 5 : number * 5 + 5]
        kind = (
            "TEXT" if not filled or not_number or (not_whole and long) else "REAL" if not_whole else "INTEGER"
        )
        table.types.append(kind)
        column = quote_name(name)
        if kind != "TEXT":
            changes.append(f"{column} = CAST(nullif(trim({column}), '') AS {kind})")
        elif empty:
            changes.append(f"{column} = nullif({column}, '')")
    if changes:
        connection.execute(f"UPDATE {quote_name(table.name)} SET {', '.join(changes)}")  # noqa: S608
