"""Going back over moves and made directories, among other sessions, and with many files."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from tests.files.desk import Desk
from tests.waypoint.trip import Trip, changed, kept

from jaato.plugins.waypoint.past_state import ANOTHER, HUGE
from jaato.plugins.waypoint.restore import WaypointManager
from jaato.tools.call import Call

S4 = pytest.mark.spec("S4", "11. Waypoints with Shared Ownership")


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    """An empty workspace with its tools and waypoints."""
    return Trip(tmp_path / "w")


@S4
def test_directories_that_were_made_go_when_they_are_empty(trip: Trip) -> None:
    """Those made for new, copied, moved and patched files are removed again, but never one in which something is."""
    w = trip.workspace
    (w / "mine").mkdir()
    (w / "a").write_text("0")
    trip.write("new/deep/b", "1")
    trip.desk.call("copyFile", source_path="a", destination_path="copies/a")
    trip.desk.call("multiFileEdit", edits=[{"path": "many/x/y", "new_content": "1"}])
    trip.desk.call("apply_patch", patch="--- /dev/null\n+++ b/patched/z\n@@ -0,0 +1 @@\n+z\n")
    trip.move("a", "moved/to/a")
    trip.write("kept/x", "1")
    (w / "kept/theirs").write_text("user")
    trip.manager.restore("w0")
    assert {path.name for path in w.iterdir()} == {".jaato", "mine", "a", "kept"}
    assert trip.state() == {"a": "0", "kept/theirs": "user"}


@S4
def test_moved_files_and_directories_go_back_with_what_is_in_them(trip: Trip) -> None:
    """A directory gets its old name with the user's own files in it; edits in it are taken back under that name."""
    w = trip.workspace
    (w / "d").mkdir()
    (w / "d/a").write_text("0")
    (w / "d/mine").write_text("user")
    trip.write("d/a", "1")
    trip.move("d", "e")
    trip.write("e/a", "2")
    trip.move("e/a", "f")
    (w / "e/more").write_text("user")
    number = (w / "e/mine").stat().st_ino
    done = trip.manager.restore("w0")
    assert kept(done) == {}
    assert changed(done)["d"] == "moved back from e"
    assert trip.state() == {"d/a": "0", "d/mine": "user", "d/more": "user"}
    assert (w / "d/mine").stat().st_ino == number
    assert done.ceiling is not None
    trip.manager.restore(done.ceiling.id)
    assert trip.state() == {"f": "2", "e/mine": "user", "e/more": "user"}


@S4
def test_a_moved_file_of_any_size_goes_back(trip: Trip) -> None:
    """A file too large for a backup is moved back as it is; one that was copied stays, and is reported."""
    w = trip.workspace
    with open(w / "big", "wb") as file:
        file.truncate((256 << 20) + 1)
    trip.move("big", "moved")
    trip.desk.call("copyFile", source_path="moved", destination_path="copy")
    done = trip.manager.restore("w0")
    assert kept(done) == {"copy": HUGE}
    assert (w / "big").exists()
    assert not (w / "moved").exists()
    (w / "copy").unlink()


@S4
def test_ten_sessions_in_one_workspace(tmp_path: Path) -> None:
    """Each takes back its own changes; a file that another has changed since is kept, with the reason."""
    desk = Desk(tmp_path / "w")

    def change(session: str, path: str, text: str) -> None:
        name = "updateFile" if (desk.workspace / path).exists() else "writeNewFile"
        key = "new_content" if name == "updateFile" else "content"
        arguments = {"path": path, key: text}
        desk.tools[name].run(arguments, Call("c", name, arguments, session_id=session))

    managers = {f"s{number}": WaypointManager(desk.workspace, f"s{number}") for number in range(10)}
    for session in managers:
        change(session, "shared", f"by {session}")
        change(session, f"own {session}", "1")
    done = managers["s3"].restore("w0")
    assert kept(done) == {"shared": ANOTHER}
    assert (desk.workspace / "shared").read_text() == "by s9"
    assert not (desk.workspace / "own s3").exists()
    assert (desk.workspace / "own s4").exists()
    assert kept(managers["s9"].restore("w0")) == {}
    assert (desk.workspace / "shared").read_text() == "by s8"


@S4
def test_hundreds_of_files_with_few_descriptors(trip: Trip) -> None:
    """A hundred and twenty files go back at once in a process that may open 40 more."""
    edits = [{"path": f"n/{number}", "new_content": "x"} for number in range(120)]
    trip.desk.call("multiFileEdit", edits=edits)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, hard))
    try:
        done = trip.manager.restore("w0")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(done.plan.steps) == 120
    assert trip.state() == {}
