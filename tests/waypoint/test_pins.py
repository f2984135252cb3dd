"""Pruned backups: what a waypoint needs stays within a bound, and a waypoint that lost something says so."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.files.desk import Desk
from tests.waypoint.trip import Trip, kept

from jaato.errors import ToolError
from jaato.plugins.waypoint.restore import WaypointManager, WaypointRefused
from jaato.tools.filesystem.backup_directory import IDS, IdGenerator, id_text

S4 = pytest.mark.spec("S4", "11. Waypoints with Shared Ownership")


def few(trip: Trip, **bounds: int) -> None:
    """Let these bounds hold, and look after them."""
    trip.desk = Desk(trip.workspace, {"backups": bounds})
    trip.write("last", str(IDS.next()))


def objects(trip: Trip) -> list[str]:
    """Every content in the backups."""
    return sorted(path.read_text() for path in (trip.workspace / ".jaato/backups/objects").iterdir())


@S4
def test_what_a_waypoint_needs_outlives_the_bounds(tmp_path: Path) -> None:
    """After many more changes than backups are kept, a waypoint is whole; content that no waypoint needs is gone."""
    trip = Trip(tmp_path / "w")
    trip.write("a", "early")
    trip.write("a", "at the waypoint")
    trip.manager.create("one")
    for number in range(18):
        trip.write("a", f"later {number}")
        trip.write(f"new {number}", "x")
    few(trip, max_count=40)
    few(trip, max_count=20)
    assert "at the waypoint" in objects(trip)
    assert "later 2" not in objects(trip)
    assert kept(trip.manager.restore("w1")) == {}
    assert trip.state() == {"a": "at the waypoint"}


@S4
def test_a_waypoint_that_has_lost_something_has_faded(tmp_path: Path) -> None:
    """Beyond as many again the oldest go: going back is refused with the reason, and the user can force what is left."""
    trip = Trip(tmp_path / "w")
    trip.write("a", "at the waypoint")
    trip.manager.create("one")
    for number in range(30):
        trip.write("a", f"later {number}")
    trip.manager.create("two")
    trip.write("a", "last")
    few(trip, max_count=5)
    for waypoint in ("w0", "w1"):
        with pytest.raises(WaypointRefused, match="faded"):
            trip.manager.restore(waypoint)
        with pytest.raises(WaypointRefused, match="faded") as caught:
            trip.manager.preview(waypoint)
        assert str(caught.value).endswith("Ask the user to use --force for what is left of this one.")
        assert caught.value.for_user.endswith("whole. Use --force for what is left of this one.")
    assert kept(trip.manager.restore("w2")) == {}
    assert trip.state() == {"a": "later 29"}
    trip.manager.restore("w1", force=True)
    assert "later" in trip.state()["a"]


@S4
def test_another_sessions_many_changes_cost_a_waypoint_nothing(tmp_path: Path) -> None:
    """Sessions without waypoints lose their backups first; their beginning fades, and that of a later session does not."""
    trip = Trip(tmp_path / "w")
    trip.write("a", "0")
    other = WaypointManager(trip.workspace, "s1")
    other.create("here")
    few(trip, max_count=3)
    for number in range(9):
        trip.write("a", f"later {number}")
    few(trip, max_count=3)
    with pytest.raises(WaypointRefused, match="faded"):
        trip.manager.restore("w0")
    assert not other.preview("w1").plan
    late = WaypointManager(trip.workspace, "s2")
    assert not late.preview("w0").plan


@S4
def test_the_bytes_are_bounded_too(tmp_path: Path) -> None:
    """Pinned content beyond as many bytes again goes, the oldest first."""
    trip = Trip(tmp_path / "w")
    trip.manager.create("here")
    for name in "abcdef":
        (trip.workspace / name).write_text(name * 1000)
        trip.write(name, "x")
    few(trip, max_bytes=2000)
    left = "".join(text[0] for text in objects(trip) if len(text) == 1000)
    assert left == "cdef"
    with pytest.raises(WaypointRefused, match="faded"):
        trip.manager.restore("w1")


@S4
def test_pins_of_sessions_that_left_nothing_are_forgotten(tmp_path: Path) -> None:
    """After a month without any backup of its session a file of pins is removed; damaged ones harm nobody."""
    trip = Trip(tmp_path / "w")
    WaypointManager(trip.workspace, "gone").create("here")
    trip.manager.create("here")
    trip.write("a", "1")
    pins = trip.workspace / ".jaato/backups/pins"
    month_ago = time.time() - 31 * 86_400
    for path in pins.iterdir():
        os.utime(path, (month_ago, month_ago))
    few(trip, max_count=50)
    assert len(list(pins.iterdir())) == 1
    (next(pins.iterdir())).write_bytes(b"\xff{")
    few(trip, max_count=50)
    trip.manager.restore("w1")
    assert trip.state() == {}


@S4
def test_a_clock_that_goes_back_puts_nothing_out_of_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes after a waypoint are newer than it, also when the last process had a clock that ran ahead."""
    monkeypatch.setattr(IDS, "_last", 0)  # and afterwards what it was: other tests need a clock that is right
    ids = IdGenerator()
    ahead = id_text((int(time.time() * 1000) + 86_400_000) << 80)
    ids.advance_past(ahead)
    assert ids.next() > ahead
    ids.advance_past("f" + "Z" * 26)
    ids.advance_past("nonsense")
    assert ids.next() < "f" + "Z" * 26
    trip = Trip(tmp_path / "w")
    trip.write("a", "0")
    (record,) = (trip.workspace / ".jaato/backups/records").glob("*/*")
    record.rename(record.with_name(f"{ahead}.json"))
    record.with_name(f"{ahead}.json").write_text(
        record.with_name(f"{ahead}.json").read_text().replace(record.stem, ahead)
    )
    again = Trip(trip.workspace)
    again.manager.create("here")
    assert again.manager.tree.mark > ahead
    again.write("a", "1")
    again.manager.restore("w1")
    assert again.state() == {"a": "0"}


@S4
def test_a_waypoint_where_no_backup_can_be_kept_is_refused(tmp_path: Path) -> None:
    """Where the backups' place is taken by a link there is no waypoint, and the message says what to do."""
    (tmp_path / "w").mkdir()
    (tmp_path / "w/.jaato").symlink_to(tmp_path)
    manager = WaypointManager(tmp_path / "w")
    with pytest.raises(ToolError, match="Ask the user to remove it") as caught:
        manager.create("here")
    assert caught.value.for_user.endswith("nothing was changed. Remove it.")
    assert list(manager.tree.waypoints) == ["w0"]
