"""Waypoints in a session's log, what they know of the conversation, and the user's command."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.kit import call, recorded, reopened, say, session
from tests.waypoint.live import ACTIVATE, C7, PLUGINS, S4, turn, typed

from jaato.protocol.events import WaypointUpdated


@S4
def test_the_conversation_is_noted(tmp_path: Path) -> None:
    """A waypoint knows how many messages and turns there were, and how the last of the user's began."""
    script = [ACTIVATE, say("Hello."), call("create_waypoint", description="here"), say("Made.")]

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS) as live:
            await live.post("please " * 40)
            await live.post("now   save\nthis")
            made = live.state.waypoints.waypoints["w1"]
            assert (made.message_count, made.turn_index, made.preview) == (6, 1, "now save this")
            first = await typed(live, "info w1")
            assert "made after 6 messages, in turn 1" in first

    anyio.run(main)


@S4
@C7
@pytest.mark.spec("C8", "Server and events")
def test_waypoints_are_a_fold_of_the_log(tmp_path: Path) -> None:
    """Every change is one `waypoint.updated`; a session that is opened again has the same tree and goes back by it."""
    script = [ACTIVATE, call("updateFile", path="a", new_content="1"), say("Changed.")]
    (tmp_path / "work").mkdir()
    file = tmp_path / "work/a"
    file.write_text("0")

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS) as live:
            await typed(live, "create one")
            await turn(live)
            await typed(live, "create two")
            session_id, tree = live.state.session_id, live.state.waypoints
            events = [event for event in recorded(live) if isinstance(event, WaypointUpdated)]
            assert [(event.action, event.waypoint.id, event.current) for event in events] == [
                ("created", "w1", "w1"),
                ("created", "w2", "w2"),
            ]
        async with reopened(tmp_path, session_id, [say("?")], plugins=PLUGINS) as again:
            assert again.state.waypoints == tree
            assert "1 file changed" in await typed(again, "restore w1")
            assert file.read_text() == "0"
            assert "1 file changed" in await typed(again, "restore w2")
            assert file.read_text() == "1"
            assert again.state.waypoints.current == "w2"
            assert list(again.state.waypoints.waypoints) == ["w0", "w1", "w2"]

    anyio.run(main)


@S4
def test_the_users_command(tmp_path: Path) -> None:
    """create, list, info, restore with --dry-run and --force, delete; what is wrong is explained; the model is told."""
    script = [ACTIVATE, call("updateFile", path="a", new_content="tool"), say("Done."), say("I see.")]
    (tmp_path / "work").mkdir()
    file = tmp_path / "work/a"
    file.write_text("0")

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS) as live:
            await typed(live, "create  at\x1b[31m\nfirst ")
            await turn(live)
            file.write_text("user")
            assert "would change" in await typed(live, "restore w1 --dry-run --force")
            assert "somebody else has changed it since" in await typed(live, "restore w1")
            assert file.read_text() == "user"
            said = await typed(live, "restore w1 --force")
            assert "a: restored" in said
            assert file.read_text() == "0"
            assert "What was there before is w2" in said
            assert "ceiling" in await typed(live, "")
            assert "\x1b" not in await typed(live, "list")
            await typed(live, "restore w2")
            assert file.read_text() == "user"
            assert "deleted" in await typed(live, "delete w2")
            for line in ("delete w0", "restore w9", "create", "restore", "sing", "restore w1 --hard", "info"):
                answer = await typed(live, line)
                assert any(word in answer for word in ("stays", "no waypoint", "Usage"))
            await live.post("what now?")
            heard = [message.text for message in live.state.messages if message.source == "system"]
            assert any("The user took the files back to waypoint w1" in text for text in heard)

    anyio.run(main)
