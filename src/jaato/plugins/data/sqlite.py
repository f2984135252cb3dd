"""Queries untrusted SQLite databases: nothing but the one file is read or changed, and time and size are bounded.

Runs in a process of its own, whose directory becomes the database's.
"""

from __future__ import annotations

import math
import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from jaato.errors import ToolError

MAX_CELL_CHARS = 10_000
MAX_RESULT_CHARS = 1_000_000
MAX_VALUE_BYTES = 64 << 20
CHANGING = "Changing the data"
STEPS = 5_000
"""Of SQLite's virtual machine between two checks of the deadline."""
FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})
READING_PRAGMAS = frozenset(
    "table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list foreign_key_check "
    "database_list collation_list function_list pragma_list module_list compile_options data_version "
    "schema_version user_version application_id encoding page_count page_size freelist_count journal_mode "
    "quick_check integrity_check foreign_keys auto_vacuum".split()
)
WRITING_PRAGMAS = frozenset("user_version application_id foreign_keys defer_foreign_keys optimize".split())
CHECKS = frozenset("quick_check integrity_check foreign_key_check".split())
MODULES = ("fts3", "fts4", "fts5", "rtree", "rtree_i32", "geopoly")
READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
BEYOND = frozenset({sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_TRANSACTION})
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 10_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
}


UNUSABLE = "SQLite cannot use it ({text}). If a program was killed while it wrote, let that program open it once more."
FAILURES = (
    ("one statement at a time", "Give one statement at a time."),
    ("locked", "The database is locked: another program is writing to it. Try again later."),
    ("file is not a database", "This file is no SQLite database, or it is encrypted."),
    (
        "malformed",
        "The database is damaged here; other tables may be whole. PRAGMA integrity_check says what is wrong.",
    ),
    ("unable to open", UNUSABLE),
    ("readonly database", UNUSABLE),
    (
        "string or blob too big",
        f"A value would have more than {MAX_VALUE_BYTES >> 20} MB. Use substr() or less data.",
    ),
)
"""What to do about an error, by a part of SQLite's message."""


class QueryFailed(ToolError):
    """The statement could not be run."""

    code = "query_failed"


def may_read(action: int, first: str | None, second: str | None) -> bool:
    """Whether a reading statement may do this, as SQLite's authorizer puts it."""
    if action in READING:
        return True
    if action == sqlite3.SQLITE_CREATE_TABLE or first == "sqlite_master":
        return True  # what a virtual table does when it is opened; the database itself takes no writing
    if action == sqlite3.SQLITE_FUNCTION:
        return (second or "").lower() not in FORBIDDEN_FUNCTIONS
    if action == sqlite3.SQLITE_PRAGMA:
        name = (first or "").lower()
        return name in READING_PRAGMAS and (
            second is None or name in CHECKS or name.endswith(("_info", "_list", "_xinfo"))
        )
    return False


def may_write(action: int, first: str | None, second: str | None) -> bool:
    """Whether a writing statement may do this."""
    if action in BEYOND:
        return False
    if action == sqlite3.SQLITE_FUNCTION:
        return (second or "").lower() not in FORBIDDEN_FUNCTIONS
    if action == sqlite3.SQLITE_PRAGMA:
        return (first or "").lower() in WRITING_PRAGMAS or may_read(action, first, second)
    if action == sqlite3.SQLITE_CREATE_VTABLE:
        return (second or "").lower() in MODULES
    return True


