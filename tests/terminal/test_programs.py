"""Programs at terminals: what they show, when they wait for input, how they end."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import anyio
import pytest
from tests.shell.test_edges import carrying
from tests.terminal.desk import Desk, at_desk

from jaato.errors import InvalidArguments, ToolError
from jaato.plugins.terminal import program
from jaato.protocol.specs import SandboxAccess

C1 = pytest.mark.spec("C1", "Tool names")
BASH = "PS1='$ ' exec bash --norc --noprofile -i"
SIZES = (
    "import os, signal as s; s.signal(s.SIGWINCH, lambda *_: print(*os.get_terminal_size()));"
    "print(*range(5), sep=chr(10)); input()"
)
PYTHON = f"{sys.executable} -q -E -s"


@pytest.fixture(params=[None, "workspace-write"], ids=["plain", "sandbox"], autouse=True)
def _access(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is so in the sandbox, too."""
    monkeypatch.setattr(Desk, "access", SandboxAccess(request.param) if request.param else None)


def needs(program: str) -> pytest.MarkDecorator:
    """Only where a program is installed."""
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"there is no {program} here")


@C1
def test_a_shell_is_talked_to(tmp_path: Path) -> None:
    """Each input brings what changed since the last, the state and the cursor; the end brings the exit code."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn(BASH)
        assert (begun["state"], begun["screen"], begun["cursor"]) == (
            "awaiting_input",
            "$",
            {"row": 1, "column": 3},
        )
        said = await desk.type(begun["session_id"], "echo $((40+2)); pwd")
        assert said["screen"] == f"$ echo $((40+2)); pwd\n42\n{tmp_path}\n$"
        assert said["cursor"]["row"] == 4
        ended = await desk.type(begun["session_id"], "exit 3")
        assert (ended["state"], ended["exit_code"], "cursor" in ended) == ("ended", 3, False)
        assert (await desk.read(begun["session_id"], whole=True))["screen"].startswith("$ echo")
        with pytest.raises(ToolError, match="has ended"):
            await desk.type(begun["session_id"], "more")

    at_desk(tmp_path, work)


@pytest.mark.slow
def test_a_debugger_and_a_repl_are_talked_to(tmp_path: Path) -> None:
    """Prompts of Python and pdb count as waiting, a computation and a sleep do not."""
    (tmp_path / "sum.py").write_text("total = 0\nfor n in range(3):\n    total += n\nprint(total)\n")

    async def work(desk: Desk) -> None:
        begun = await desk.spawn(f"{sys.executable} -m pdb sum.py")
        assert begun["screen"].endswith("-> total = 0\n(Pdb)")
        assert "-> for n in range(3):" in (await desk.type(begun["session_id"], "next"))["screen"]
        assert (await desk.type(begun["session_id"], "p total"))["screen"] == "(Pdb) p total\n0\n(Pdb)"
        repl = await desk.spawn(PYTHON)
        assert (repl["state"], repl["screen"]) == ("awaiting_input", ">>>")
        slept = await desk.type(repl["session_id"], "import time; time.sleep(60)", wait_s=0.8)
        assert slept["state"] == "running"
        broken = await desk.control(repl["session_id"], "interrupt", wait_s=60)
        assert broken["state"] == "awaiting_input"
        assert "KeyboardInterrupt" in broken["screen"]
        assert (await desk.type(repl["session_id"], "while True: pass\n", wait_s=0.8))["state"] == "running"
        assert (await desk.control(repl["session_id"], "interrupt", wait_s=60))["state"] == "awaiting_input"
        asked = await desk.type(repl["session_id"], "input('name? ')")
        assert asked["screen"].endswith("name?")
        assert (await desk.type(repl["session_id"], "Ada"))["screen"] == "name? Ada\n'Ada'\n>>>"

    at_desk(tmp_path, work)


@needs("gdb")
def test_gdb_waits_and_its_program_does_not(tmp_path: Path) -> None:
    """The prompt of gdb is waited for, and a sleeping program under it is running."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("gdb -q -nx --args sleep 61", wait_s=60)
        assert begun["state"] == "awaiting_input"
        assert begun["screen"].endswith("(gdb)")
        assert (await desk.type(begun["session_id"], "print 6*7"))["screen"].splitlines()[1] == "$1 = 42"

    at_desk(tmp_path, work)


