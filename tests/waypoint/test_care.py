"""What going back does with all kinds of files, and what it leaves alone."""

from __future__ import annotations

import os
import resource
import stat
from pathlib import Path

import pytest
from tests.waypoint.trip import Trip, kept

from jaato.errors import ToolError
from jaato.plugins.waypoint.past_state import AMID, EDITED, PROTECTED
from jaato.plugins.waypoint.restore import PRUNED

S4 = pytest.mark.spec("S4", "11. Waypoints with Shared Ownership")


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    """An empty workspace with its tools and waypoints."""
    return Trip(tmp_path / "w")


@S4
@pytest.mark.spec("C7", "Context, sessions, enrichment")
def test_a_file_the_user_has_edited_since_is_kept(trip: Trip) -> None:
    """It stays as it is, and so does one that was created since and then edited; the others go back; both are reported."""
    for name in ("a", "b"):
        (trip.workspace / name).write_text("0")
        trip.write(name, "tool")
    trip.write("new", "tool")
    trip.write("gone", "tool")
    (trip.workspace / "a").write_text("user")
    (trip.workspace / "new").write_text("user")
    (trip.workspace / "stranger").write_text("user")
    done = trip.manager.restore("w0")
    assert kept(done) == {"a": EDITED, "new": EDITED}
    assert trip.state() == {"a": "user", "b": "0", "new": "user", "stranger": "user"}
    assert not trip.manager.tree.saved


@S4
def test_an_edit_amid_the_tools_changes_is_kept(trip: Trip) -> None:
    """A file that the user edited between two changes of tools is not taken back beyond that edit."""
    (trip.workspace / "a").write_text("0")
    trip.write("a", "one")
    (trip.workspace / "a").write_text("user")
    trip.manager.create("after")
    trip.write("a", "user and two")
    done = trip.manager.restore("w0")
    assert kept(done) == {"a": AMID}
    assert trip.state() == {"a": "user and two"}
    trip.manager.restore("w1")
    assert trip.state() == {"a": "user"}


@S4
def test_force_overrules_and_the_ceiling_holds_what_it_took(trip: Trip) -> None:
    """With force the user's edit makes way, and going to the ceiling brings it back."""
    (trip.workspace / "a").write_text("0")
    trip.write("a", "tool")
    (trip.workspace / "a").write_text("user")
    done = trip.manager.restore("w0", force=True)
    assert trip.state() == {"a": "0"}
    assert done.ceiling is not None
    trip.manager.restore(done.ceiling.id)
    assert trip.state() == {"a": "user"}


@S4
def test_without_unsaved_changes_there_is_no_ceiling(trip: Trip) -> None:
    """Only what no waypoint has becomes a ceiling; changes that were taken back again are none."""
    trip.write("a", "1")
    trip.manager.create("one")
    trip.write("b", "2")
    trip.desk.call("undoFileChange", path="b")
    assert trip.manager.restore("w0").ceiling is None
    assert trip.manager.restore("w1").ceiling is None
    assert trip.state() == {"a": "1"}
    trip.write("a", "3")
    assert trip.manager.restore("w0").ceiling is not None
    trip.manager.delete("w1")
    assert trip.manager.restore("w0").ceiling is None


@S4
def test_links_modes_and_bytes_come_back(trip: Trip) -> None:
    """A symbolic link, an executable, a binary file and an empty directory are again what they were."""
    w = trip.workspace
    (w / "link").symlink_to("target")
    (w / "tool.sh").write_text("run")
    (w / "tool.sh").chmod(0o750)
    (w / "data").write_bytes(bytes(range(256)) * 10)
    (w / "empty").mkdir(mode=0o700)
    for name in ("link", "tool.sh", "data", "empty"):
        trip.remove(name)
    trip.write("tool.sh", "other")
    trip.write("link", "a file")
    done = trip.manager.restore("w0")
    assert kept(done) == {}
    assert os.readlink(w / "link") == "target"
    assert ((w / "tool.sh").read_text(), stat.S_IMODE((w / "tool.sh").stat().st_mode)) == ("run", 0o750)
    assert (w / "data").read_bytes() == bytes(range(256)) * 10
    assert (w / "empty").is_dir()
    assert done.ceiling is not None
    trip.manager.restore(done.ceiling.id)
    assert not (w / "link").is_symlink()
    assert trip.state() == {"tool.sh": "other", "link": "a file"}