class BoundedConnection:
    """A connection whose statements are bounded: by what `allows` says, by time and by size."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        allows: Callable[[int, str | None, str | None], bool],
        time_s: float,
    ) -> None:
        self.connection = connection
        self._allows = allows
        self._until = time.monotonic() + time_s
        self._time_s = time_s
        self._trusted = False
        self._refused = ""
        for kind, most in LIMITS.items():
            connection.setlimit(kind, most)
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.execute("PRAGMA trusted_schema=OFF")
        if allows is may_read:
            connection.execute("PRAGMA query_only=ON")
        connection.set_authorizer(self._authorize)
        connection.set_progress_handler(lambda: time.monotonic() > self._until, STEPS)

    def own(self, sql: str) -> sqlite3.Cursor:
        """Run a statement of ours, which may do anything."""
        self._trusted = True
        try:
            return self.connection.execute(sql)
        finally:
            self._trusted = False

    def run(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Run one untrusted statement. Raises `QueryFailed`."""
        self._refused = ""
        try:
            return self.connection.execute(sql, parameters)
        except (sqlite3.Error, sqlite3.Warning, UnicodeEncodeError, ValueError, OverflowError) as error:
            raise self.failure(error) from None

    def failure(self, error: BaseException) -> QueryFailed:
        """Why a statement failed, in words that say what to do."""
        text = str(error)
        if isinstance(error, sqlite3.OperationalError) and text == "interrupted":
            return QueryFailed(
                f"The query took more than {self._time_s:g} s and was stopped. Narrow it: a WHERE that an index "
                "serves, fewer joins, a LIMIT."
            )
        if getattr(error, "sqlite_errorname", "") == "SQLITE_READONLY_ROLLBACK":
            return QueryFailed(
                "A program was killed while it wrote to the database, and what it left has to be taken back before it "
                "can be read. Let that program open it once more, or use sqlite_execute with SELECT 1."
            )
        if self._refused or "attempt to write a readonly database" in text:
            hint = (
                "To change a database, use sqlite_execute." if self._allows is may_read else "Leave it out."
            )
            return QueryFailed(f"{self._refused or CHANGING} is not allowed here. {hint}")
        for part, message in FAILURES:
            if part in text:
                return QueryFailed(message.format(text=text))
        return QueryFailed(
            f"SQLite says: {text[:1_000]}. Correct the statement; sqlite_schema shows what there is."
        )

    def _authorize(
        self, action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None
    ) -> int:
        if self._trusted or self._allows(action, first, second):
            return sqlite3.SQLITE_OK
        self._refused = self._refused or refusal_reason(action, first, second)
        return sqlite3.SQLITE_DENY


def refusal_reason(action: int, first: str | None, second: str | None) -> str:
    """The name of the action that was denied."""
    match action:
        case sqlite3.SQLITE_ATTACH | sqlite3.SQLITE_DETACH:
            return "ATTACH, DETACH or VACUUM"
        case sqlite3.SQLITE_PRAGMA:
            return f"PRAGMA {first}"
        case sqlite3.SQLITE_FUNCTION:
            return f"The function {second}"
        case sqlite3.SQLITE_TRANSACTION:
            return "BEGIN, COMMIT or ROLLBACK (all is one transaction anyway)"
        case sqlite3.SQLITE_CREATE_VTABLE:
            return f"A virtual table of {second}"
    return CHANGING


def fetch_rows(guarded: BoundedConnection, cursor: sqlite3.Cursor, max_rows: int) -> dict[str, Any]:
    """The first rows of a result, whether there are `more`, and why. Raises `QueryFailed`."""
    rows: list[list[Any]] = []
    size = 0
    note = ""
    try:
        for row in cursor:
            if len(rows) == max_rows:
                note = f"The first {max_rows} rows. Aggregate, narrow, or page with LIMIT and OFFSET."
                break
            cells = [to_json_value(cell) for cell in row]
            size += sum(len(cell) if isinstance(cell, str) else 12 for cell in cells)
            if size > MAX_RESULT_CHARS and rows:
                note = f"The first {len(rows)} rows; the next would make the result too long. Select fewer columns."
                break
            rows.append(cells)
    except (sqlite3.Error, ValueError) as error:
        raise guarded.failure(error) from None
    columns = [column[0] for column in cursor.description or ()]
    result: dict[str, Any] = {"columns": columns, "rows": rows, "row_count": len(rows)}
    return {**result, "more": True, "note": note} if note else result


def to_json_value(cell: Any) -> Any:
    """A value as JSON can carry it: bytes as the first of their hexadecimal digits, long text cut."""
    match cell:
        case bytes():
            return f"<{len(cell)} bytes: {cell[:32].hex()}{'…' if len(cell) > 32 else ''}>"
        case str() if len(cell) > MAX_CELL_CHARS:
            return f"{cell[:MAX_CELL_CHARS]}… ({len(cell)} characters; use substr())"
        case float() if not math.isfinite(cell):
            return "Infinity" if cell > 0 else "-Infinity"
    return cell


JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|;", re.DOTALL)
"""What may hold a semicolon that ends nothing, and the semicolon."""
FOREIGN_KEYS = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*PRAGMA\s+foreign_keys\b", re.DOTALL | re.IGNORECASE)
SIDE_FILES = ("-journal", "-wal", "-shm")
BUSY_S = 3.0
MAX_STATEMENTS = 1_000
MAX_OBJECTS = 300
COUNTED_BYTES = 256 << 20
"""Up to this size of a database, rows are counted."""