@pytest.mark.parametrize(
    "command",
    [
        "read -r line; echo got $line",
        "cat > out.txt",
        f"{sys.executable} -c 'input()'",
        f"{sys.executable} -c 'import sys,select; select.select([0],[],[]); print(sys.stdin.readline())'",
        f"{sys.executable} -c 'import select; p=select.poll(); p.register(0, 1); p.poll()'",
        f"{sys.executable} -c 'import select; p=select.epoll(); p.register(0,1); p.poll()'",
        f"{sys.executable} -c 'import asyncio as a; l=a.new_event_loop(); l.add_reader(0, l.stop); l.run_forever()'",
        f"{sys.executable} -c 'import threading,sys; t=threading.Thread(target=input); t.start(); t.join()'",
        "exec 3</dev/tty; read -r -u 3 line",
        "cat | tr a-z A-Z",
        "select x in one two; do break; done",
    ],
)  # fmt: skip
def test_a_program_that_waits_is_seen_to(tmp_path: Path, command: str) -> None:
    """However it waits for the terminal: in a thread, behind a pipe or among other descriptors."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn(command, wait_s=60)
        assert begun["state"] == "awaiting_input"
        assert "secret" not in begun

    at_desk(tmp_path, work)


@pytest.mark.parametrize(
    "command",
    [
        "sleep 62",
        "printf 'Password: '; sleep 62",
        "exec </dev/null; sleep 62",
        "sleep 62 | cat",
        "sleep 62 & wait",
        "while :; do :; done",
        "while sleep 0.05; do echo tick; done",
        f"{sys.executable} -c 'import socket; a,b=socket.socketpair(); a.recv(1)'",
        "mkfifo pipe; cat pipe",
        "stty -echo; sleep 62",
    ],
)
def test_what_works_or_sleeps_is_not_waiting(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence, a text like a prompt, or a pipe that is waited for make no prompt."""
    monkeypatch.setattr(program, "GUESS_S", 0.5)

    async def work(desk: Desk) -> None:
        assert (await desk.spawn(command, wait_s=1.1))["state"] == "running"

    at_desk(tmp_path, work)


def test_a_password_is_seen_to_be_one_and_never_shown(tmp_path: Path) -> None:
    """Echo off while lines are read means secret; what is typed then is hidden even if the program prints it."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("read -r -s -p 'Password: ' word; echo; echo it was $word; read -r x")
        assert (begun["state"], begun["secret"], begun["screen"]) == ("awaiting_input", True, "Password:")
        said = await desk.type(begun["session_id"], "hunter2hunter2")
        assert said["screen"].endswith("it was [secret]")
        assert "hunter2" not in str(said) + str(await desk.list())
        assert "secret" not in said

    at_desk(tmp_path, work)


def test_a_secret_of_the_environment_is_typed_unseen(tmp_path: Path) -> None:
    """`secret_env` types a value that neither the model nor the log has seen; jaato's own keys cannot be had."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("read -r -s word; test $word = open-sesame && echo right: $word; read -r x")
        said = await desk.type(begun["session_id"], secret_env="DOOR")
        assert said["screen"].splitlines()[-1] == "right: [secret]"
        for name in ("OPENAI_API_KEY", "NOT_THERE"):
            with pytest.raises(ToolError, match="no environment variable"):
                await desk.type(begun["session_id"], secret_env=name)
        with pytest.raises(InvalidArguments):
            await desk.type(begun["session_id"], "x", secret_env="DOOR")

    at_desk(tmp_path, work, environ={"DOOR": "open-sesame", "OPENAI_API_KEY": "sk-1234567"})


