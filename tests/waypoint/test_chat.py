"""Waypoints at the keyboard: `jaato chat`, real processes, one session after another."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.environment import CliEnvironment, call, say


@pytest.mark.spec("S4", "11. Waypoints with Shared Ownership", "S4.waypoints.4")
def test_the_command_in_a_chat(tmp_path: Path) -> None:
    """/help names it, a waypoint made by hand is shown, and a later chat of the same session goes back to it."""
    desk = CliEnvironment(tmp_path)
    (desk.work / "a.txt").write_text("mine\n")
    script = desk.script(
        call("get_tool_schemas", names=["updateFile"]),
        call("updateFile", path="a.txt", new_content="the agent's\n"),
        say("Changed."),
    )
    lines = "/help\n/waypoint create before the agent\nchange it\n/waypoint list\n"
    first = desk.run("chat", *script, "--yes", stdin=lines)
    assert first.returncode == 0, first.stderr
    said = first.stdout + first.stderr
    assert "/waypoint" in said
    assert "w1 is made." in said
    assert "waypoint w1 created" not in said
    assert 'w1 "before the agent" [user] ◀ current' in said
    assert (desk.work / "a.txt").read_text() == "the agent's\n"
    again = desk.run("chat", *script, "--continue", stdin="/waypoint restore w1\n/waypoint\n")
    said = again.stdout + again.stderr
    assert "a.txt: restored" in said
    assert "[user, ceiling]" in said
    assert (desk.work / "a.txt").read_text() == "mine\n"
    kinds = [event["type"] for event in desk.events(desk.sessions()[0]["id"])]
    assert kinds.count("waypoint.updated") == 3
