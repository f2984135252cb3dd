"""The CSV tools on files as people make them."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.data_workspace import Desk

from jaato.errors import ToolError
from jaato.plugins.data import csv_tables
from jaato.plugins.data.plugin import DataPlugin


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An empty workspace."""
    return Desk(DataPlugin, tmp_path / "w")


def put(desk: Desk, name: str, content: str | bytes) -> None:
    """Write a file."""
    (desk.workspace / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def refused(desk: Desk, name: str, **arguments: Any) -> str:
    """The message of a call that must fail."""
    with pytest.raises(ToolError) as caught:
        desk.call(name, **arguments)
    return str(caught.value)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_delimiter_is_found_out(desk: Desk, delimiter: str) -> None:
    """Commas, semicolons, tabs and bars are told apart, quoted ones are part of a field."""
    rows = [
        ["id", "name", "note"],
        ["1", f"a{delimiter}b", 'say "x"'],
        ["2", "c\nd", ""],
        ["3", "e", "a, b; c"],
    ]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows(rows)
    put(desk, "t.csv", text.getvalue())
    said = desk.call("csv_query", path="t.csv", sql="SELECT * FROM data")
    assert said["columns"] == ["id", "name", "note"]
    assert said["rows"] == [[1, f"a{delimiter}b", 'say "x"'], [2, "c\nd", None], [3, "e", "a, b; c"]]


def test_types_are_those_of_all_rows(desk: Desk) -> None:
    """A column of whole numbers is one of integers, of numbers of reals; codes with a leading zero, dates and digits that
    no number holds stay text; empty fields are NULL."""
    put(
        desk,
        "t.csv",
        "a,b,c,d,e,f\n1,1.5,007,2024-01-02,,9223372036854775808\n-2,2e3,010,2024-02-03,x,1\n,,,,,\n",
    )
    said = desk.call(
        "csv_query",
        path="t.csv",
        sql="SELECT typeof(a), typeof(b), typeof(c), typeof(d), typeof(e), typeof(f) FROM data",
    )
    assert said["rows"][0] == ["integer", "real", "text", "text", "null", "text"]
    assert said["rows"][2] == ["null"] * 6
    assert desk.call("csv_query", path="t.csv", sql="SELECT sum(a), sum(b), min(c) FROM data")["rows"] == [
        [-1, 2001.5, "007"]
    ]


def test_files_are_joined(desk: Desk) -> None:
    """Several files are tables of one query."""
    put(desk, "a.csv", "id,who\n1,ann\n2,bob\n")
    put(desk, "b.tsv", "owner\tsize\n1\t5\n1\t7\n")
    said = desk.call(
        "csv_query",
        path="a.csv",
        more_tables={"things": "b.tsv"},
        sql="SELECT who, sum(size) AS s FROM data LEFT JOIN things ON owner = id GROUP BY who ORDER BY who",
    )
    assert said["rows"] == [["ann", 12], ["bob", None]]


@pytest.mark.parametrize(
    ("encoding", "name"),
    [("utf-8", "utf-8"), ("utf-8-sig", "utf-8-sig"), ("utf-16", "utf-16"), ("cp1252", "cp1252")],
)
def test_an_encoding_is_found_out(desk: Desk, encoding: str, name: str) -> None:
    """UTF-8, UTF-16 with a mark and the Western code page give the same text."""
    put(desk, "t.csv", "näme;größe\nJürgen;1\n".encode(encoding))
    said = desk.call("csv_describe", path="t.csv")
    assert (said["encoding"], said["delimiter"], said["rows"]) == (name, ";", 1)
    assert [column["name"] for column in said["columns"]] == ["näme", "größe"]
    assert said["sample"] == [["Jürgen", 1]]


def test_a_description_says_what_is_in_each_column(desk: Desk) -> None:
    """Type, range, distinct and empty values, the commonest ones, and a sample."""
    put(desk, "t.csv", "kind,n\n" + "".join(f"{'ab'[n % 2]},{n or ''}\n" for n in range(100)))
    said = desk.call("csv_describe", path="t.csv")
    assert said["rows"] == 100
    assert said["columns"][0] == {
        "name": "kind", "type": "TEXT", "distinct": 2, "min": "a", "max": "b", "commonest": [["a", 50], ["b", 50]],
    }  # fmt: skip
    assert said["columns"][1] == {
        "name": "n",
        "type": "INTEGER",
        "distinct": 99,
        "empty": 1,
        "min": 1,
        "max": 99,
    }
    assert len(said["sample"]) == 5


def test_rows_that_do_not_fit_and_odd_heads_are_put_up_with(desk: Desk) -> None:
    """Short rows are filled, long ones cut, and that is said; columns without a name or with the same get one."""
    put(desk, "t.csv", "a,,a,A\n1\n1,2,3,4,5\n\n1,2,3,4\n")
    said = desk.call("csv_query", path="t.csv", sql='SELECT a, column_2, a_2, "A_3" FROM data')
    assert said["rows"] == [[1, None, None, None], [1, 2, 3, 4], [1, 2, 3, 4]]
    assert "2 rows" in said["read_as"][0]["note"]
    plain = desk.call("csv_query", path="t.csv", header=False, sql="SELECT column_1 FROM data", max_rows=1)
    assert plain["rows"] == [["a"]]


def test_a_query_over_csv_only_reads(desk: Desk) -> None:
    """The SQL of a stranger reaches no file and changes nothing."""
    put(desk, "t.csv", "a\n1\n")
    for sql in (
        "DELETE FROM data",
        "ATTACH 'x.db' AS x",
        "VACUUM INTO 'x.db'",
        "SELECT load_extension('x')",
        "PRAGMA query_only=0",
    ):
        assert refused(desk, "csv_query", path="t.csv", sql=sql)
    assert [path.name for path in desk.workspace.iterdir()] == ["t.csv"]


def test_what_is_no_table_is_refused_with_a_reason(desk: Desk, tmp_path: Path) -> None:
    """Binary and empty files, a field without end, paths outside, and a missing table."""
    put(desk, "bin", b"SQLite format 3\0" + bytes(100))
    assert "binary" in refused(desk, "csv_describe", path="bin")
    put(desk, "empty.csv", "")
    assert "empty" in refused(desk, "csv_describe", path="empty.csv")
    put(desk, "open.csv", 'a,b\n"' + "x\n" * 800_000)
    assert "line" in refused(desk, "csv_describe", path="open.csv")
    put(desk, "wide.csv", ",".join(map(str, range(1_500))) + "\n")
    assert "columns" in refused(desk, "csv_describe", path="wide.csv")
    (tmp_path / "out.csv").write_text("a\n1\n")
    assert "outside" in refused(desk, "csv_query", path="../out.csv", sql="SELECT 1")
    put(desk, "t.csv", "a\n1\n")
    assert "no such table" in refused(desk, "csv_query", path="t.csv", sql="SELECT * FROM nope")


def test_a_large_file_is_read_whole(desk: Desk) -> None:
    """A hundred thousand rows are counted and added up exactly."""
    with open(desk.workspace / "big.csv", "w", encoding="utf-8") as file:
        file.write("id,group,amount\n")
        file.writelines(f"{n},g{n % 7},{n / 4}\n" for n in range(100_000))
    said = desk.call(
        "csv_query",
        path="big.csv",
        sql='SELECT count(*), sum(id), sum(amount), count(DISTINCT "group") FROM data',
    )
    assert said["rows"] == [[100_000, sum(range(100_000)), sum(range(100_000)) / 4, 7]]


FIELDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6))
def test_every_field_comes_back(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    """What a CSV writer wrote is what is read, but for numbers and emptiness having their type."""
    path = tmp_path / "t.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("x" * 9, "y" * 9), *rows])
    connection = csv_tables.open_in_memory()
    file_given = {"path": "t", "fd": os.open(path, os.O_RDONLY)}
    table = csv_tables.load(connection, "data", file_given, {"delimiter": ",", "header": True})
    read = connection.execute("SELECT * FROM data").fetchall()
    connection.close()
    assert len(read) == len(rows) == table.rows
    for found, wanted in zip(read, rows, strict=True):
        for kind, cell, text in zip(table.types, found, wanted, strict=True):
            if not text:
                assert cell is None
            elif kind == "TEXT":
                assert cell == text
            else:
                assert float(cell) == float(text)


def test_the_table_begins_where_its_rows_do(desk: Desk) -> None:
    """Blank lines and the line by which spreadsheets say the delimiter come before the columns."""
    put(desk, "blank.csv", "\n\r\na,b\n1,2\n")
    assert desk.call("csv_query", path="blank.csv", sql="SELECT a, b FROM data")["rows"] == [[1, 2]]
    put(desk, "sep.csv", "\ufeffsep=;\r\na,a;b\r\n1;2\r\n")
    said = desk.call("csv_query", path="sep.csv", sql='SELECT "a,a", b FROM data')
    assert said["rows"] == [[1, 2]]
    put(desk, "none.csv", "\n\n")
    assert "is empty" in refused(desk, "csv_describe", path="none.csv")


def test_spaces_around_numbers_do_not_make_text_of_them(desk: Desk) -> None:
    """A comma with a space after it, as people write it, leaves numbers numbers; text keeps its spaces."""
    put(desk, "s.csv", "a, b, c\n1, 2, x\n3, 14 , y\n5, , z\n")
    said = desk.call(
        "csv_query", path="s.csv", sql="SELECT b, typeof(b), c FROM data WHERE b > 5 OR b IS NULL"
    )
    assert said["rows"] == [[14, "integer", " y"], [None, "null", " z"]]


def test_long_identifiers_keep_their_digits(desk: Desk) -> None:
    """Digits that no number type keeps stay text, also where other rows have few."""
    ids = ["12345678901234567890", "12345678901234567891", "7"]
    put(
        desk,
        "i.csv",
        "id,big,mixed\n"
        + "".join(
            f"{one},{2**63 - 1},{x}\n" for one, x in zip(ids, ["9007199254740993", "0.5", "1"], strict=True)
        ),
    )
    said = desk.call("csv_query", path="i.csv", sql="SELECT id, big, mixed FROM data")
    assert [row[0] for row in said["rows"]] == ids
    assert said["rows"][0][1:] == [2**63 - 1, "9007199254740993"]


def test_a_quotation_mark_that_is_never_closed_is_told(desk: Desk) -> None:
    """Rows that a stray quotation mark swallowed are not missing in silence."""
    put(desk, "u.csv", 'a,b\n0,w\n1,"oops\n2,x\n3,y\n')
    said = desk.call("csv_query", path="u.csv", sql="SELECT count(*) FROM data")
    assert "line 3 is never closed" in said["read_as"][0]["note"]
    put(desk, "fine.csv", 'a,b\n0,w\n1,"two\nlines"\n\n')
    assert "read_as" not in desk.call("csv_query", path="fine.csv", sql="SELECT * FROM data")
    put(desk, "long.csv", 'a,b\n0,w\n1,"oops\n' + "2,x\n" * 300_000)
    message = refused(desk, "csv_query", path="long.csv", sql="SELECT 1 FROM data")
    assert "row at line 3" in message
    assert "never closed" in message


def test_another_file_does_not_take_the_table_of_path(desk: Desk) -> None:
    """Only path is the table data."""
    put(desk, "a.csv", "a\n1\n")
    put(desk, "b.csv", "a\n2\n")
    for name in ("data", "Data"):
        said = refused(desk, "csv_query", path="a.csv", sql="SELECT a FROM data", more_tables={name: "b.csv"})
        assert "is the table of path" in said
