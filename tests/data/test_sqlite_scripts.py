"""What SQLite needs to be asked in the right way: scripts, foreign keys, what a killed writer left."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.data_workspace import Desk

from jaato.errors import ToolError
from jaato.plugins.data.plugin import DataPlugin


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An empty workspace."""
    return Desk(DataPlugin, tmp_path / "w")


def test_foreign_keys_are_enforced_when_asked(desk: Desk) -> None:
    """PRAGMA foreign_keys before the statements counts, though all of them are one transaction."""
    made = "CREATE TABLE parent(id INTEGER PRIMARY KEY); CREATE TABLE child(of REFERENCES parent(id))"
    desk.call("sqlite_execute", path="f.db", sql=made, create=True)
    for comment in ("", "-- enforced\n", "/* enforced */ "):
        with pytest.raises(ToolError, match="FOREIGN KEY"):
            desk.call(
                "sqlite_execute",
                path="f.db",
                sql=f"{comment}pragma foreign_keys = ON; INSERT INTO child VALUES (9)",
            )
    assert desk.call("sqlite_query", path="f.db", sql="SELECT count(*) FROM child")["rows"] == [[0]]


def test_a_value_full_of_semicolons_is_one_statement(desk: Desk) -> None:
    """The text of a program or style sheet is written as fast as any other."""
    text = "a;" * 400_000
    sql = f"CREATE TABLE s(t); /* ; */ INSERT INTO s VALUES ('it''s;{text}'); -- a;b\nINSERT INTO s VALUES ('x')"
    said = desk.call("sqlite_execute", path="s.db", sql=sql, create=True)
    assert said == {"statements": 3, "changed_rows": 2}
    trigger = "CREATE TRIGGER g AFTER INSERT ON s BEGIN SELECT 1; SELECT ';'; END; SELECT [t] FROM s LIMIT 0"
    assert desk.call("sqlite_execute", path="s.db", sql=trigger)["statements"] == 2


def test_generated_columns_are_in_the_schema(desk: Desk) -> None:
    """A column that is worked out can be asked for like any other, so it is shown."""
    with closing(sqlite3.connect(desk.workspace / "g.db")) as made:
        made.execute(f"CREATE TABLE g(a INTEGER DEFAULT '{'x' * 5000}', b AS (a + 1), c AS (a * 2) STORED)")
    (table,) = desk.call("sqlite_schema", path="g.db")["tables"]
    assert table["columns"][1:] == ["b GENERATED", "c GENERATED"]
    assert len(table["columns"][0]) < 300


def test_what_a_killed_writer_left_is_named(desk: Desk) -> None:
    """A database whose last write was cut off is read only after it is taken back, and the message says how."""
    path = desk.workspace / "h.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE t(a)")
    script = (
        f"import sqlite3, os; c = sqlite3.connect({str(path)!r}, isolation_level=None); c.execute('PRAGMA cache_size=5');"
        "c.execute('BEGIN'); [c.execute('INSERT INTO t VALUES (randomblob(1000))') for _ in range(200)]; os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert os.path.exists(f"{path}-journal")
    says = r"was killed while it wrote.*sqlite_execute with SELECT 1"
    with pytest.raises(ToolError, match=says):
        desk.call("sqlite_query", path="h.db", sql="SELECT 1 FROM t")
    with pytest.raises(ToolError, match=says):
        desk.call("sqlite_schema", path="h.db")
    desk.call("sqlite_execute", path="h.db", sql="SELECT 1")
    assert desk.call("sqlite_query", path="h.db", sql="SELECT count(*) FROM t")["rows"] == [[0]]
