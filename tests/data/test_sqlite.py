"""The SQLite tools on real databases, some of them made to do harm."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.data_workspace import Desk

from jaato.errors import CancelledException, ToolError
from jaato.plugins.data.plugin import DataPlugin
from jaato.tools.cancel import CancelToken

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
PROGRAM = shutil.which("sqlite3") or ""


@contextlib.contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that is closed in the end."""
    connection = sqlite3.connect(path)
    try:
        yield connection
        connection.commit()
    finally:
        connection.close()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A workspace with a shop's database."""
    made = Desk(DataPlugin, tmp_path / "w")
    with database(made.workspace / "shop.db") as shop:
        shop.executescript(
            """CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL DEFAULT 1.5, raw BLOB);
            CREATE TABLE sale(item INTEGER REFERENCES item(id), n INT);
            CREATE UNIQUE INDEX by_name ON item(name);
            CREATE VIEW cheap AS SELECT name FROM item WHERE price < 10;
            CREATE VIRTUAL TABLE notes USING fts5(body);
            INSERT INTO notes VALUES ('the quick fox');"""
        )
        shop.executemany(
            "INSERT INTO item(name, price, raw) VALUES (?, ?, ?)",
            [(f"i{n}", n, b"\0" * 50) for n in range(500)],
        )
    return made


def refused(desk: Desk, name: str, **arguments: Any) -> str:
    """The message of a call that must fail."""
    with pytest.raises(ToolError) as caught:
        desk.call(name, **arguments)
    return str(caught.value)


def files(desk: Desk) -> dict[str, bytes]:
    """All that is in the workspace."""
    return {path.name: path.read_bytes() for path in desk.workspace.iterdir() if path.is_file()}


def test_a_query_gives_columns_and_rows(desk: Desk) -> None:
    """Rows come as lists under their columns, parameters by place or name, bytes as hexadecimal; the directory is as
    it was."""
    before = files(desk)
    said = desk.call(
        "sqlite_query", path="shop.db", sql="SELECT name, price, raw FROM item WHERE id = ?", params=[2]
    )
    assert said == {
        "columns": ["name", "price", "raw"],
        "rows": [["i1", 1.0, f"<50 bytes: {'00' * 32}…>"]],
        "row_count": 1,
    }
    named = desk.call(
        "sqlite_query", path="shop.db", sql="SELECT count(*) FROM item WHERE id > :a", params={"a": 400}
    )
    assert named["rows"] == [[100]]
    match = desk.call("sqlite_query", path="shop.db", sql="SELECT body FROM notes WHERE notes MATCH 'fox'")
    assert match["rows"] == [["the quick fox"]]
    assert files(desk) == before


def test_rows_and_size_are_bounded(desk: Desk) -> None:
    """Of many rows the first are given with `more`; a value, a cell and the whole result have bounds."""
    said = desk.call("sqlite_query", path="shop.db", sql="SELECT id FROM item ORDER BY id", max_rows=3)
    assert (said["rows"], said["more"]) == ([[1], [2], [3]], True)
    wide = desk.call(
        "sqlite_query", path="shop.db", sql="SELECT hex(zeroblob(9000)) FROM item", max_rows=10_000
    )
    assert wide["more"] is True
    assert len(str(wide)) < 1_500_000
    assert "MB" in refused(desk, "sqlite_query", path="shop.db", sql="SELECT zeroblob(900000000)")


