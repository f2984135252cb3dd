"""Terminals and what is around them: sessions, a killed jaato, floods, users without rights, the gate."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from tests.kit import call, say, session
from tests.shell.running import SOURCES
from tests.shell.test_edges import carrying
from tests.terminal.desk import PATHS, Desk, at_desk

from jaato.plugins.terminal.program import MOST_WAITING_BYTES
from jaato.protocol.messages import ToolResult
from jaato.tools.permissions.gate import Policy

TESTS = str(Path(__file__).parents[2])


def results(live: object) -> list[ToolResult]:
    """The results of the conversation."""
    messages = live.state.messages  # type: ignore[attr-defined]
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


@pytest.mark.spec("S1", "Executor metadata tuple")
def test_a_session_takes_its_terminals_with_it(tmp_path: Path) -> None:
    """What the model started at a terminal ends when its session closes, though the runtime goes on."""
    mark = f"4545{os.getpid()}"
    line = f"setsid sleep {mark} & trap '' HUP TERM; echo up; read -r x; sleep {mark}"
    script = [
        call("shell_spawn", command=line, wait_s=60),
        say("It runs."),
    ]

    async def main() -> None:
        async with session(tmp_path, script, plugins=("introspection", "terminal")) as live:
            live.activate(["shell_spawn"])
            await live.post("start it")
            value = results(live)[0].structured
            assert value is not None
            assert (value["state"], value["screen"]) == ("awaiting_input", "up")
            assert value["continuation_id"] == value["session_id"]
            assert carrying(mark)
            await live.__aexit__(None, None, None)
            assert not carrying(mark)

    anyio.run(main)


def test_typing_is_asked_about(tmp_path: Path) -> None:
    """With a grant for commands alone a model starts a program and types nothing."""
    policy = Policy.of({"whitelist": {"patterns": ["cat *", "git *"]}})
    script = [
        call("shell_spawn", command="cat"),
        call("shell_input", session_id="t-1", text="git x; rm y"),
        say("Not allowed."),
    ]

    async def main() -> None:
        async with session(tmp_path, script, plugins=("introspection", "terminal"), policy=policy) as live:
            live.activate(["shell_spawn", "shell_input"])
            await live.post("try")
            first, second = results(live)
            assert first.ok
            assert second.error is not None
            assert second.error.code == "permission_denied"

    anyio.run(main)


FLOODS = {
    "text": "yes 0123456789012345678901234567890123456789",
    "escapes": "yes $'\\e[2J\\e[999L\\e[9999;9999H\\e[6n'",
    "binary": "cat /dev/urandom",
    "one line": "tr '\\0' x < /dev/zero",
    "a title": "printf '\\e]0;'; tr '\\0' x < /dev/zero",
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_holds_nobody_up(tmp_path: Path, name: str) -> None:
    """Megabytes a second, for as long as they come: the caller's loop turns, memory is bounded, the program is never
    stuck, and one that shares the plugin answers."""

    async def work(desk: Desk) -> None:
        flood = await desk.spawn(f"stty -echo; {FLOODS[name]}", wait_s=0)
        gaps: list[float] = []
        for _ in range(50):
            now = time.monotonic()
            await anyio.sleep(0.001)
            gaps.append(time.monotonic() - now)
        gaps.sort()
        assert gaps[len(gaps) // 2] < 0.1
        with anyio.fail_after(60):  # a busy machine floods more slowly
            missed = 0
            while missed <= MOST_WAITING_BYTES:
                seen = await desk.read(flood["session_id"])
                assert seen["state"] == "running"
                missed += seen.get("missed_bytes", 0)
                await anyio.sleep(0.05)
        assert len(seen["screen"]) <= 40_000
        other = await desk.spawn("read -r x", wait_s=60)
        assert other["state"] == "awaiting_input"
        ended = await desk.control(flood["session_id"], "interrupt", wait_s=60)
        with anyio.fail_after(60):  # where the flood pauses, its session is quiet
            while ended["state"] != "ended":
                ended = await desk.read(flood["session_id"], wait_s=5)
        end = ended["state"], ended.get("exit_code", ended.get("signal"))
        assert end in [("ended", 130), ("ended", "SIGINT")], ended

    at_desk(tmp_path, work)


LONG = """
import sys, os
from pathlib import Path
import anyio
from tests.terminal.desk import Desk