def query(request: dict[str, Any]) -> dict[str, Any]:
    """Run one reading statement."""
    guarded = open_database(request, "ro")
    return fetch_rows(guarded, guarded.run(request["sql"], request["params"] or ()), request["max_rows"])


def execute(request: dict[str, Any]) -> dict[str, Any]:
    """Run writing statements in one transaction: all of them or none."""
    guarded = open_database(request, "rwc" if request["create"] else "rw")
    statements = split_statements(request["sql"])
    if request["params"] and len(statements) != 1:
        raise QueryFailed(
            f"params go with one statement, and there are {len(statements)}. Give one at a time."
        )
    results: list[dict[str, Any]] = []
    before = guarded.connection.total_changes
    early = 0
    while early < len(statements) and FOREIGN_KEYS.match(statements[early]):  # no effect in a transaction
        guarded.run(statements[early]).close()
        early += 1
    try:
        guarded.own("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        raise guarded.failure(error) from None
    try:
        for number, statement in enumerate(statements[early:], early + 1):
            results += run_statement(guarded, statement, request, number if len(statements) > 1 else 0)
        guarded.own("COMMIT")
    except sqlite3.Error as error:
        roll_back(guarded)
        raise guarded.failure(error) from None
    except BaseException:
        roll_back(guarded)
        raise
    changed = guarded.connection.total_changes - before
    guarded.connection.close()
    return {
        "statements": len(statements),
        "changed_rows": changed,
        **({"results": results} if results else {}),
    }


def roll_back(guarded: BoundedConnection) -> None:
    """Take the transaction back, unless SQLite has done so."""
    if guarded.connection.in_transaction:
        guarded.connection.set_progress_handler(None, 0)
        guarded.own("ROLLBACK")


def run_statement(
    guarded: BoundedConnection, statement: str, request: dict[str, Any], number: int
) -> list[dict[str, Any]]:
    """Run one of several statements; gives its rows if it has any. Raises `QueryFailed`."""
    try:
        cursor = guarded.run(statement, request["params"] or ())
        return [fetch_rows(guarded, cursor, request["max_rows"])] if cursor.description else []
    except QueryFailed as error:
        where = f"Statement {number}: " if number else ""
        raise QueryFailed(f"{where}{error} Nothing was changed.") from None


def split_statements(sql: str) -> list[str]:
    """The statements of a script, in order; raises `QueryFailed` for none or too many."""
    statements: list[str] = []
    start = 0
    for token in TOKEN.finditer(sql):
        if token[0] == ";" and sqlite3.complete_statement(sql[start : token.end()]):
            statements.append(sql[start : token.end()])
            start = token.end()
    statements.append(sql[start:])
    found = [one for one in statements if one.strip().strip(";").strip()]
    if not found or len(found) > MAX_STATEMENTS:
        raise QueryFailed(f"There are {len(found)} statements; give 1 to {MAX_STATEMENTS}.")
    return found


def schema(request: dict[str, Any]) -> dict[str, Any]:
    """Tables and views with their columns, keys and indexes, and how many rows they have."""
    guarded = open_database(request, "ro")
    wanted = request["table"]
    inner = " AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow')"
    rows = guarded.run(
        "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'view') "  # noqa: S608 our own text
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND (? IS NULL OR lower(name) = lower(?))"
        f"{inner if sqlite3.sqlite_version_info >= (3, 37) else ''} ORDER BY name",
        (wanted, wanted),
    ).fetchall()
    if wanted is not None and not rows:
        raise QueryFailed(f"There is no table or view {wanted!r}. Leave table out to see all.")
    counts = request["size"] <= COUNTED_BYTES
    answer = [describe_table(guarded, kind, name, sql, counts) for kind, name, sql in rows[:MAX_OBJECTS]]
    result: dict[str, Any] = {"tables": answer, "size_bytes": request["size"]}
    if len(rows) > MAX_OBJECTS:
        result |= {
            "more": True,
            "note": f"{len(rows)} tables; the first {MAX_OBJECTS} are shown. Name one by table.",
        }
    return result


def describe_table(
    guarded: BoundedConnection, kind: str, name: str, sql: str | None, counts: bool
) -> dict[str, Any]:
    """One table or view."""
    quoted = '"' + name.replace('"', '""') + '"'
    try:
        info = guarded.run(
            'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?) WHERE hidden <> 1',
            (name,),
        ).fetchall()
    except (QueryFailed, sqlite3.Error) as error:
        return {"name": name, "kind": kind, "problem": str(error)}
    columns = [
        " ".join(
            part
            for part in (
                column,
                declared,
                "NOT NULL" if required else "",
                f"DEFAULT {default[:200]}" if default is not None else "",
                "PRIMARY KEY" if key else "",
                "GENERATED" if hidden else "",
            )
            if part
        )
        for column, declared, required, default, key, hidden in info
    ]
    entry: dict[str, Any] = {"name": name, "kind": kind, "columns": columns}
    keys = guarded.run('SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)', (name,)).fetchall()
    if keys:
        entry["foreign_keys"] = [f"{source} -> {table}({target or ''})" for source, table, target in keys]
    indexes = guarded.run(
        "SELECT l.name, l.\"unique\", group_concat(i.name, ', ') FROM pragma_index_list(?) l, pragma_index_info(l.name) i "
        "GROUP BY l.name",
        (name,),
    ).fetchall()
    if indexes:
        entry["indexes"] = [
            f"{index} ({fields}){' UNIQUE' if unique else ''}" for index, unique, fields in indexes
        ]
    if kind == "view" or (sql or "").upper().startswith("CREATE VIRTUAL"):
        entry["sql"] = (sql or "")[:2_000]
    if counts and kind == "table":
        try:
            entry["rows"] = guarded.run(f"SELECT count(*) FROM {quoted}").fetchone()[0]  # noqa: S608 quoted above
        except (QueryFailed, sqlite3.Error) as error:
            entry["problem"] = str(error)
    return entry


def open_database(request: dict[str, Any], mode: str) -> BoundedConnection:
    """The database, opened by its name in the directory that is worked in. Raises `QueryFailed`."""
    name = request["name"]
    check_side_files(name, mode)
    uri = f"file:./{quote(name)}?mode={mode}"
    if mode == "ro" and is_wal(name) and not os.path.lexists(f"{name}-wal"):
        uri += "&immutable=1"  # the file alone is the whole database, and nothing is made beside it
    before = open_files()
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, cached_statements=0)
        guarded = BoundedConnection(connection, may_read if mode == "ro" else may_write, request["time_s"])
    except sqlite3.Error as error:
        raise QueryFailed(f"The database cannot be opened: {error}.") from None
    try:
        guarded.own("PRAGMA schema_version").fetchall()
    except sqlite3.Error as error:
        raise guarded.failure(error) from None
    check_identity(name, request["identity"], open_files() - before)
    return guarded