def test_the_schema_is_what_the_program_itself_tells(desk: Desk) -> None:
    """Tables with columns, keys, indexes and row counts; views with their text; no inner tables of the index."""
    said = desk.call("sqlite_schema", path="shop.db")
    tables = {table["name"]: table for table in said["tables"]}
    assert tables["item"]["columns"] == [
        "id INTEGER PRIMARY KEY",
        "name TEXT NOT NULL",
        "price REAL DEFAULT 1.5",
        "raw BLOB",
    ]
    assert tables["item"]["rows"] == 500
    assert tables["item"]["indexes"] == ["by_name (name) UNIQUE"]
    assert tables["sale"]["foreign_keys"] == ["item -> item(id)"]
    assert tables["cheap"]["sql"].startswith("CREATE VIEW")
    assert set(tables) == {"item", "sale", "cheap", "notes"}
    assert "no table" in refused(desk, "sqlite_schema", path="shop.db", table="nope")
    if PROGRAM:
        listed = subprocess.run(
            [PROGRAM, "shop.db", ".tables"], cwd=desk.workspace, capture_output=True, text=True, check=True
        )
        assert set(tables) <= set(listed.stdout.split())


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM item", "UPDATE item SET price = 0", "INSERT INTO sale VALUES (1, 1)", "DROP TABLE item",
        "CREATE TABLE x(a)", "CREATE TEMP TABLE x(a)", "ATTACH 'other.db' AS o", "ATTACH ':memory:' AS o",
        "VACUUM", "VACUUM INTO 'copy.db'", "REINDEX", "ANALYZE", "BEGIN", "SAVEPOINT a",
        "PRAGMA journal_mode=WAL", "PRAGMA user_version=7", "PRAGMA writable_schema=ON", "PRAGMA query_only=OFF",
        "PRAGMA trusted_schema=ON", "PRAGMA temp_store_directory='/tmp'", "PRAGMA wal_checkpoint",
        "SELECT load_extension('x.so')", "SELECT fts3_tokenizer('a', x'00')", "SELECT writefile('x', 'y')",
        "INSERT INTO notes(notes) VALUES ('rebuild')", "UPDATE sqlite_master SET sql = ''", "SELECT 1; DELETE FROM item",
        "WITH a AS (SELECT 1) DELETE FROM item", "EXPLAIN DELETE FROM item; DELETE FROM item", "selec", "",
    ],
)  # fmt: skip
def test_a_query_changes_nothing(desk: Desk, sql: str) -> None:
    """Whatever a query is, it reads or is refused with a reason; not one byte beside or in the database changes."""
    before = files(desk)
    if sql:
        assert refused(desk, "sqlite_query", path="shop.db", sql=sql)
    else:
        assert desk.tools["sqlite_query"].issues({"path": "shop.db", "sql": sql})
    assert files(desk) == before


def test_a_query_without_end_is_stopped(desk: Desk) -> None:
    """A query that would run forever ends in its time with advice, and at once when the call is cancelled."""
    quick = Desk(DataPlugin, desk.workspace, {"timeout_s": 0.3})
    assert "0.3 s" in refused(quick, "sqlite_query", path="shop.db", sql=ENDLESS)
    token = CancelToken()
    timer = threading.Timer(0.3, token.cancel)
    timer.start()
    with pytest.raises(CancelledException):
        desk.call("sqlite_query", path="shop.db", sql=ENDLESS, token=token)
    timer.join()


def test_a_change_is_whole_or_not_at_all(desk: Desk) -> None:
    """Statements run in one transaction: their rows are counted, RETURNING is shown, and an error undoes all."""
    said = desk.call(
        "sqlite_execute",
        path="shop.db",
        sql="UPDATE item SET price = 0 WHERE id <= 10; INSERT INTO sale VALUES (1, 2) RETURNING n;",
    )
    assert (said["statements"], said["changed_rows"], said["results"][0]["rows"]) == (2, 11, [[2]])
    message = refused(
        desk,
        "sqlite_execute",
        path="shop.db",
        sql="UPDATE item SET price = 9; INSERT INTO item(name) VALUES (NULL)",
    )
    assert "Statement 2" in message
    assert "Nothing was changed" in message
    with database(desk.workspace / "shop.db") as shop:
        assert shop.execute("SELECT count(*) FROM item WHERE price = 9").fetchone() == (0,)
        assert shop.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    trigger = "CREATE TRIGGER t AFTER INSERT ON sale BEGIN UPDATE item SET price = 1; DELETE FROM sale; END; SELECT ';'"
    assert desk.call("sqlite_execute", path="shop.db", sql=trigger)["statements"] == 2


@pytest.mark.parametrize(
    "sql",
    ["ATTACH 'other.db' AS o", "VACUUM INTO 'copy.db'", "COMMIT", "SELECT load_extension('x')", "PRAGMA writable_schema=ON",
     "PRAGMA journal_mode=OFF", "CREATE VIRTUAL TABLE x USING dbstat", "UPDATE sqlite_master SET sql = 'x'"],
)  # fmt: skip
def test_a_change_stays_in_its_database(desk: Desk, sql: str) -> None:
    """Even with the right to write, no other file can be reached and no guard be switched off."""
    before = files(desk)
    assert refused(desk, "sqlite_execute", path="shop.db", sql=sql)
    assert files(desk) == before


def test_a_new_database_is_made_only_when_asked(desk: Desk) -> None:
    """`create` makes the file; without it a wrong name is an error, not an empty database."""
    assert "does not exist" in refused(desk, "sqlite_execute", path="new.db", sql="CREATE TABLE a(b)")
    assert "does not exist" in refused(desk, "sqlite_query", path="new.db", sql="SELECT 1")
    assert not (desk.workspace / "new.db").exists()
    desk.call("sqlite_execute", path="new.db", sql="CREATE TABLE a(b)", create=True)
    assert desk.call("sqlite_schema", path="new.db")["tables"][0]["name"] == "a"


