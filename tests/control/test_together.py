"""Commands that run at once, file tools beside them, and what changes outside meanwhile."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.control.player import Player

from jaato.abc.plugin import TaskStatus
from jaato.plugins.background import BackgroundPlugin
from jaato.tools.call import Call
from jaato.tools.filesystem.backups import Backups
from jaato.tools.filesystem.changes import Change, Changes
from jaato.tools.filesystem.containment import Roots
from jaato.tools.task_records import BackgroundTask, TaskRecords

pytestmark = pytest.mark.spec("C4", "Permissions")


async def until(reached: Callable[[], bool]) -> None:
    """Wait until something is so."""
    with anyio.fail_after(60):
        while not reached():
            await anyio.sleep(0.02)


def test_the_result_of_another_command_reports_it_too(player: Player) -> None:
    """What a command that goes on running has made is moved away before the next result, and is named in both."""
    results: dict[str, dict[str, Any]] = {}

    async def long() -> None:
        results["long"] = await player.play(
            "touch begun; mkdir .claude; touch made; while [ ! -e go ]; do sleep 0.05; done"
        )

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(long)
            await until((player.workspace / "made").exists)
            results["short"] = await player.play("true")
            assert not (player.workspace / ".claude").exists()
            (player.workspace / "go").touch()

    anyio.run(main)
    assert results["short"]["removed"] == [".claude"]
    assert results["long"]["removed"] == [".claude"]


def test_looking_at_a_background_task_moves_it_away(player: Player) -> None:
    """Fetching the output of a task that still runs removes what it has made, and says so."""
    plugin = BackgroundPlugin(player.host)
    tasks = TaskRecords()
    task = tasks.add(BackgroundTask("run", "cli", lambda: None))
    services = {"tasks": tasks}

    async def main() -> dict[str, Any]:
        async with anyio.create_task_group() as group:
            group.start_soon(
                player.play, "echo {} >.mcp.json; touch made; while [ ! -e go ]; do sleep 0.05; done"
            )
            await until((player.workspace / "made").exists)
            call = Call("call-2", "get_background_output", {}, services=services, workspace=player.workspace)
            found = await plugin.get_background_output(task.id, call=call)
            (player.workspace / "go").touch()
        return found

    found = anyio.run(main)
    assert found["status"] == TaskStatus.RUNNING.value
    assert found["removed"] == [".mcp.json"]
    assert not (player.workspace / ".mcp.json").exists()


def test_permission_of_one_command_is_none_for_another(player: Player) -> None:
    """While a command without permission runs, nobody knows who made a control file: it is moved away, and the result
    of the one with permission says why. When it runs alone, what it makes stays."""
    results: list[dict[str, Any]] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(player.play, "touch begun; while [ ! -e go ]; do sleep 0.05; done")
            await until((player.workspace / "begun").exists)
            results.append(await player.play("mkdir .claude", control=True))
            (player.workspace / "go").touch()
        results.append(await player.play("mkdir .claude", control=True))
        results.append(await player.play("rmdir .claude; mkdir .cursor"))

    anyio.run(main)
    assert results[0]["removed"] == [".claude"]
    assert "at once" in results[0]["note"]
    assert "removed" not in results[1]
    assert results[2]["removed"] == [".cursor"]
    assert (player.workspace / ".claude").is_dir()


def test_a_permitted_change_of_a_file_tool_stays(player: Player, tmp_path: Path) -> None:
    """What a file tool writes with permission stays while a command runs; what the command does to it does not."""
    roots = Roots(player.workspace, control_change=player.host.sandbox.control_guard.change)
    changes = Changes(roots, Backups(player.workspace, max_count=0))
    results: list[dict[str, Any]] = []

    def write(path: str, content: bytes) -> None:
        changes.make_parents(path)
        with changes.target(path) as target:
            call = Call("call-3", "writeNewFile", {}, workspace=player.workspace)
            changes.commit([Change(target, "writeNewFile", changes.see(target), content)], call)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            line = "touch begun; while [ ! -e evil ]; do sleep 0.05; done; echo x >.claude/hooks.json; touch done; "
            line += "while [ ! -e go ]; do sleep 0.05; done; echo evil >.claude/settings.json"
            group.start_soon(player.play, line)
            await until((player.workspace / "begun").exists)
            write(".claude/settings.json", b"good")
            results.append(await player.play("true"))
            assert (player.workspace / ".claude/settings.json").read_bytes() == b"good"
            (player.workspace / "evil").touch()
            await until((player.workspace / "done").exists)
            results.append(await player.play("true"))
            assert sorted(os.listdir(player.workspace / ".claude")) == ["settings.json"]
            (player.workspace / "go").touch()

    anyio.run(main)
    assert "removed" not in results[0]
    assert results[1]["removed"] == [".claude/hooks.json"]
    assert not (player.workspace / ".claude/settings.json").exists()


def test_a_repository_that_the_user_makes_meanwhile_is_left_alone(player: Player) -> None:
    """A nested repository that appears outside the sandbox is protected from the next command, and is not removed."""
    results: list[dict[str, Any]] = []

    async def main() -> None:
        results.append(await player.play("git init -q made"))
        await anyio.sleep(0.3)
        subprocess.run(["git", "init", "-q", "given"], cwd=player.workspace, check=True)
        await anyio.sleep(2)
        results.append(await player.play("rm -rf made; git -C given config a.b c"))

    anyio.run(main)
    assert "removed" not in results[0]
    assert results[1]["exit_code"] != 0
    assert "a.b" not in (player.workspace / "given/.git/config").read_text()
    assert not (player.workspace / "made").exists()


def test_more_hard_links_than_can_be_searched_stop_the_command(
    player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the other names of a control file cannot be found, no command starts that could write to them."""
    os.link(player.workspace / ".git/config", player.workspace / "other")
    monkeypatch.setattr("jaato.tools.processes.sandbox.protected_paths.MAX_ENTRIES", 3)
    with pytest.raises(Exception, match="several hard links"):
        anyio.run(player.play, "echo evil >>other")
