"""`/undo`: the newest file changes in effect are taken back, message by message, and nobody else's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
from tests.kit import call, reopened, results, say, session
from tests.waypoint.live import ACTIVATE, PLUGINS, User, asking

from jaato.agent.session import Session
from jaato.providers.scripted import Step

NOTHING = "There is nothing to undo"


def update(path: str, text: str) -> Step:
    """A call that gives a file this content."""
    return call("updateFile", path=path, new_content=text)


def setting(tmp_path: Path, *names: str) -> Sequence[Path]:
    """Files of the workspace, each with its own name as content."""
    (tmp_path / "work").mkdir()
    files = [tmp_path / "work" / name for name in names]
    for file in files:
        file.write_text(file.name)
    return files


async def undo(live: Session, line: str = "") -> str:
    """What `/undo` says."""
    return await live.run_command("undo", line)


def test_message_by_message_and_back(tmp_path: Path) -> None:
    """Each `/undo` takes back what followed one more message of the user; restoring the waypoint it names undoes it."""
    a, b = setting(tmp_path, "a", "b")
    script = [
        ACTIVATE, update("a", "1"), say("One."),
        update("a", "2"), update("b", "2"), say("Two."), say("Only words."),
    ]  # fmt: skip

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS, **asking(User())) as live:
            assert NOTHING in await undo(live)
            for text in ("do one", "do  two", "talk"):
                await live.post(text)
            assert 'Would take back what changed since "do two"' in await undo(live, "--dry-run")
            assert (a.read_text(), b.read_text()) == ("2", "2")
            said = await undo(live)
            assert 'Took back what changed since "do two":\n  a: restored\n  b: restored' in said
            assert "`/waypoint restore w2` undoes this." in said
            assert (a.read_text(), b.read_text()) == ("1", "b")
            assert 'since "do one"' in await undo(live)
            assert (a.read_text(), b.read_text()) == ("a", "b")
            assert NOTHING in await undo(live)
            await live.run_command("waypoint", "restore w2")
            assert (a.read_text(), b.read_text()) == ("2", "2")
            session_id = live.state.session_id
        async with reopened(tmp_path, session_id, [say("?")], plugins=PLUGINS) as again:
            await undo(again)
            assert (a.read_text(), b.read_text()) == ("1", "b")

    anyio.run(main)


def test_new_changes_after_an_undo(tmp_path: Path) -> None:
    """What was changed after an undo is taken back first; then what was in effect before, and not what had been undone."""
    (a,) = setting(tmp_path, "a")
    script = [ACTIVATE, *(part for text in "123" for part in (update("a", text), say(text)))]

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS, **asking(User())) as live:
            await live.post("one")
            await live.post("two")
            await undo(live)
            assert a.read_text() == "1"
            await live.post("three")
            assert a.read_text() == "3"
            await live.run_command("waypoint", "create by hand")
            assert 'since "three"' in await undo(live)
            assert a.read_text() == "1"
            assert 'since "one"' in await undo(live)
            assert a.read_text() == "a"
            assert NOTHING in await undo(live)

    anyio.run(main)


def test_what_others_changed_stays(tmp_path: Path) -> None:
    """A file that somebody else has edited since is kept and named, without a waypoint if nothing can be done; `--force`
    overrules. A file that the session created is removed, and the model is notified."""
    (a,) = setting(tmp_path, "a")
    script = [
        ACTIVATE,
        update("a", "1"),
        call("writeNewFile", path="c", content="new"),
        say("Done."),
        say("I see."),
    ]

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS, **asking(User())) as live:
            await live.post("change it")
            (tmp_path / "work/c").write_text("mine")
            a.write_text("mine")
            said = await undo(live)
            assert 'Nothing was taken back since "change it".' in said
            assert "a: somebody else has changed it since" in said
            assert list(live.state.waypoints.waypoints) == ["w0"]
            assert "Usage: undo" in await undo(live, "everything")
            assert "c: removed" in await undo(live, "--force")
            assert a.read_text() == "a"
            assert not (tmp_path / "work/c").exists()
            await live.post("and now?")
            sent = [message.text for message in live.state.messages if message.role == "user"]
            assert any("The user took the files back to waypoint w1" in text for text in sent)
            assert all(result.ok for result in results(live))

    anyio.run(main)


def test_after_a_deleted_waypoint(tmp_path: Path) -> None:
    """Deleting the waypoint a session stands at hides no change from `/undo`."""
    (a,) = setting(tmp_path, "a")

    async def main() -> None:
        script = [ACTIVATE, update("a", "1"), say("Done.")]
        async with session(tmp_path, script, plugins=PLUGINS, **asking(User())) as live:
            await live.post("change it")
            await live.run_command("waypoint", "create x")
            await live.run_command("waypoint", "delete w1")
            assert "a: restored" in await undo(live)
            assert a.read_text() == "a"

    anyio.run(main)


def test_changes_that_were_taken_back_otherwise(tmp_path: Path) -> None:
    """A message whose changes the user has taken back by hand is passed over."""
    a, b = setting(tmp_path, "a", "b")
    script = [ACTIVATE, update("a", "1"), say("One."), update("b", "2"), say("Two.")]

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS, **asking(User())) as live:
            await live.post("do one")
            await live.post("do two")
            b.write_text("b")
            assert 'Took back what changed since "do one":\n  a: restored' in await undo(live)
            assert (a.read_text(), b.read_text()) == ("a", "b")
            assert NOTHING in await undo(live)

    anyio.run(main)


def test_force_after_an_undo_that_kept_a_file(tmp_path: Path) -> None:
    """`--force` overrules what the undo before it has kept, and takes back no older change with it."""
    a, b, c = setting(tmp_path, "a", "b", "c")
    script = [ACTIVATE, update("a", "1"), say("One."), update("b", "2"), update("c", "2"), say("Two.")]

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS, **asking(User())) as live:
            await live.post("do one")
            await live.post("do two")
            c.write_text("mine")
            assert "c: somebody else has changed it since" in await undo(live)
            said = await undo(live, "--force")
            assert 'Took back what changed since "do two":\n  c: restored' in said
            assert (a.read_text(), b.read_text(), c.read_text()) == ("1", "b", "c")
            assert 'since "do one":\n  a: restored' in await undo(live, "--force")
            assert NOTHING in await undo(live, "--force")

    anyio.run(main)


def test_a_refusal_is_addressed_to_the_user(tmp_path: Path) -> None:
    """What only a person can do is worded for the user who typed the command, and for the model where a tool is refused."""
    (a,) = setting(tmp_path, "a")
    script = [ACTIVATE, update("a", "1"), say("One."), update("a", "2"), say("It was refused.")]

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS, **asking(User())) as live:
            await live.post("change it")
            place = tmp_path / "work" / ".jaato"
            place.rename(tmp_path / "elsewhere")
            place.symlink_to(tmp_path / "elsewhere")
            for command, line in (("undo", ""), ("waypoint", "create here")):
                said = await live.run_command(command, line)
                assert said.endswith("Remove it."), said
                assert "the user" not in said
            await live.post("again")
            assert "Ask the user to remove it." in str(results(live)[-1].error)
            assert a.read_text() == "1"

    anyio.run(main)
