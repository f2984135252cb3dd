"""A restore whose process is killed at any step has happened whole or not at all, once somebody looks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.waypoint.trip import Trip, kept

S4 = pytest.mark.spec("S4", "11. Waypoints with Shared Ownership")
KILLER = """
import os, shutil, signal, sys
from pathlib import Path
from jaato.plugins.waypoint.restore import WaypointManager
from jaato.tools.filesystem import atomic
from jaato.tools.filesystem import moves
from jaato.tools.filesystem import atomic_replace
left = -1
def step(event, arguments):
    global left
    if left < 0 or event not in ("os.rename", "os.link", "os.symlink", "os.remove", "os.mkdir", "os.rmdir", "open"):
        return
    if event == "open" and not arguments[2] & os.O_CREAT:
        return
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
def counted(*arguments, before=atomic.rename):
    step("os.rename", ())
    return before(*arguments)
atomic_replace.rename = atomic.rename = moves.rename = counted
sys.addaudithook(step)
base, places = Path(sys.argv[1]), Path(sys.argv[2])
for number in range(0, 300, int(sys.argv[3])):
    workspace = places / f"w{number}"
    shutil.copytree(base, workspace, symlinks=True)
    child = os.fork()
    if child == 0:
        manager = WaypointManager(workspace)
        left = number
        manager.restore("w0")
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


def kill_at_steps(base: Path, places: Path, every: int = 1) -> list[Path]:
    """Copies of a workspace, in each of which a restore was killed before another of its steps; whole in the last."""
    subprocess.run([sys.executable, "-c", KILLER, base, places, str(every)], check=True)
    return sorted(places.glob("w*"), key=lambda path: int(path.name[1:]))


def journey(workspace: Path) -> tuple[Trip, dict[str, str], dict[str, str]]:
    """A workspace in which tools have done a bit of everything; how it was before and how it is after that."""
    trip = Trip(workspace)
    (workspace / "d").mkdir()
    (workspace / "link").symlink_to("nowhere")
    for name in ("a", "b", "d/x", "d/mine"):
        (workspace / name).write_text(f"old {name}")
    first = trip.state()
    trip.write("a", "new")
    trip.remove("b")
    trip.write("d/x", "new")
    trip.move("d", "e")
    trip.write("e/y", "made")
    trip.remove("link")
    trip.write("link", "a file now")
    return trip, first, trip.state()


@S4
def test_a_killed_restore_has_happened_whole_or_not_at_all(tmp_path: Path) -> None:
    """Killed before each of its steps in turn: at the next start every file is as before the restore, or as after it; and
    going back then works."""
    _, first, last = journey(tmp_path / "base")
    outcomes: list[bool] = []
    for number, place in enumerate(kill_at_steps(tmp_path / "base", tmp_path)):
        trip = Trip(place)  # the next start
        state = trip.state()
        assert state in (first, last), f"killed before step {number}"
        outcomes.append(state == first)
        assert kept(trip.manager.restore("w0")) == {}, f"killed before step {number}"
        assert trip.state() == first
        assert not [path for path in (place / ".jaato/backups/staging").iterdir() if path.suffix == ".set"]
    assert len(outcomes) > 30
    assert outcomes == sorted(outcomes), "from some step on it has happened"
    assert outcomes[-1]


@S4
def test_what_the_user_edits_after_the_kill_stays(tmp_path: Path) -> None:
    """A file that was changed since the process died is left as the user has it, and the next restore keeps it."""
    journey(tmp_path / "base")
    for place in kill_at_steps(tmp_path / "base", tmp_path, every=3):
        (place / "a").write_text("user")
        trip = Trip(place)
        assert (place / "a").read_text() == "user"
        trip.manager.restore("w0")
        assert (place / "a").read_text() == "user"


STUCK = """
import shutil, sys
from pathlib import Path
from jaato.errors import ToolError
from jaato.plugins.waypoint.restore import WaypointManager
from jaato.tools.filesystem import atomic, atomic_replace
workspace = Path(sys.argv[1])
manager = WaypointManager(workspace)
replaced = []
def rename(*arguments, before=atomic.rename):
    result = before(*arguments)
    if (workspace / "a").read_text() == "old" and not replaced:
        replaced.append("a")
        (workspace / "b").write_text("edited meanwhile")
        for backup in (workspace / ".jaato/backups/objects").iterdir():
            backup.rename(sys.argv[2] + "/" + backup.name)
    return result
atomic_replace.rename = rename
try:
    manager.restore("w0")
except ToolError as error:
    print(error)
    print(*manager.tree.waypoints, manager.tree.current)
for backup in Path(sys.argv[2]).iterdir():
    backup.rename(workspace / ".jaato/backups/objects" / backup.name)
print(manager.restore("w1", force=True).plan.kept)
"""


@S4
def test_a_restore_that_cannot_be_rolled_back_keeps_the_way_back(tmp_path: Path) -> None:
    """Where a restore fails in the middle and what it has replaced cannot be put back, the waypoint of what was there before
    stays, the error names it, and restoring it brings that back."""
    trip = Trip(workspace := tmp_path / "w")
    for name in ("a", "b"):
        (workspace / name).write_text("old")
        trip.write(name, "new")
    (tmp_path / "away").mkdir()
    run = subprocess.run(
        [sys.executable, "-c", STUCK, workspace, tmp_path / "away"],
        capture_output=True,
        text=True,
        check=True,
    )
    error, waypoints, kept_then = run.stdout.splitlines()
    assert "not everything could be put back: 'a'" in error
    assert error.endswith("Waypoint w1 has what the files held before.")
    assert (waypoints, kept_then) == ("w0 w1 w1", "[]")
    assert trip.state() == {"a": "new", "b": "new"}
