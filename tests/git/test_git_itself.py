"""Which git is run, as whom, for how long, and how the tools are found."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from tests.git.desk import started
from tests.git.traps import CALLS, trapped

from jaato.errors import ToolError, ToolTimeout
from jaato.tools.processes.git import git_environment, git_program, run_git
from jaato.tools.processes.sandbox.sandbox import ReadOnlyRunner


def test_another_user_s_repository_is_explained(tmp_path: Path) -> None:
    """git's own distrust stands, with the command by which the user can lift it."""
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    desk = started(tmp_path)
    desk.commit("first")
    for path in (desk.work, desk.work / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(ToolError, match=r"safe\.directory"):
        desk.ask("git_status")


def test_git_is_never_one_from_the_workspace(tmp_path: Path) -> None:
    """A program called git in reach of the session is passed over, and so is a relative PATH."""
    desk = started(tmp_path)
    fake = desk.work / "git"
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    path = f"{desk.work}:.:{os.defpath}"
    assert git_program({"PATH": path}, [desk.work]) == git_program({"PATH": os.defpath})
    assert git_program({"PATH": str(desk.work)}, [desk.work]) is None
    desk.environ["PATH"] = str(desk.work)
    desk.open()
    with pytest.raises(ToolError, match="not installed"):
        desk.ask("git_status")


def test_a_git_that_cannot_be_told_what_not_to_run_is_not_used(tmp_path: Path) -> None:
    """One that does not know settings from the environment, as before 2.31, answers nothing, and runs nothing."""
    desk = started(tmp_path)
    sprung = trapped(desk)
    old = tmp_path / "old" / "git"
    old.parent.mkdir()
    old.write_text(f'#!/bin/sh\nunset GIT_CONFIG_COUNT\nexec {git_program(desk.environ)} "$@"\n')
    old.chmod(0o755)
    desk.environ["PATH"] = f"{old.parent}:{os.defpath}"
    desk.open()
    for name, arguments in CALLS:
        with pytest.raises(ToolError, match=r"2\.31"):
            desk.ask(name, **arguments)
    assert not sprung.exists()


def test_variables_that_lead_elsewhere_are_dropped(tmp_path: Path) -> None:
    """`GIT_DIR` and its like in the environment of the daemon do not decide what is read."""
    desk = started(tmp_path)
    desk.commit("here")
    desk.environ |= {
        "GIT_DIR": "/nowhere",
        "GIT_EXTERNAL_DIFF": "/bin/false",
        "GIT_TRACE": str(tmp_path / "trace"),
    }
    desk.open()
    assert desk.ask("git_log")["commits"][0]["subject"] == "here"
    assert not (tmp_path / "trace").exists()


def test_a_git_that_hangs_is_ended(tmp_path: Path) -> None:
    """When the time is over, or the call is cancelled, git is gone."""
    desk = started(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    desk.git("config", "include.path", str(tmp_path / "unused"))
    program = git_program(desk.environ)
    assert program is not None
    os.rename(tmp_path / "fifo", tmp_path / "unused")
    told = git_environment(desk.environ)

    async def slow(within_s: float) -> None:
        await run_git(
            program,
            ["status"],
            ReadOnlyRunner(),
            cwd=desk.work,
            environ=told,
            most_bytes=100,
            within_s=within_s,
        )

    with pytest.raises(ToolTimeout, match="Narrow it"):
        anyio.run(slow, 0.2)

    async def cancelled() -> bool:
        with anyio.move_on_after(0.2) as scope:
            await slow(60)
        return scope.cancelled_caught

    assert anyio.run(cancelled)
    assert not [entry for entry in Path("/proc").iterdir() if works_in(entry, desk.work)]


def works_in(entry: Path, place: Path) -> bool:
    """Whether a process has this directory as its own."""
    try:
        return entry.name.isdigit() and os.readlink(entry / "cwd") == str(place)
    except OSError:
        return False


def test_the_tools_read_and_are_found_by_need(tmp_path: Path) -> None:
    """All of them only read, are discoverable, and are described in forty words."""
    desk = started(tmp_path)
    for tool in desk.tools.values():
        assert (tool.spec.access, tool.spec.category, tool.spec.discoverability) == (
            "read",
            "git",
            "discoverable",
        )
        assert 5 < len(tool.spec.description.split()) <= 40
    assert set(desk.tools) == {"git_status", "git_diff", "git_log", "git_blame", "git_show"}