def is_wal(name: str) -> bool:
    """Whether a database says that it is written by way of a write-ahead log."""
    try:
        with open(name, "rb") as file:
            return file.read(20)[18:20] == b"\2\2"
    except OSError:
        return False


def check_side_files(name: str, mode: str) -> None:
    """Raise `QueryFailed` unless what SQLite keeps beside the file is harmless: no link, no foreign name."""
    for suffix in SIDE_FILES:
        side = name + suffix
        try:
            info = os.lstat(side)
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(info.st_mode) or info.st_nlink > 1:
            raise QueryFailed(
                f"{side!r} is a link or no regular file, so the database is not opened. Remove it."
            )
        if suffix == "-journal" and mode != "ro" and info.st_size >= len(JOURNAL_MAGIC):
            with open(side, "rb") as journal:
                journal.seek(-len(JOURNAL_MAGIC), os.SEEK_END)
                if journal.read() == JOURNAL_MAGIC:
                    raise QueryFailed(
                        f"{side!r} is left of a write over several databases and names other files, so it is not "
                        "replayed here. Let the program that wrote it open it."
                    )


def open_files() -> set[tuple[int, int]]:
    """The device and inode of every regular file this process has open; none where that cannot be seen."""
    found: set[tuple[int, int]] = set()
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return found
    for number in numbers:
        try:
            info = os.fstat(int(number))
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode):
            found.add((info.st_dev, info.st_ino))
    return found


def check_identity(name: str, identity: list[int] | None, opened_now: set[tuple[int, int]]) -> None:
    """Raise `QueryFailed` if SQLite has opened anything but the database that was looked at and its side files."""
    known = {tuple(identity)} if identity else set()
    for suffix in ("", *SIDE_FILES):
        try:
            info = os.lstat(name + suffix)
        except FileNotFoundError:
            continue
        if stat.S_ISREG(info.st_mode) and (suffix or not identity):
            known.add((info.st_dev, info.st_ino))
    if not opened_now <= known:
        raise QueryFailed("The file was exchanged while it was opened, so nothing was read. Try again.")
