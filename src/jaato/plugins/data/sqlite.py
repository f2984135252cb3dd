"""Opens SQLite databases of strangers so that nothing outside the one file is read or changed.

Runs in a process of its own, whose directory becomes the database's.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from typing import Any
from urllib.parse import quote

from jaato.plugins.data.queries import BoundedConnection, QueryFailed, fetch_rows, may_read, may_write

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
    early = run_pragmas(guarded, statements)
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


def run_pragmas(guarded: BoundedConnection, statements: list[str]) -> int:
    """Run the first statements that set whether foreign keys are enforced, which nothing changes in a transaction;
    gives how many they are. Raises `QueryFailed`."""
    early = 0
    while early < len(statements) and FOREIGN_KEYS.match(statements[early]):
        guarded.run(statements[early]).close()
        early += 1
    return early


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
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND (?1 IS NULL OR lower(name) = lower(?1))"
        f"{inner if sqlite3.sqlite_version_info >= (3, 37) else ''} ORDER BY name",
        (wanted,),
    ).fetchall()
    if wanted is not None and not rows:
        raise QueryFailed(f"There is no table or view {wanted!r}. Leave table out to see all.")
    counts = request["size"] <= COUNTED_BYTES
    said = [describe_table(guarded, kind, name, sql, counts) for kind, name, sql in rows[:MAX_OBJECTS]]
    result: dict[str, Any] = {"tables": said, "size_bytes": request["size"]}
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
