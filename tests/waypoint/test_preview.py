"""The diff of what restoring a waypoint would change."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
from tests.kit import call, say, session
from tests.waypoint.live import ACTIVATE, PLUGINS, turn, typed
from tests.waypoint.trip import Trip

from jaato.plugins.waypoint.plugin import restore_result
from jaato.plugins.waypoint.preview import NO_TEXT, preview_files
from jaato.plugins.waypoint.restore import RestoreResult


def looked(trip: Trip, done: RestoreResult) -> tuple[dict[str, dict[str, Any]], str]:
    """The rows by path, and the diff."""
    rows = restore_result(done, dry_run=True)["changed"]
    diff = preview_files(trip.manager._changes, done, rows)
    return {row["path"]: row for row in rows}, diff


def test_each_kind_of_change_has_its_diff(tmp_path: Path) -> None:
    """Changed, created, removed and moved files, and those that are no text; nothing is written."""
    trip = Trip(tmp_path)
    (tmp_path / "kept.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "old.txt").write_text("old\n")
    (tmp_path / "moved.txt").write_text("moved\n")
    (tmp_path / "picture").write_bytes(b"\0\1\2")
    os.symlink("kept.txt", tmp_path / "link")
    mark = trip.manager.create("here").id
    trip.write("kept.txt", "one\n2\nthree\n")
    trip.write("new.txt", "a\nb\n")
    trip.remove("old.txt")
    trip.remove("picture")
    trip.remove("link")
    trip.move("moved.txt", "elsewhere.txt")
    before = trip.state()
    rows, diff = looked(trip, trip.manager.preview(mark))
    assert trip.state() == before
    assert (rows["kept.txt"]["added"], rows["kept.txt"]["removed"]) == (1, 1)
    assert (rows["new.txt"]["added"], rows["new.txt"]["removed"]) == (0, 2)
    assert (rows["old.txt"]["added"], rows["old.txt"]["removed"]) == (1, 0)
    assert rows["picture"]["note"] == rows["link"]["note"] == NO_TEXT
    assert rows["moved.txt"]["change"] == "moved back from elsewhere.txt"
    assert "--- kept.txt\n+++ kept.txt\n" in diff
    assert "-2\n+two\n" in diff
    assert "--- /dev/null\n+++ old.txt\n" in diff
    assert "-a\n-b" in diff
    assert "picture" not in diff


def test_a_long_diff_is_bounded(tmp_path: Path) -> None:
    """Later files are named with the reason why they have none."""
    trip = Trip(tmp_path)
    mark = trip.manager.create("here").id
    for number in range(30):
        trip.write(f"f{number:02}.txt", "".join(f"{number} {line} {'x' * 150}\n" for line in range(100)))
    rows, diff = looked(trip, trip.manager.preview(mark))
    assert len(diff) < 120_000
    assert "added" in rows["f00.txt"]
    assert rows["f29.txt"]["note"].startswith("not compared")


def test_the_command(tmp_path: Path) -> None:
    """`waypoint diff` for a person and as data; a waypoint that does not exist is named."""
    script = [ACTIVATE, call("updateFile", path="a", new_content="1\n"), say("Changed.")]
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a").write_text("0\n")

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS) as live:
            await typed(live, "create one")
            await turn(live)
            text = await typed(live, "diff w1")
            assert "w1: 1 file would change" in text
            assert "-1\n+0" in text
            found = json.loads(await typed(live, "diff w1 --json"))
            assert found["changed"] == [{"path": "a", "change": "restored", "added": 1, "removed": 1}]
            assert found["makes_ceiling"] is True
            assert "-1\n+0" in found["diff"]
            assert "no waypoint 'w9'" in await typed(live, "diff w9 --json")
            assert (await typed(live, "diff")).startswith("Usage")

    anyio.run(main)
