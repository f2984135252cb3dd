"""Terminals in the sandbox: what a program there may do, what its results say, and that its keys end the program alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.hostile import ALL, Lair
from tests.terminal.desk import Desk, at_desk

from jaato.protocol.specs import SandboxAccess
from jaato.tools.permissions.access import ReachesFurther

READ_ONLY = SandboxAccess("read-only")
WORKSPACE = SandboxAccess("workspace-write")
FULL = SandboxAccess("full")
BASH = "PS1='$ ' exec bash --norc --noprofile -i"


@pytest.mark.parametrize(
    ("access", "harm"), [(READ_ONLY, set()), (WORKSPACE, {"planted"}), (FULL, ALL), (None, ALL)]
)
def test_a_program_does_what_its_profile_lets_it(
    tmp_path: Path, access: SandboxAccess | None, harm: set[str]
) -> None:
    """It writes in the workspace where it may, never outside; it reads no key and reaches no socket and no network."""
    with Lair(tmp_path) as lair:

        async def work(desk: Desk) -> None:
            desk.access = access
            done = await desk.spawn(lair.line, wait_s=60)
            assert (done["state"], done["exit_code"]) == ("ended", 0)
            assert "attacked" in done["screen"]
            assert done.get("sandbox") == (access.profile if access else None)

        at_desk(lair.work, work, environ=lair.environ)
        assert lair.harm == harm


def test_the_list_says_what_each_may_reach(tmp_path: Path) -> None:
    """With what was opened beyond the profile."""

    async def work(desk: Desk) -> None:
        desk.access = SandboxAccess("workspace-write", paths=(str(tmp_path.parent),))
        await desk.spawn("sleep 60", wait_s=0)
        desk.access = READ_ONLY
        await desk.spawn("sleep 61", wait_s=0)
        said = [one["sandbox"] for one in await desk.list()]
        assert said == [f"workspace-write with the directories {tmp_path.parent}", "read-only"]

    at_desk(tmp_path, work)


def test_nothing_is_typed_at_what_reaches_further_than_the_call(tmp_path: Path) -> None:
    """What is typed at a shell is a command: it must not run with more than it was allowed."""

    async def work(desk: Desk) -> None:
        desk.access = WORKSPACE
        shell = (await desk.spawn(BASH))["session_id"]
        desk.access = READ_ONLY
        with pytest.raises(
            ReachesFurther, match=r"runs with workspace-write, and this call is allowed read-only only"
        ):
            await desk.type(shell, "touch planted")
        assert not (tmp_path / "planted").exists()
        assert (await desk.read(shell))["state"] == "awaiting_input"
        for access in (WORKSPACE, FULL, None):
            desk.access = access
            assert (await desk.type(shell, "touch planted"))["state"] == "awaiting_input"
        assert (tmp_path / "planted").exists()

    at_desk(tmp_path, work)


def test_keys_end_and_stop_the_program_alone(tmp_path: Path) -> None:
    """Ctrl-C ends what runs in the foreground, Ctrl-Z stops it and `fg` brings it back; the shell and the sandbox around
    it stay."""

    async def work(desk: Desk) -> None:
        desk.access = READ_ONLY
        shell = (await desk.spawn(BASH))["session_id"]
        marks = f"71{os.getpid()}", f"72{os.getpid()}"
        assert (await desk.type(shell, f"sleep {marks[0]}", wait_s=0.5))["state"] == "running"
        await desk.until_foreground("sleep", marks[0])
        assert (await desk.type(shell, keys=["ctrl-c"]))["state"] == "awaiting_input"
        await desk.type(shell, f"sleep {marks[1]}", wait_s=0.5)
        await desk.until_foreground("sleep", marks[1])
        assert "Stopped" in (await desk.type(shell, keys=["ctrl-z"]))["screen"]
        assert (await desk.type(shell, "fg", wait_s=0.5))["state"] == "running"
        await desk.until_foreground("sleep", marks[1])
        await desk.type(shell, keys=["ctrl-c"])
        assert "130" in (await desk.type(shell, "echo $?"))["screen"]

    at_desk(tmp_path, work)


def test_a_program_hears_the_hangup_and_has_its_time(tmp_path: Path) -> None:
    """Closing hangs up on the program in the sandbox, which may put things in order."""

    async def work(desk: Desk) -> None:
        desk.access = WORKSPACE
        begun = await desk.spawn("trap 'echo bye > bye; exit' HUP TERM; while :; do read -r x; done")
        await desk.close(begun["session_id"])
        assert (tmp_path / "bye").read_text() == "bye\n"

    at_desk(tmp_path, work)
