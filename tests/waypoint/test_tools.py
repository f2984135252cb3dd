"""The five tools in a session: owners and permission."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, say, session
from tests.waypoint.live import ACTIVATE, C7, FILES, PLUGINS, S4, User, asking, data, turn, typed

from jaato.protocol.messages import Text
from jaato.providers.scripted import Answer as Reply
from jaato.tools.permissions.gate import Policy


@S4
@C7
def test_the_model_protects_itself_and_corrects_itself(tmp_path: Path) -> None:
    """Create, change several files, restore without being asked about, delete: the example of the specification."""
    user = User()
    script = [
        ACTIVATE,
        call("create_waypoint", description="before auth refactor"),
        calls(
            ("updateFile", {"path": "a", "new_content": "broken"}),
            ("writeNewFile", {"path": "b", "content": "new"}),
            ("removeFile", {"path": "c"}),
        ),
        call("restore_waypoint", waypoint_id="w1"),
        call("delete_waypoint", waypoint_id="w1"),
        say("Done."),
    ]
    work = tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("good")
    (work / "c").write_text("kept")

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS, **asking(user)) as live:
            made, *_, restored, deleted = (await turn(live))[1:]
            assert data(made)["waypoint_id"] == "w1"
            assert data(made)["owner"] == "model"
            assert data(restored)["changed"] == [
                {"path": "a", "change": "restored"},
                {"path": "b", "change": "removed"},
                {"path": "c", "change": "brought back"},
            ]
            assert data(restored)["ceiling"] == "w2"
            assert data(deleted) == {"deleted": "w1", "current": "w0"}
            assert user.questions == []
            assert list(live.state.waypoints.waypoints) == ["w0", "w2"]

    anyio.run(main)
    assert {path.name: path.read_text() for path in work.iterdir() if path.is_file()} == {
        "a": "good",
        "c": "kept",
    }


@S4
@C7
def test_the_user_is_asked_before_the_model_goes_back_to_the_users(tmp_path: Path) -> None:
    """About a user's waypoint the user is asked each time, whatever was allowed for good; a no leaves everything."""
    user = User("a", "n")
    script = [
        ACTIVATE,
        call("updateFile", path="a", new_content="1"),
        call("restore_waypoint", waypoint_id="w1"),
        call("updateFile", path="a", new_content="2"),
        call("restore_waypoint", waypoint_id="w1"),
        say("Denied."),
    ]
    (tmp_path / "work").mkdir()
    file = tmp_path / "work/a"
    file.write_text("0")
    allowed = {"whitelist": {"tools": [*FILES, "restore_waypoint"]}, "defaultPolicy": "allow"}

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS, **asking(user, **allowed)) as live:
            assert await typed(live, "create mine") == "w1 is made."
            _, _, first, _, second = await turn(live)
            assert first.ok
            assert second.error is not None
            assert "user denied" in second.error.message
            assert file.read_text() == "2"
            assert [question.shape for question in user.questions] == [None, None]
            assert "w1 is a waypoint of the user" in user.questions[0].reason

    anyio.run(main)


@S4
def test_nobody_to_ask_means_no(tmp_path: Path) -> None:
    """Without anybody to ask a user's waypoint stays out of reach, even where everything is allowed; a look is free."""
    script = [
        ACTIVATE,
        call("updateFile", path="a", new_content="1"),
        call("restore_waypoint", waypoint_id="w0", dry_run=True),
        call("askPermission", tool="restore_waypoint", arguments={"waypoint_id": "w0"}),
        call("restore_waypoint", waypoint_id="w0"),
        say("Denied."),
    ]
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a").write_text("0")

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS) as live:
            look, asked, denied = (await turn(live))[2:]
            assert data(look)["changed"] == [{"path": "a", "change": "restored"}]
            assert data(look)["makes_ceiling"] is True
            assert data(asked)["access"] == "asks"
            assert not denied.ok
            assert (tmp_path / "work/a").read_text() == "1"

    anyio.run(main)


@S4
@pytest.mark.parametrize(
    ("document", "more"),
    [
        ({"blacklist": {"tools": ["restore_waypoint"]}}, {}),
        ({"defaultPolicy": "deny"}, {}),
        ({}, {"read_only": True}),
    ],
)
def test_rules_that_forbid_come_first(tmp_path: Path, document: dict[str, Any], more: dict[str, Any]) -> None:
    """The blacklist, a default of deny and a session that only reads hold for the model's own waypoints, too."""
    script = [
        ACTIVATE,
        call("create_waypoint", description="x"),
        call("restore_waypoint", waypoint_id="w1"),
        say("Denied."),
    ]
    policy = Policy.of(document).with_flags(allow=[], deny=[], default=None, **({"read_only": False} | more))

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS, policy=policy) as live:
            _, made, denied = await turn(live)
            assert made.ok
            assert denied.error is not None
            assert denied.error.code == "permission_denied"

    anyio.run(main)


@S4
@C7
def test_the_model_sees_but_cannot_delete_a_users_waypoint(tmp_path: Path) -> None:
    """Listing and information are free, deletion of a user's waypoint or of the start is refused; ids are one sequence."""
    script: Sequence[Reply] = [
        ACTIVATE,
        call("create_waypoint", description="own"),
        call("delete_waypoint", waypoint_id="w1"),
        call("delete_waypoint", waypoint_id="w0"),
        call("delete_waypoint", waypoint_id="w2"),
        call("save_waypoint", description="later"),
        call("list_waypoints"),
        call("waypoint_info", waypoint_id=" W1 "),
        call("restore_waypoint", waypoint_id="w2"),
        say("Done."),
    ]

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS) as live:
            await typed(live, "create my safety net")
            _, own, users, start, gone, later, listed, info, missing = await turn(live)
            assert data(own)["waypoint_id"] == "w2"
            assert users.error is not None
            assert users.error.code == "not_owner"
            assert start.error is not None
            assert "stays" in start.error.message
            assert data(gone)["deleted"] == "w2"
            assert data(later)["waypoint_id"] == "w3"
            assert listed.content[0] == Text(
                'w0 "session start"\n└── w1 "my safety net" [user]\n    └── w3 "later" [model] ◀ current'
            )
            said = data(info)
            assert (said["owner"], said["parent"], said["children"]) == ("user", "w0", ["w3"])
            assert missing.error is not None
            assert "There is no waypoint 'w2'. Waypoints: w0, w1, w3." in missing.error.message

    anyio.run(main)
