"""Terminals at the corners: the first moment, the edge of the screen, sessions left, pastes, odd characters."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import anyio
import psutil
import pytest
from tests.shell.test_crash import carrying
from tests.terminal.desk import Desk, at_desk

from jaato.errors import InvalidArguments
from jaato.plugins.terminal.terminals import mask_typed

EDITOR = """
import sys, termios
before = termios.tcgetattr(0)
mode = termios.tcgetattr(0)
mode[3] &= ~(termios.ECHO | termios.ICANON)  # tty.setcbreak has changed another flag in Python 3.12.0 and 3.12.1
termios.tcsetattr(0, termios.TCSAFLUSH, mode)
sys.stdout.write("\\x1b[?2004h> "); sys.stdout.flush()
data = ""
while not data.endswith("q"):
    data += sys.stdin.read(1)
termios.tcsetattr(0, termios.TCSANOW, before)
print(repr(data))
"""
"""A line editor that takes pastes, as those that indent each line do; it ends on q."""


def test_a_signal_in_the_first_moment_reaches_the_program_and_not_jaato(tmp_path: Path) -> None:
    """A terminal that nothing has at its foreground yet names group 0, which for `kill` is the caller's own."""
    heard: list[int] = []
    before = signal.signal(signal.SIGCONT, lambda number, _frame: heard.append(number))

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("sleep 60", wait_s=0)
        await desk.control(begun["session_id"], "continue", wait_s=0)
        assert heard == []
        other = await desk.spawn("sleep 60", wait_s=0)
        ended = await desk.control(other["session_id"], "kill", wait_s=60)
        assert (ended["state"], ended["signal"]) == ("ended", "SIGKILL")

    try:
        at_desk(tmp_path, work)
    finally:
        signal.signal(signal.SIGCONT, before)


def test_a_secret_longer_than_a_line_is_hidden(tmp_path: Path) -> None:
    """Where the edge of the screen breaks it, no part of it is shown."""
    secret = "ghp_" + "abcDEF123" * 12

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("cat")
        said = await desk.type(begun["session_id"], secret_env="TOKEN")
        assert said["screen"] == "[secret]\n[secret]"
        begun = await desk.spawn("read -s -p 'Password: ' p; echo; echo got $p")
        said = await desk.type(begun["session_id"], "correct horse " * 20)
        assert "horse" not in said["screen"]

    at_desk(tmp_path, work, environ={"TOKEN": secret})


@pytest.mark.parametrize(
    ("text", "secrets", "shown"),
    [
        ("a hunter\n22 b", {"hunter22"}, "a [secret] b"),
        ("one\ntwo", {"one two"}, "[secret]"),
        ("    x", {"    "}, "[secret]x"),
        ("xhunterhunter22", {"hunter", "hunter22"}, "x[secret][secret]"),
        ("abab", {"abc"}, "abab"),
        ("", {"abcd"}, ""),
    ],
)
def test_what_is_hidden(text: str, secrets: set[str], shown: str) -> None:
    """The longest secrets first; line ends and blanks between their characters hide nothing of them."""
    assert mask_typed(text, secrets) == shown


def test_a_whole_character_is_taken_back(tmp_path: Path) -> None:
    """Backspace at a line takes a character of several bytes back whole."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("cat")
        await desk.type(begun["session_id"], "aéü", keys=["backspace", "backspace"])
        assert (await desk.type(begun["session_id"], "b"))["screen"] == "ab\nab"

    at_desk(tmp_path, work)


def test_who_has_left_the_session_and_reads_is_waiting(tmp_path: Path) -> None:
    """What `su -c` and `setsid` start reads the terminal by a descriptor it kept: that is waiting, too."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("setsid -w bash -c 'read -p Name: x; echo hello $x; sleep 0.5'", wait_s=60)
        assert (begun["state"], begun["screen"]) == ("awaiting_input", "Name:")
        said = await desk.type(begun["session_id"], "Ada", wait_s=60)
        assert (said["state"], said["screen"]) == ("ended", "Name:Ada\nhello Ada")
        busy = await desk.spawn("setsid sleep 50 <&1 & while :; do :; done", wait_s=1)
        assert busy["state"] == "running"

    at_desk(tmp_path, work)