async def main():
    desk = Desk(Path(sys.argv[1]))
    line = f"setsid sleep {sys.argv[2]} & trap '' HUP TERM; echo up; read -r x; sleep {sys.argv[2]}"
    await desk.spawn(line, wait_s=60)
    print("up", flush=True)
    await anyio.sleep_forever()

anyio.run(main)
"""


def test_a_killed_jaato_takes_its_terminals_with_it(tmp_path: Path) -> None:
    """SIGKILL for jaato: nothing that ran at a terminal is left."""
    mark = f"4646{os.getpid()}"
    program = subprocess.Popen(
        [sys.executable, "-c", LONG, str(tmp_path), mark],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": f"{SOURCES}:{TESTS}", **PATHS},
    )
    assert program.stdout is not None
    with program:
        assert program.stdout.readline() == b"up\n"
        assert carrying(mark)
        program.send_signal(signal.SIGKILL)
    end = time.monotonic() + 60
    while carrying(mark) and time.monotonic() < end:
        time.sleep(0.02)
    assert not carrying(mark)


DENIED = """
import sys
from pathlib import Path
import anyio
from tests.terminal.desk import Desk

HIDE = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); "

async def main():
    desk = Desk(Path(sys.argv[1]))
    for script, wait_s in (("input('Password: ')", 60), ("__import__('getpass').getpass()", 60), ("time.sleep(60)", 4),
                           ("print('Working', flush=True); time.sleep(60)", 4)):
        (Path(sys.argv[1]) / "it.py").write_text(HIDE + script)
        begun = await desk.spawn(f"exec {sys.executable} it.py", wait_s=wait_s)
        print(begun["state"], begun.get("secret", False), flush=True)
    await anyio.to_thread.run_sync(desk.plugin.shutdown)

anyio.run(main)
"""


def look_at_no_others() -> None:
    """Give up the right of root to look into any process (CAP_SYS_PTRACE)."""
    assert ctypes.CDLL(None).prctl(24, 19, 0, 0, 0) == 0


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="it is root that may look everywhere")
def test_a_prompt_is_guessed_where_nothing_is_told(tmp_path: Path) -> None:
    """A program that /proc says nothing of waits when it is still, sleeps, and has left a prompt or switched echo off."""
    done = subprocess.run(
        [sys.executable, "-c", DENIED, str(tmp_path)],
        env={"PYTHONPATH": f"{SOURCES}:{TESTS}", **PATHS},
        preexec_fn=look_at_no_others,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "awaiting_input False",
        "awaiting_input True",
        "running False",
        "running False",
    ]


def test_the_end_of_the_plugin_is_the_end_of_all(tmp_path: Path) -> None:
    """Shutdown ends programs that ignore it, at once and in any number; afterwards none can be started."""
    mark = f"4747{os.getpid()}"

    async def work(desk: Desk) -> None:
        for _ in range(5):
            await desk.spawn(f"trap '' HUP TERM; while :; do sleep {mark}; done", wait_s=0)
        with anyio.fail_after(60):
            while len(carrying(mark)) < 5:
                await anyio.sleep(0.02)

    at_desk(tmp_path, work)
    assert not carrying(mark)


def test_a_cancelled_call_leaves_the_program(tmp_path: Path) -> None:
    """Who stops waiting loses nothing: the program goes on and can be looked at."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("sleep 1; echo later; read -r x", wait_s=0)
        with anyio.move_on_after(0.2) as scope:
            await desk.read(begun["session_id"], wait_s=60)
        assert scope.cancelled_caught
        assert (await desk.read(begun["session_id"], wait_s=60))["screen"] == "later"

    at_desk(tmp_path, work)
