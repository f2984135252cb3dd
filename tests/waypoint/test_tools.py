"""The five tools and the user's command in a session: owners, permission, the log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, recorded, reopened, results, say, session

from jaato.abc.asker import Answer, Question
from jaato.agent.session import Session
from jaato.protocol.commands import CommandExecute
from jaato.protocol.events import WaypointUpdated
from jaato.protocol.messages import Text, ToolResult
from jaato.providers.scripted import Answer as Reply
from jaato.tools.permissions import Policy

S4 = pytest.mark.spec("S4", "11. Waypoints with Shared Ownership")
C7 = pytest.mark.spec("C7", "Context, sessions, enrichment")
PLUGINS = ("introspection", "file_edit", "waypoint", "session")
NAMES = ["create_waypoint", "restore_waypoint", "delete_waypoint", "list_waypoints", "waypoint_info"]
FILES = ["writeNewFile", "updateFile", "removeFile", "moveFile", "askPermission"]
ACTIVATE = call("get_tool_schemas", names=[*NAMES, *FILES])


class User:
    """Answers permission questions and keeps them."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []

    def ask(self, question: Question) -> Answer | None:
        """The next answer; None when there is none left."""
        self.questions.append(question)
        return Answer(answer=self.answers.pop(0), by="user") if self.answers else None


def asking(user: User, **document: Any) -> dict[str, Any]:
    """A session whose user is asked about what writes, but not about the file tools."""
    document = {"whitelist": {"tools": FILES}} | document
    return {"policy": Policy.of(document), "asker": user}


def data(result: ToolResult) -> Any:
    """What a tool returned."""
    assert result.ok, result.error
    text = "".join(part.text for part in result.content if isinstance(part, Text))
    return result.structured if result.structured is not None else json.loads(text)


async def typed(live: Session, line: str) -> str:
    """What the user's command says."""
    said = await live.dispatch(CommandExecute(name="waypoint", arguments=line))
    assert isinstance(said, str)
    return said


async def turn(live: Session) -> list[ToolResult]:
    """Run a turn; the results of its calls."""
    before = len(results(live))
    await live.post("go on")
    return results(live)[before:]


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
            assert "6 messages, turn 1" in first

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
