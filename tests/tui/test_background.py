"""Background tasks in the full-screen client: the call's row and the screen follow them after the call has returned."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.studio import Studio, call, calls, say, studio

from jaato.tui.transcript.blocks import SPINNER

pytestmark = pytest.mark.anyio
WORK = (
    "for n in 1 2 3; do echo line $n; until [ -e go$n ]; do sleep 0.05; done; done; seq 300; echo end; exit 3"
)


def find_row(one: Studio) -> str:
    """The line of the call."""
    return next((line for line in one.screen.splitlines() if "run for n in" in line), "")


async def test_the_row_of_a_call_runs_on_in_the_background(work: Path) -> None:
    """Spinner and newest output after the turn has ended, then how the task ended, its exit code and its whole duration."""
    async with studio(work, steps=[call("run", command=WORK, background=True), say("Meanwhile.")]) as one:
        await one.send("go")
        await one.see("Meanwhile.", "in background", "│ line 1")
        await one.rest()
        (work / "go1").touch()
        await one.see("│ line 2")
        row = find_row(one)
        assert any(mark in row for mark in SPINNER)
        await one.wait(lambda: find_row(one) != row)
        (work / "go2").touch()
        (work / "go3").touch()
        await one.see("✗ run for n in", "exit 3")
        assert "in background" not in one.screen


async def test_the_screen_of_background_tasks_follows_the_output(work: Path) -> None:
    """F5 on the marked call: state, duration, the newest output as it comes; the end stays visible, reading does not jump."""
    async with studio(work, steps=[call("run", command=WORK, background=True), say("Meanwhile.")]) as one:
        await one.send("go")
        await one.see("Meanwhile.", "│ line 1")
        await one.rest()
        await one.press("tab", "up")
        await one.see("F5 its output")
        await one.press("f5")
        await one.see("Background tasks", "running", " s  run", "run for n in")
        await one.wait(lambda: "line 1" in one.screen)
        (work / "go1").touch()
        await one.see("line 2")
        (work / "go2").touch()
        (work / "go3").touch()
        await one.see("completed, exit 3", " 300 ", " end ")
        assert "line 2" not in one.screen
        for _ in range(6):
            await one.press("pageup")
        top = one.screen
        await one.pilot.pause(1.2)
        assert [line for line in one.screen.splitlines() if "s  run" not in line] == [
            line for line in top.splitlines() if "s  run" not in line
        ]


async def test_a_background_task_is_stopped_by_a_key(work: Path) -> None:
    """Ctrl+D stops it; row and screen say so."""
    async with studio(work, steps=[call("run", command=WORK, background=True), say("Meanwhile.")]) as one:
        await one.send("go")
        await one.see("Meanwhile.")
        await one.rest()
        await one.press("f5")
        await one.see("running")
        await one.press("ctrl+d")
        await one.see("cancelled")
        await one.press("escape")
        await one.see("✗ run for n in")
        assert one.app.link.session.state.tasks == {}


async def test_a_task_that_runs_is_joined(work: Path) -> None:
    """A client that comes later shows the call as running, with what the task prints from then on, and its end."""
    async with studio(work, steps=[call("run", command=WORK, background=True), say("Meanwhile.")]) as one:
        await one.send("go")
        await one.see("Meanwhile.", "│ line 1")
        await one.rest()
        link = one.app.link
        await link.open_session(None, link.session.id)
        await one.see("in background")
        (work / "go1").touch()
        await one.see("│ line 2")
        for name in ("go2", "go3"):
            (work / name).touch()
        await one.see("exit 3", "✗ run for n in")


async def test_the_rows_of_background_tasks_are_their_calls(work: Path) -> None:
    """Many tasks are told apart by what they run, which the filter finds; an ended one keeps its call."""
    made = [
        ("run", {"command": f"until [ -e go{n} ]; do sleep 0.05; done", "background": True}) for n in range(9)
    ]
    async with studio(work, steps=[calls(*made), say("Meanwhile.")], size=(110, 30)) as one:
        await one.send("go")
        await one.see("Meanwhile.")
        await one.rest()
        await one.press("f5")
        await one.see(*(f"running  run until [ -e go{n}" for n in range(9)))
        (work / "go7").touch()
        await one.type("go7")
        await one.see("completed, exit 0  run until [ -e go7")
        assert "go6" not in one.screen
        for n in range(9):
            (work / f"go{n}").touch()
        await one.press("escape")
        await one.wait(lambda: one.app.link.session.state.tasks == {})
