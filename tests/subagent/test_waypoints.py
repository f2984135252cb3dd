"""Waypoints of a session with subagents: one tree, whoever makes them."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.kit import call, plan, say
from tests.subagent.cast import Cast

from jaato.protocol.events import WaypointUpdated
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.runtime import Runtime
from jaato.storage.sqlite import SqliteStore
from jaato.tools.permissions.gate import Policy


@pytest.mark.spec("S4", "11. Waypoints with Shared Ownership")
def test_a_subagents_waypoint_stands_in_the_sessions_tree(tmp_path: Path) -> None:
    """A waypoint of a subagent takes the next number of the session's, and the root goes back to it."""
    work = tmp_path / "work"
    work.mkdir()
    scripts = {
        "main": [
            call("create_waypoint", description="before all"),
            call("delegate", task="work", name="helper"),
            call("writeNewFile", path="later.txt", content="later"),
            call("restore_waypoint", waypoint_id="w2"),
            say("done"),
        ],
        "helper": [
            call("writeNewFile", path="mine.txt", content="mine"),
            call("create_waypoint", description="the helper's"),
            say("made"),
        ],
    }
    registry = PluginRegistry(workspace=work)
    for name in ("introspection", "file_edit", "subagent", "waypoint"):
        registry.expose_tool(name)
    runtime = Runtime(SqliteStore(tmp_path / "state.db"), registry)

    async def main() -> None:
        made = plan(
            tmp_path, [], provider=Cast(scripts), deferred=False, policy=Policy.of({"defaultPolicy": "allow"})
        )
        async with runtime.create(made) as session:
            marks: list[WaypointUpdated] = []
            session.journal.bus.listen(
                lambda event: marks.append(event) if isinstance(event, WaypointUpdated) else None
            )
            await session.post("go")
            assert [(mark.action, mark.waypoint.id) for mark in marks][:2] == [
                ("created", "w1"),
                ("created", "w2"),
            ]
            assert marks[-1].action == "restored"
            assert marks[-1].waypoint.id == "w2"
        assert (work / "mine.txt").read_text() == "mine"
        assert not (work / "later.txt").exists()

    try:
        anyio.run(main)
    finally:
        runtime.close()