@needs("vim")
def test_a_full_screen_program_is_seen_whole(tmp_path: Path) -> None:
    """vim is shown as it stands, obeys keys, and leaves the screen as it was."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn(BASH)
        edited = await desk.type(begun["session_id"], "vim -u NONE -N note.txt", wait_s=60)
        assert (edited["state"], edited["full_screen"]) == ("awaiting_input", True)
        assert edited["screen"].count("~") >= 20
        await desk.type(begun["session_id"], "ihéllo\n漢字 wide", keys=["escape"])
        moved = await desk.type(begun["session_id"], keys=["up", "home"])
        assert moved["screen"].startswith("héllo\n漢字 wide\n~")
        assert moved["cursor"] == {"row": 1, "column": 1}
        left = await desk.type(begun["session_id"], ":wq")
        assert left["screen"] == "$"
        assert (await desk.read(begun["session_id"], whole=True))["screen"] == "$ vim -u NONE -N note.txt\n$"
        assert (tmp_path / "note.txt").read_text() == "héllo\n漢字 wide\n"

    at_desk(tmp_path, work)


@needs("less")
def test_a_pager_is_paged(tmp_path: Path) -> None:
    """less shows its first screen, the next on a key, and ends on q."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("seq 1000 | less", rows=10)
        assert begun["screen"].splitlines() == [*map(str, range(1, 10)), ":"]
        assert (await desk.type(begun["session_id"], keys=["space"]))["screen"].startswith("10\n")
        assert (await desk.type(begun["session_id"], "q", enter=False))["state"] == "ended"

    at_desk(tmp_path, work)


def test_the_size_can_be_changed(tmp_path: Path) -> None:
    """Programs are told of a new size, and what does not fit is kept in the history."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn(f"{sys.executable} -c '{SIZES}'", rows=8, columns=40)
        seen = await desk.control(begun["session_id"], "resize", rows=50, columns=120)
        assert (
            "120 50" in (await desk.until(begun["session_id"], lambda v: "120 50" in v["screen"]))["screen"]
        )
        assert seen["state"] == "awaiting_input"
        small = await desk.control(begun["session_id"], "resize", rows=3)
        assert small["cursor"]["row"] <= 3

    at_desk(tmp_path, work)


def test_the_end_of_input_and_signals(tmp_path: Path) -> None:
    """`eof` ends what reads; signals reach the foreground; what was suspended gives the shell back."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("cat > kept.txt")
        await desk.type(begun["session_id"], "one line")
        ended = await desk.control(begun["session_id"], "eof", wait_s=60)
        assert (ended["state"], ended["exit_code"]) == ("ended", 0)
        assert (tmp_path / "kept.txt").read_text() == "one line\n"
        shell, mark = (await desk.spawn(BASH))["session_id"], f"63{os.getpid()}"
        assert (await desk.type(shell, f"sleep {mark}", wait_s=1))["state"] == "running"
        await desk.until_foreground("sleep", mark)
        assert "Stopped" in (await desk.control(shell, "suspend", wait_s=60))["screen"]
        assert (await desk.type(shell, "fg", wait_s=1))["state"] == "running"
        await desk.until_foreground("sleep", mark)
        assert "Killed" in (await desk.control(shell, "kill", wait_s=60))["screen"]
        assert (await desk.type(shell, "echo still-$((1+1))"))["screen"].splitlines()[-2] == "still-2"

    at_desk(tmp_path, work)


@pytest.mark.parametrize(
    "script",
    [
        "trap '' HUP TERM INT; while :; do sleep MARK; done",
        "setsid sleep MARK & setsid -f sleep MARK; read -r x",
        "(setsid nohup sh -c 'trap \"\" HUP TERM; sleep MARK' >/dev/null 2>&1 &) ; read -r x",
        "nohup sleep MARK & disown; exec sleep MARK",
    ],
)
def test_nothing_outlives_its_close(tmp_path: Path, script: str) -> None:
    """Who ignores hang-ups, or hides in a session of its own, ends too."""
    mark = f"4444{os.getpid()}"

    async def work(desk: Desk) -> None:
        begun = await desk.spawn(script.replace("MARK", mark), wait_s=1)
        with anyio.fail_after(60):
            while not carrying(mark):
                await anyio.sleep(0.02)
        assert (await desk.close(begun["session_id"]))["state"] == "ended"
        assert not carrying(mark)
        assert await desk.list() == []

    at_desk(tmp_path, work)