def test_no_path_leads_out(desk: Desk, tmp_path: Path) -> None:
    """Paths outside, links out, links beside the database, and hard links are refused."""
    outside = tmp_path / "secret.db"
    shutil.copy(desk.workspace / "shop.db", outside)
    (desk.workspace / "link.db").symlink_to(outside)
    for path in (str(outside), "../secret.db", "link.db"):
        assert "outside" in refused(desk, "sqlite_query", path=path, sql="SELECT 1")
    os.link(desk.workspace / "shop.db", desk.workspace / "hard.db")
    assert "hard links" in refused(desk, "sqlite_execute", path="hard.db", sql="DELETE FROM item")
    (desk.workspace / "hard.db").unlink()
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for suffix in ("-wal", "-journal", "-shm"):
        side = desk.workspace / f"shop.db{suffix}"
        side.symlink_to(victim)
        for tool in ("sqlite_query", "sqlite_execute"):
            assert "is a link" in refused(desk, tool, path="shop.db", sql="SELECT 1")
        side.unlink()
    assert victim.read_bytes() == b"precious"


def test_a_journal_that_names_other_files_is_not_replayed(desk: Desk, tmp_path: Path) -> None:
    """A database whose journal belongs to a super-journal would have SQLite delete a file of the author's choice."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    name = str(victim).encode()
    page = (desk.workspace / "shop.db").read_bytes()[:4096]
    magic = bytes.fromhex("d9d505f920a163d7")
    header = (
        magic
        + (1).to_bytes(4, "big")
        + bytes(4)
        + (1).to_bytes(4, "big")
        + (512).to_bytes(4, "big")
        + (4096).to_bytes(4, "big")
    )
    checksum = sum(page[place] for place in range(4096 - 200, 0, -200)) & 0xFFFFFFFF
    record = (1).to_bytes(4, "big") + page + checksum.to_bytes(4, "big")
    tail = name + len(name).to_bytes(4, "big") + (sum(name) & 0xFFFFFFFF).to_bytes(4, "big") + magic
    journal = header.ljust(512, b"\0") + record + (4096 // 4096 + 1).to_bytes(4, "big") + tail
    (desk.workspace / "shop.db-journal").write_bytes(journal)
    assert "names other files" in refused(desk, "sqlite_execute", path="shop.db", sql="DELETE FROM item")
    assert refused(desk, "sqlite_query", path="shop.db", sql="SELECT 1 FROM item")
    assert victim.read_bytes() == b"precious"


def test_what_a_write_ahead_log_holds_is_seen(desk: Desk) -> None:
    """A database another program has open in WAL mode is read with its newest rows; one it has closed leaves nothing."""
    path = desk.workspace / "wal.db"
    with database(path) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE a(b)")
        writer.execute("INSERT INTO a VALUES (7)")
        writer.commit()
        assert desk.call("sqlite_query", path="wal.db", sql="SELECT b FROM a")["rows"] == [[7]]
        desk.call("sqlite_execute", path="wal.db", sql="INSERT INTO a VALUES (8)")
        assert writer.execute("SELECT count(*) FROM a").fetchone() == (2,)
    assert sorted(file.name for file in desk.workspace.glob("wal.db*")) == ["wal.db"]
    assert desk.call("sqlite_query", path="wal.db", sql="SELECT count(*) FROM a")["rows"] == [[2]]
    assert sorted(file.name for file in desk.workspace.glob("wal.db*")) == ["wal.db"]


def test_what_is_no_database_is_named(desk: Desk) -> None:
    """Text, a damaged file, an empty file and a locked database each get a message of their own."""
    (desk.workspace / "text.db").write_text("hello\n" * 1000)
    assert "no SQLite database" in refused(
        desk, "sqlite_query", path="text.db", sql="SELECT * FROM sqlite_master"
    )
    whole = (desk.workspace / "shop.db").read_bytes()
    (desk.workspace / "cut.db").write_bytes(whole[:9000] + b"\xff" * 5000)
    assert refused(desk, "sqlite_query", path="cut.db", sql="SELECT * FROM item")
    (desk.workspace / "empty.db").write_bytes(b"")
    assert desk.call("sqlite_schema", path="empty.db")["tables"] == []
    os.mkfifo(desk.workspace / "pipe.db")
    assert "pipe" in refused(desk, "sqlite_query", path="pipe.db", sql="SELECT 1")
    with database(desk.workspace / "shop.db") as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert "locked" in refused(desk, "sqlite_execute", path="shop.db", sql="DELETE FROM item")


def test_parameters_that_sqlite_cannot_take_are_refused(desk: Desk) -> None:
    """Lists and objects are named before anything runs; a missing one is SQLite's error."""
    for bad in ([[1]], [{"a": 1}]):
        assert "params" in refused(desk, "sqlite_query", path="shop.db", sql="SELECT ?", params=bad)
    assert refused(desk, "sqlite_query", path="shop.db", sql="SELECT ?, ?", params=[1])
