"""Queries, expressions and schemas that do not end by themselves."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.data_workspace import Desk

from jaato.errors import ToolError
from jaato.plugins.calculation import CalculationPlugin
from jaato.plugins.data import plugin
from jaato.plugins.data.plugin import DataPlugin
from jaato.plugins.files.plugin import FilesPlugin

WITHIN_S = 60
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
ONE_STEP = "SELECT instr(z, substr(z, 1, 4000000) || '1') FROM (SELECT hex(zeroblob(4000000)) AS z)"
"""A function that searches for many minutes, in one step of SQLite's virtual machine."""
DOUBLED = "|".join(["[@,@]"] * 40) + "|to_string(@)"
DEEP = "|".join(["[].[@,@][]"] * 30)
EVERY_ITEM = {"uniqueItems": True, "items": {"anyOf": [{"type": "string"}] * 2_000}}


def stopped(desk: Desk, name: str, **arguments: Any) -> str:
    """What a call says that must fail: without a bound each would take many minutes."""
    began = time.monotonic()
    with pytest.raises(ToolError) as caught:
        desk.call(name, **arguments)
    assert time.monotonic() - began < WITHIN_S
    return str(caught.value)


def call_unhurried(desk: Desk, name: str, **arguments: Any) -> Any:
    """A call of the same plugin with the time that calls have without a setting."""
    assert isinstance(desk.plugin, DataPlugin)
    desk.plugin.limit_s = None
    return desk.call(name, **arguments)


def test_a_recursive_query_of_a_csv_file_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any setting a query has its own 15 s, not the two minutes that reading a large file may take."""
    assert plugin.QUERY_S == 15
    monkeypatch.setattr(plugin, "QUERY_S", 0.4)
    desk = Desk(DataPlugin, tmp_path / "w")
    (desk.workspace / "t.csv").write_text("a,b\n1,2\n")
    assert "more than 0.4 s" in stopped(desk, "csv_query", path="t.csv", sql=ENDLESS)


@pytest.mark.parametrize("sql", [ENDLESS, ONE_STEP], ids=["many steps", "one step"])
def test_a_query_ends_with_its_time(tmp_path: Path, sql: str) -> None:
    """Also where it is one step of SQLite's, in which no clock is looked at."""
    desk = Desk(DataPlugin, tmp_path / "w", {"timeout_s": 0.4})
    (desk.workspace / "t.csv").write_text("a,b\n1,2\n")
    assert "was stopped" in stopped(desk, "csv_query", path="t.csv", sql=sql)
    assert call_unhurried(desk, "csv_query", path="t.csv", sql="SELECT a + b FROM data")["rows"] == [[3]]


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("expression", [DOUBLED, DEEP], ids=["doubled", "deep"])
def test_an_expression_ends_with_its_time(tmp_path: Path, expression: str, each: bool) -> None:
    """What grows by powers of two is stopped, for a whole document and for the items of one."""
    desk = Desk(DataPlugin, tmp_path / "w", {"timeout_s": 0.4})
    (desk.workspace / "t.json").write_text(json.dumps([list(range(2_000))] * 2))
    said = stopped(desk, "json_query", path="t.json", expression=expression, each=each)
    assert "query took more than 0.4 s" in said
    assert call_unhurried(desk, "json_query", path="t.json", expression="[0][1]")["result"] == 1


def test_a_schema_ends_with_its_time(tmp_path: Path) -> None:
    """A schema that compares everything with everything is stopped, although no Python runs meanwhile."""
    desk = Desk(DataPlugin, tmp_path / "w", {"timeout_s": 0.4})
    (desk.workspace / "t.json").write_text(json.dumps(list(range(20_000))))
    assert "took more than 0.4 s" in stopped(desk, "json_validate", path="t.json", schema=EVERY_ITEM)
    assert call_unhurried(desk, "json_validate", path="t.json", schema={"type": "array"})["valid"]


@pytest.mark.parametrize("name", ["stdev", "pstdev", "variance"])
def test_statistics_of_long_fractions_are_refused(tmp_path: Path, name: str) -> None:
    """Their exact sum would have millions of digits: it is refused as soon as it has ten thousand."""
    desk = Desk(CalculationPlugin, tmp_path / "w")
    values = ", ".join(f"1/(3**9000+{n})" for n in range(200))
    assert "10,000 digits" in stopped(desk, "calculate", expression=f"{name}({values})")


def test_a_glob_of_many_stars_ends(tmp_path: Path) -> None:
    """A glob is matched in time linear in its length, whatever names there are."""
    desk = Desk(FilesPlugin, tmp_path / "w")
    (desk.workspace / ("a" * 200)).write_text("x")
    began = time.monotonic()
    glob = "*a" * 40 + "*b"
    said = desk.call("findAndReplace", path=".", glob=glob, pattern="x", replacement="y")
    assert said["matches"] == 0
    assert time.monotonic() - began < WITHIN_S