@S4
def test_a_mode_the_user_has_set_stays(trip: Trip) -> None:
    """Going back changes what a file holds, not the permission its owner gave it meanwhile."""
    (trip.workspace / "a").write_text("0")
    trip.write("a", "1")
    (trip.workspace / "a").chmod(0o755)
    trip.manager.restore("w0")
    assert (trip.workspace / "a").read_text() == "0"
    assert stat.S_IMODE((trip.workspace / "a").stat().st_mode) == 0o755


@S4
@pytest.mark.parametrize("what", ["directory", "pipe", "link above", "unreadable"])
def test_what_is_in_the_way_stays_and_the_rest_goes_back(trip: Trip, what: str, tmp_path: Path) -> None:
    """A directory, a pipe, a link to elsewhere or a locked file in the place of one is left alone and named."""
    w = trip.workspace
    for name in ("x/a", "b"):
        trip.write(name, "0")
    trip.manager.create("here")
    for name in ("x/a", "b"):
        trip.write(name, "1")
    (w / "x/a").unlink()
    match what:
        case "directory":
            (w / "x/a").mkdir()
        case "pipe":
            os.mkfifo(w / "x/a")
        case "link above":
            (w / "x").rmdir()
            (tmp_path / "else").mkdir()
            (tmp_path / "else/a").write_text("1")
            (w / "x").symlink_to(tmp_path / "else")
        case _:
            (w / "x/a").write_text("1")
            (w / "x/a").chmod(0)
            if os.access(w / "x/a", os.R_OK):
                pytest.skip("this user reads everything")
    done = trip.manager.restore("w1", force=True)
    assert list(kept(done)) == ["x/a"]
    assert (w / "b").read_text() == "0"
    if what == "link above":
        assert (tmp_path / "else/a").read_text() == "1"


@S4
def test_what_decides_what_runs_is_for_the_user_to_take_back(trip: Trip) -> None:
    """The model's going back leaves a control path as it is; the user's takes it back."""
    trip.write("a", "1")
    trip.write(".mcp.json", "{}")
    done = trip.manager.restore("w0", by="model")
    assert kept(done) == {".mcp.json": PROTECTED}
    assert trip.state() == {".mcp.json": "{}"}
    trip.manager.restore("w0", by="user")
    assert trip.state() == {}


@S4
def test_a_failure_puts_everything_back(trip: Trip) -> None:
    """When one file cannot be written, nothing has changed, and the waypoint can be reached another time."""
    w = trip.workspace
    (w / "d").mkdir()
    (w / "link").symlink_to("nowhere")
    for name, text in (("a", "0"), ("big", "0" * 2_000_000), ("c", "0"), ("d/x", "0")):
        (w / name).write_text(text)
    for name in ("a", "big", "c"):
        trip.write(name, "1")
    trip.remove("link")
    trip.write("link", "1")
    trip.write("aa", "new")
    trip.move("d", "moved")
    before = trip.state()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        with pytest.raises(ToolError):
            trip.manager.restore("w0")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert trip.state() == before
    assert kept(trip.manager.restore("w0")) == {}
    assert trip.state() == {"a": "0", "big": "0" * 2_000_000, "c": "0", "d/x": "0", "link": "-> nowhere"}
    assert list((w / ".jaato/backups/staging").iterdir()) == []


@S4
def test_a_damaged_backup_costs_its_file_alone(trip: Trip) -> None:
    """What cannot be brought back is named, and the others go back."""
    w = trip.workspace
    for name in ("a", "b"):
        (w / name).write_text(f"old {name}")
        trip.write(name, "1")
    (damaged,) = [path for path in (w / ".jaato/backups/objects").iterdir() if path.read_text() == "old a"]
    damaged.write_text("xxx a")
    done = trip.manager.restore("w0", force=True)
    assert kept(done) == {"a": PRUNED}
    assert trip.state() == {"a": "1", "b": "old b"}
