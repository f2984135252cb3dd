"""Bounded SQL queries: an authorizer, a time limit, and limits on the rows returned.

Runs in a process of its own.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from jaato.errors import ToolError

MAX_CELL_CHARS = 10_000
MAX_RESULT_CHARS = 1_000_000
MAX_VALUE_BYTES = 64 << 20
CHANGING = "Changing the data"
STEPS = 5_000
"""Of SQLite's virtual machine between two looks at the clock."""
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
        """Run one statement of somebody else's. Raises `QueryFailed`."""
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
        if "one statement at a time" in text:
            return QueryFailed("Give one statement at a time.")
        if "locked" in text:
            return QueryFailed("The database is locked: another program is writing to it. Try again later.")
        if "file is not a database" in text:
            return QueryFailed("This file is no SQLite database, or it is encrypted.")
        if "malformed" in text:
            return QueryFailed(
                "The database is damaged here; other tables may be whole. PRAGMA integrity_check says what is wrong."
            )
        if "unable to open" in text or "readonly database" in text:
            return QueryFailed(
                f"SQLite cannot use it ({text}). If a program was killed while it wrote, let that program open it "
                "once more."
            )
        if "string or blob too big" in text:
            return QueryFailed(
                f"A value would have more than {MAX_VALUE_BYTES >> 20} MB. Use substr() or less data."
            )
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
    """What was not allowed, in a word or two."""
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
    said: dict[str, Any] = {"columns": columns, "rows": rows, "row_count": len(rows)}
    return {**said, "more": True, "note": note} if note else said


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