def test_a_signal_that_is_yet_to_be_handled_is_no_waiting(tmp_path: Path) -> None:
    """A program that a busy machine has not run since it was interrupted is about to do something."""
    mark = f"4848{os.getpid()}"

    async def work(desk: Desk) -> None:
        begun = await desk.spawn(f"exec {sys.executable} -c 'input()' {mark}", wait_s=60)
        assert begun["state"] == "awaiting_input"
        (pid,) = carrying(mark)
        os.kill(pid, signal.SIGSTOP)
        with anyio.fail_after(60):
            while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
                await anyio.sleep(0.01)
        said = await desk.control(begun["session_id"], "interrupt", wait_s=1)
        assert said["state"] == "running"
        os.kill(pid, signal.SIGCONT)
        said = await desk.read(begun["session_id"], wait_s=60)
        assert (said["state"], "KeyboardInterrupt" in said["screen"]) == ("ended", True)

    at_desk(tmp_path, work)


def test_several_lines_for_a_line_editor_are_a_paste(tmp_path: Path) -> None:
    """A program that indents what is typed gets several lines as they are; a shell gets them one by one."""
    (tmp_path / "editor.py").write_text(EDITOR)

    async def work(desk: Desk) -> None:
        begun = await desk.spawn(f"exec {sys.executable} editor.py", wait_s=60)
        said = await desk.type(begun["session_id"], "a\nbq", enter=False, wait_s=60)
        assert said["screen"].endswith(repr("\x1b[200~a\nbq"))
        begun = await desk.spawn(f"exec {sys.executable} editor.py", wait_s=60)
        said = await desk.type(begun["session_id"], "abq", enter=False, wait_s=60)
        assert said["screen"].endswith(repr("abq"))
        shell = await desk.spawn("PS1='$ ' exec bash --norc --noprofile -i")
        said = await desk.type(shell["session_id"], "echo 1\necho 2")
        assert said["screen"] == "$ echo 1\n1\n$ echo 2\n2\n$"

    at_desk(tmp_path, work)


def test_a_function_is_typed_into_a_repl_that_indents(tmp_path: Path) -> None:
    """IPython gets a function of several lines whole."""
    beside = Path(sys.executable).with_name("ipython")
    program = str(beside) if beside.exists() else shutil.which("ipython")
    if program is None:
        pytest.skip("there is no ipython here")

    async def work(desk: Desk) -> None:
        begun = await desk.spawn(f"{program} --no-banner --colors=NoColor --no-confirm-exit", wait_s=60)
        code = "def f(x):\n    if x:\n        return 1\n    return 2\n\nf(0) + 40"
        said = await desk.type(begun["session_id"], code, wait_s=60)
        assert "Out[1]: 42" in said["screen"]

    at_desk(tmp_path, work)


def test_the_screen_left_in_a_flood_is_left(tmp_path: Path) -> None:
    """A full-screen program that ends amid more output than can be shown leaves the ordinary screen."""
    flood = "yes aaaaaaaa | head -c 4000000"

    async def work(desk: Desk) -> None:
        left = await desk.spawn(
            rf"printf '\e[?1049h'; {flood}; printf '\e[?1049l'; {flood}; echo; echo over; read x", wait_s=60
        )
        assert left["state"] == "awaiting_input"
        assert left["missed_bytes"] > 0
        assert left["screen"].endswith("over")
        assert "full_screen" not in left

    at_desk(tmp_path, work)


def test_characters_that_are_none(tmp_path: Path) -> None:
    """Half a surrogate pair is no command; a variable that is no UTF-8 is typed as it is; a long command is refused."""

    async def work(desk: Desk) -> None:
        for command in ("echo \ud800", "é" * 90_000):
            with pytest.raises(InvalidArguments):
                await desk.spawn(command)
        begun = await desk.spawn('IFS= read -r x; printf %s "$x" | od -An -tx1')
        said = await desk.type(begun["session_id"], secret_env="ODD", wait_s=60)
        assert said["screen"].splitlines()[-1].split() == ["61", "ff", "62", "63"]

    at_desk(tmp_path, work, environ={"ODD": os.fsdecode(b"a\xffbc")})
