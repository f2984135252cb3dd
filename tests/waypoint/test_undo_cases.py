"""`/undo` after a compaction, a restore and work of a subagent, with files of every kind, and changes of the user between."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import anyio
from tests.compaction.test_commands import say_long, use_hybrid
from tests.kit import call, say, session
from tests.subagent.cast import stage
from tests.waypoint.live import ACTIVATE, PLUGINS, User, asking
from tests.waypoint.test_undo import NOTHING, setting, undo, update

from jaato.providers.scripted import Step


def test_after_a_compaction(tmp_path: Path) -> None:
    """Changes of one message are taken back together, and named by it, when compaction has removed it from the context."""
    a, b = setting(tmp_path, "a", "b")
    script: Sequence[Step] = [
        ACTIVATE, update("a", "1"), update("b", "1"), say_long(), say_long(), say_long(),
        Step(text="Of files.", purpose="gc"),
    ]  # fmt: skip

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS, **asking(User())) as live:
            use_hybrid(live)
            for text in ("change both", "talk", "talk more"):
                await live.post(text)
            assert await live.compact()
            assert not any("change both" in message.text for message in live.state.messages[1:])
            assert 'since "change both":\n  a: restored\n  b: restored' in await undo(live)
            assert (a.read_text(), b.read_text()) == ("a", "b")
            assert NOTHING in await undo(live)

    anyio.run(main)


def test_the_changes_of_a_subagent(tmp_path: Path) -> None:
    """They belong to the message that led to them, with those of the agent itself."""
    a, b, c = setting(tmp_path, "a", "b", "c")
    scripts = {
        "main": [
            update("c", "0"), say("Zero."),
            call("delegate", task="work", name="helper"), update("c", "1"), say("Done."),
        ],
        "helper": [update("a", "1"), update("b", "1"), say("Made.")],
    }  # fmt: skip

    async def main() -> None:
        plugins = ("introspection", "file_edit", "subagent", "waypoint")
        async with stage(tmp_path, scripts, plugins=plugins) as (live, _):
            await live.post("prepare")
            await live.post("have it done")
            assert (a.read_text(), b.read_text(), c.read_text()) == ("1", "1", "1")
            assert 'since "have it done"' in await undo(live)
            assert (a.read_text(), b.read_text(), c.read_text()) == ("a", "b", "0")
            assert 'since "prepare"' in await undo(live)
            assert c.read_text() == "c"
            assert NOTHING in await undo(live)

    anyio.run(main)


def test_files_of_every_kind(tmp_path: Path) -> None:
    """New, changed, removed, moved, binary, executable and empty ones, and directories that were made: all are as they were."""
    old, gone, moved, tool = setting(tmp_path, "old", "gone", "moved", "tool")
    work = tmp_path / "work"
    old.write_bytes(bytes(range(256)) * 50)
    tool.chmod(0o755)
    (work / "empty").touch()
    before = {path.name: (path.read_bytes(), path.stat().st_mode) for path in work.iterdir()}
    script = [
        ACTIVATE,
        call("removeFile", path="old"), call("removeFile", path="gone"), call("removeFile", path="empty"),
        call("moveFile", source_path="moved", destination_path="deep/er/there"),
        call("writeNewFile", path="new/made", content="x"), call("writeNewFile", path="old", content="text"),
        update("tool", "#!"), update("deep/er/there", "other"), say("Done."),
    ]  # fmt: skip

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS, **asking(User())) as live:
            await live.post("change all")
            assert sorted(path.name for path in work.iterdir() if path.name[0] != ".") == [
                "deep",
                "new",
                "old",
                "tool",
            ]
            said = await undo(live)
            assert "Kept" not in said, said
            after = {
                path.name: (path.read_bytes(), path.stat().st_mode)
                for path in work.iterdir()
                if path.is_file()
            }
            assert after == before
            assert not (work / "deep").exists()
            assert not (work / "new").exists()
            await live.run_command("waypoint", "restore w2")
            assert (work / "deep/er/there").read_text() == "other"
            assert old.read_text() == "text"
            assert not gone.exists()
            assert not moved.exists()
            assert os.access(tool, os.X_OK)
            assert "change all" in await undo(live)

    anyio.run(main)


def test_changes_of_the_user_in_between(tmp_path: Path) -> None:
    """Of each file, what the user has edited, removed or made again is kept and named; the rest is taken back."""
    a, b, c, d = setting(tmp_path, "a", "b", "c", "d")
    script = [
        ACTIVATE, update("a", "1"), update("b", "1"), call("removeFile", path="c"),
        call("writeNewFile", path="e", content="1"), update("d", "1"), say("Done."),
    ]  # fmt: skip

    async def main() -> None:
        async with session(tmp_path, script, plugins=PLUGINS, **asking(User())) as live:
            await live.post("change all")
            a.write_text("mine")
            b.unlink()
            c.write_text("mine")
            (tmp_path / "work/e").unlink()
            said = await undo(live)
            assert "  d: restored" in said
            for name in "abc":
                assert f"  {name}: somebody else" in said, said
            assert "  e: " not in said
            assert (a.read_text(), c.read_text(), d.read_text()) == ("mine", "mine", "d")
            assert not b.exists()
            said = await undo(live, "--force")
            assert (a.read_text(), b.read_text(), c.read_text()) == ("a", "b", "c"), said
            assert NOTHING in await undo(live)

    anyio.run(main)


def test_after_the_model_restored_a_waypoint(tmp_path: Path) -> None:
    """What the restore took back is not taken back again; what came before it is, and then what came after."""
    a, b = setting(tmp_path, "a", "b")
    script = [
        ACTIVATE, update("a", "1"), say("One."),
        call("create_waypoint", description="here"), update("b", "2"), say("Two."),
        call("restore_waypoint", waypoint_id="w1"), say("Back."),
        update("b", "3"), say("Three."),
    ]  # fmt: skip

    async def main() -> None:
        policy = {"whitelist": {"tools": ["updateFile", "create_waypoint", "restore_waypoint"]}}
        async with session(tmp_path, script, plugins=PLUGINS, **asking(User(), **policy)) as live:
            for text in ("one", "two", "back"):
                await live.post(text)
            assert (a.read_text(), b.read_text()) == ("1", "b")
            assert 'since "one"' in await undo(live, "--dry-run")
            await live.post("three")
            assert 'since "three"' in await undo(live)
            assert (a.read_text(), b.read_text()) == ("1", "b")
            assert 'since "one"' in await undo(live)
            assert a.read_text() == "a"
            assert NOTHING in await undo(live)

    anyio.run(main)
