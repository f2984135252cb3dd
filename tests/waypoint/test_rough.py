"""Waypoints under rough use: wrong input, others at work meanwhile, a process that dies before it has noted where it is."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, reopened, say, session
from tests.waypoint.live import ACTIVATE, PLUGINS, S4, data, turn, typed
from tests.waypoint.trip import Trip, kept

from jaato.plugins.waypoint.restore import MAX_WAYPOINTS, PRUNED, WaypointRefused
from jaato.tools.filesystem.backup_directory import IDS


@S4
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("create_waypoint", {}),
        ("create_waypoint", {"description": ""}),
        ("create_waypoint", {"description": " \u200b\x00\n "}),
        ("create_waypoint", {"description": "x" * 501}),
        ("create_waypoint", {"description": ["x"]}),
        ("restore_waypoint", {"waypoint_id": ""}),
        ("restore_waypoint", {"waypoint_id": "w" * 41}),
        ("restore_waypoint", {"waypoint_id": "../../w0"}),
        ("restore_waypoint", {"waypoint_id": "w1", "dry_run": "true"}),
        ("restore_waypoint", {"waypoint_id": "w1", "force": True}),
        ("restore_waypoint", {"waypoint_id": 1}),
        ("delete_waypoint", {"waypoint_id": "w99999999999999999999"}),
        ("delete_waypoint", {}),
        ("waypoint_info", {"waypoint_id": "\ud800"}),
        ("list_waypoints", {"x": 1}),
    ],
)
def test_wrong_input_is_refused_with_words(tmp_path: Path, name: str, arguments: dict[str, Any]) -> None:
    """Whatever is missing, malformed, huge or hostile is an error that says so; no waypoint is made or lost."""

    async def main() -> None:
        async with session(
            tmp_path, [ACTIVATE, call(name, **arguments), say("Oh.")], plugins=PLUGINS
        ) as live:
            await typed(live, "create one")
            _, refused = await turn(live)
            assert refused.error is not None
            assert len(refused.error.message) > 20
            assert refused.error.traceback is None
            assert list(live.state.waypoints.waypoints) == ["w0", "w1"]

    anyio.run(main)


@S4
def test_there_are_only_so_many(tmp_path: Path) -> None:
    """Beyond the bound neither a waypoint nor a ceiling is made, and nothing goes back without its ceiling."""
    trip = Trip(tmp_path / "w")
    trip.write("a", "0")
    tree = trip.manager.tree
    for number in range(1, MAX_WAYPOINTS):
        tree.apply("created", trip.manager._log.create("x", "user", IDS.next()), "w0", "", True)
        assert len(tree.waypoints) == number + 1
    with pytest.raises(WaypointRefused, match="Delete some"):
        trip.manager.create("one more")
    trip.write("a", "1")
    with pytest.raises(WaypointRefused, match="Delete some"):
        trip.manager.restore("w1")
    assert trip.state() == {"a": "1"}
    trip.manager.delete("w7")
    trip.manager.restore("w1")
    assert trip.state() == {"a": "0"}


@S4
def test_restores_at_once_end_at_one_of_them(tmp_path: Path) -> None:
    """Two restores of one reply do not mix: the files are all as at one of the two waypoints, and nothing is lost."""
    script = [
        ACTIVATE,
        calls(*(("writeNewFile", {"path": f"f{number}", "content": "1"}) for number in range(6))),
        call("create_waypoint", description="ones"),
        calls(*(("updateFile", {"path": f"f{number}", "new_content": "2"}) for number in range(6))),
        call("create_waypoint", description="twos"),
        calls(*(("updateFile", {"path": f"f{number}", "new_content": "3"}) for number in range(6))),
        calls(("restore_waypoint", {"waypoint_id": "w1"}), ("restore_waypoint", {"waypoint_id": "w2"})),
        call("restore_waypoint", waypoint_id="w3"),
        say("Done."),
    ]

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS) as live:
            *_, first, second, back = await turn(live)
            assert first.ok
            assert second.ok
            assert back.ok
            assert {path.read_text() for path in (tmp_path / "work").glob("f*")} == {"3"}
            assert live.state.waypoints.waypoints["w3"].ceiling

    anyio.run(main)


@S4
def test_a_user_who_types_while_files_go_back_loses_nothing(tmp_path: Path) -> None:
    """A file that is written again and again meanwhile has, in the end, what was written last."""
    trip = Trip(tmp_path / "w")
    for name in ("a", "b", "c", "d"):
        (trip.workspace / name).write_text("0")
    stop, last = threading.Event(), [""]

    def type_on() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            last[0] = f"user {number}"
            (trip.workspace / "c").write_text(last[0])

    for name in ("a", "b", "c", "d"):
        trip.write(name, "1")
    typist = threading.Thread(target=type_on)
    typist.start()
    try:
        for _ in range(10):
            done = trip.manager.restore("w0")
            assert set(kept(done)) <= {"c"}
    finally:
        stop.set()
        typist.join()
    assert (trip.workspace / "c").read_text() == last[0]
    assert (trip.workspace / "a").read_text() == "0"


@S4
def test_a_process_that_dies_before_it_has_noted_where_it_is(tmp_path: Path) -> None:
    """The files went back and the log does not know it: another restore makes a ceiling of them, and all is reachable."""
    script = [ACTIVATE, call("updateFile", path="a", new_content="1"), say("Changed.")]
    (tmp_path / "work").mkdir()
    file = tmp_path / "work/a"
    file.write_text("0")
    dying = (
        "import anyio, os, signal, sys\n"
        "from pathlib import Path\n"
        "from jaato.agent.services import Waypoints\n"
        "from tests.kit import reopened, say\n"
        "from tests.waypoint.live import PLUGINS, typed\n"
        "Waypoints.stand = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        "async def main():\n"
        "    async with reopened(Path(sys.argv[1]), sys.argv[2], [say('?')], plugins=PLUGINS) as live:\n"
        "        await typed(live, 'restore w1')\n"
        "anyio.run(main)\n"
    )

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS) as live:
            await typed(live, "create one")
            await turn(live)
            session_id = live.state.session_id
        done = await anyio.run_process([sys.executable, "-c", dying, str(tmp_path), session_id], check=False)
        assert done.returncode == -9
        assert file.read_text() == "0"
        async with reopened(tmp_path, session_id, [say("?")], plugins=PLUGINS) as again:
            assert list(again.state.waypoints.waypoints) == ["w0", "w1", "w2"]
            await typed(again, "restore w2")
            assert file.read_text() == "1"
            await typed(again, "restore w1")
            assert file.read_text() == "0"

    anyio.run(main)


@S4
def test_lost_contents_are_named(tmp_path: Path) -> None:
    """When somebody has emptied the backups' store, what cannot come back stays as it is, each with the reason."""
    trip = Trip(tmp_path / "w")
    (trip.workspace / "a").write_text("0")
    trip.write("a", "1")
    trip.write("b", "1")
    subprocess.run(["rm", "-r", trip.workspace / ".jaato/backups/objects"], check=True)
    assert kept(trip.manager.restore("w0")) == {"a": PRUNED}
    assert trip.state() == {"a": "1"}
    subprocess.run(["rm", "-r", trip.workspace / ".jaato"], check=True)
    assert not trip.manager.restore("w0").plan


@S4
def test_a_look_at_a_waypoint_that_has_faded(tmp_path: Path) -> None:
    """It still says whose it is and when it was made, and that its backups are gone."""

    async def main() -> None:
        script = [ACTIVATE, call("waypoint_info", waypoint_id="w1"), say("I see.")]
        async with session(tmp_path, script, plugins=PLUGINS) as live:
            await typed(live, "create one")
            pins = next((tmp_path / "work/.jaato/backups/pins").iterdir())
            pins.write_text(pins.read_text().replace('"marks"', f'"lost":"{IDS.next()}","marks"'))
            _, info = await turn(live)
            assert data(info)["owner"] == "user"
            assert "faded" in data(info)["note"]
            assert "faded" in await typed(live, "info w1")
            assert "faded" in await typed(live, "restore w1")

    anyio.run(main)
