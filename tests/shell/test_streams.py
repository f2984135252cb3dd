"""Processes that go on, with pipes or a terminal as their streams."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.shell.running import SOURCES
from tests.shell.test_edges import carrying

from jaato import settings
from jaato.tools.processes.command import Command, CommandLimits, Ended
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.streams import Streams, open_pipes, open_pty, resize

ENVIRONMENT = {"PATH": settings.environment()["PATH"]}


BASH = ["bash", "--norc", "-c", "PS1='ready> ' exec bash --norc --noediting -i"]


async def started(mark: str) -> None:
    """Until a process has this in its command line."""
    with anyio.fail_after(60):
        while not carrying(mark):
            await anyio.sleep(0.01)


AHEAD: dict[int, bytes] = {}
"""What was read after the text that was waited for, by descriptor."""


async def read_until(fd: int, wanted: bytes) -> bytes:
    """What comes, up to the text that is waited for; what comes with it is kept for the next time."""
    got = AHEAD.pop(fd, b"")
    with anyio.fail_after(60):
        while wanted not in got:
            await anyio.wait_readable(fd)
            got += os.read(fd, 65536)
    end = got.index(wanted) + len(wanted)
    AHEAD[fd] = got[end:]
    return got[:end]


def run(
    argv: list[str],
    cwd: Path,
    streams: Streams,
    talk: Callable[[Streams, Command], object],
    *,
    shown: list[str] | None = None,
    limits: CommandLimits | None = None,
    over: anyio.Event | None = None,
) -> Ended:
    """The process, while `talk` has a word with it, and then stopped."""
    ended: list[Ended] = []

    async def main() -> None:
        launcher = WardenClient()
        command = Command(
            argv,
            cwd,
            ENVIRONMENT,
            limits=limits or CommandLimits(),
            show=(shown if shown is not None else []).append,
            streams=streams.theirs,
        )
        try:
            async with anyio.create_task_group() as tasks:

                async def work() -> None:
                    ended.append(await command.run(launcher))
                    if over is not None:
                        over.set()

                tasks.start_soon(work)
                await talk(streams, command)  # type: ignore[misc]
                command.stop()
        finally:
            AHEAD.clear()
            streams.close()
            await anyio.to_thread.run_sync(launcher.close)

    anyio.run(main)
    return ended[0]


def test_pipes_carry_both_ways(tmp_path: Path) -> None:
    """What is written to the input is read by the process, what it prints comes back, its errors are shown."""
    shown: list[str] = []
    over = anyio.Event()

    async def talk(streams: Streams, command: Command) -> None:
        for word in (b"one\n", b"two\n"):
            os.write(streams.input_fd, word)
            assert await read_until(streams.output_fd, word) == word
        streams.close_theirs()
        streams.close_input()
        await anyio.wait_readable(streams.output_fd)
        assert os.read(streams.output_fd, 10) == b""
        await over.wait()

    ended = run(["sh", "-c", "echo no >&2; exec cat"], tmp_path, open_pipes(), talk, shown=shown, over=over)
    assert (ended.code, "".join(shown), ended.head) == (0, "no\n", b"no\n")


def test_errors_without_end_are_kept_by_their_ends_and_end_nothing(tmp_path: Path) -> None:
    """A process that goes on may print errors for ever: no file, no cap, a bounded memory."""
    limits = CommandLimits(bound_bytes=1000, cap_bytes=2000)
    script = "head -c 5000000 /dev/zero >&2; echo end >&2; echo done; cat"

    async def talk(streams: Streams, command: Command) -> None:
        await read_until(streams.output_fd, b"done")

    ended = run(["sh", "-c", script], tmp_path, open_pipes(), talk, limits=limits)
    assert ended.total == 5000004
    assert ended.tail.endswith(b"end\n")
    assert len(ended.head) + len(ended.tail) <= 1000
    assert ended.spool is None


def test_a_terminal_is_one(tmp_path: Path) -> None:
    """The process is a session on a terminal of the given size, which it finds as /dev/tty and which can be resized."""

    mark = f"4141{os.getpid()}"

    async def talk(streams: Streams, command: Command) -> None:
        fd = streams.output_fd
        await read_until(fd, b"ready> ")
        os.write(fd, b"tty; stty size; echo to-$((40+2)) > /dev/tty\n")
        assert b"/dev/pts/" in (seen := await read_until(fd, b"to-42\r\n"))
        assert b"30 100\r\n" in seen
        await read_until(fd, b"ready> ")
        resize(fd, 50, 132)
        os.write(fd, b"stty size\n")
        await read_until(fd, b"50 132\r\n")
        await read_until(fd, b"ready> ")
        os.write(fd, f"sleep {mark}\n".encode())
        await started(mark)
        os.write(fd, b"\x03")
        await read_until(fd, b"ready> ")
        os.write(fd, b"echo still-$((40+2))\n")
        await read_until(fd, b"still-42\r\n")

    ended = run(BASH, tmp_path, open_pty(30, 100), talk)
    assert ended.reason == "stopped"
    assert not carrying(mark)


def test_nothing_is_left_of_a_process_on_a_terminal(tmp_path: Path) -> None:
    """What it started in the background and in sessions of its own ends with it."""
    mark = f"4242{os.getpid()}"

    async def talk(streams: Streams, command: Command) -> None:
        await read_until(streams.output_fd, b"ready> ")
        os.write(streams.input_fd, f"setsid sleep {mark} & nohup sleep {mark} &\n".encode())
        await started(mark)

    run(BASH, tmp_path, open_pty(24, 80), talk)
    assert not carrying(mark)


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """The reason is told as for any command, and no descriptor stays open."""
    before = len(os.listdir("/dev/fd"))

    async def main() -> Ended:
        streams, launcher = open_pipes(), WardenClient()
        try:
            command = Command(
                ["/no/such"],
                tmp_path,
                ENVIRONMENT,
                limits=CommandLimits(),
                show=print,
                streams=streams.theirs,
            )
            return await command.run(launcher)
        finally:
            streams.close()
            launcher.close()

    assert anyio.run(main).stuck == ["run", "No such file or directory"]
    assert len(os.listdir("/dev/fd")) <= before  # one of an earlier test may have been closed


LONG = """
import sys
from pathlib import Path
import anyio
from jaato.tools.processes.command import Command, CommandLimits
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.streams import open_pty, open_pipes

async def main():
    streams = open_pty(24, 80) if sys.argv[1] == "terminal" else open_pipes()
    command = Command(["sh", "-c", f"trap '' HUP TERM; echo up; while :; do sleep {sys.argv[2]}; done"], Path("/"),
        {"PATH": "/usr/bin:/bin"}, limits=CommandLimits(), show=print, streams=streams.theirs)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(command.run, WardenClient())
        await anyio.wait_readable(streams.output_fd)
        print("up", flush=True)

anyio.run(main)
"""


@pytest.mark.parametrize("kind", ["pipes", "terminal"])
def test_a_killed_jaato_takes_its_processes_with_it(kind: str) -> None:
    """SIGKILL for jaato: the process and what it started are gone within moments, though they ignore signals."""
    mark = f"4343{os.getpid()}"
    program = subprocess.Popen(
        [sys.executable, "-c", LONG, kind, mark],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": SOURCES, "PATH": settings.environment()["PATH"]},
    )
    assert program.stdout is not None
    with program:
        assert program.stdout.readline() == b"up\n"
        program.send_signal(signal.SIGKILL)
    end = time.monotonic() + 60
    while carrying(mark) and time.monotonic() < end:
        time.sleep(0.02)
    assert not carrying(mark)
