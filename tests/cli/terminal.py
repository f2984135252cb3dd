"""A chat in a pseudo-terminal."""

from __future__ import annotations

import os
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pexpect
import ptyprocess  # type: ignore[import-untyped]
from tests.cli.environment import CliEnvironment
from tests.cli.warm import warm

WITHOUT_TOOLKIT = "import sys; sys.modules['prompt_toolkit'] = None; from jaato.cli import main; sys.exit(main(sys.argv[1:]))"
TIMEOUT_S = 60


class Held(ptyprocess.PtyProcess):  # type: ignore[misc]  # it has no types
    """The terminal of a process that another one has forked."""

    terminated: bool
    exitstatus: int | None
    signalstatus: int | None

    def __init__(self, process: Popen[bytes], fd: int) -> None:
        super().__init__(process.pid, fd)
        self._process = process

    def isalive(self) -> bool:
        """Whether it runs; once it has closed its terminal, it is about to end."""
        if not self.terminated:
            code = self._process.wait() if self.flag_eof else self._process.poll()
            self.terminated = code is not None
            if code is not None:
                self.status = code << 8 if code >= 0 else -code
                self.exitstatus, self.signalstatus = (code, None) if code >= 0 else (None, -code)
        return not self.terminated


class Talk(pexpect.spawn):  # type: ignore[misc]  # as above
    """`pexpect.spawn` of a `jaato` that need not be loaded first."""

    without: tuple[str, ...] = ()

    def _spawnpty(self, args: list[str], **more: Any) -> Held:
        ours, theirs = os.openpty()
        termios.tcsetwinsize(ours, more["dimensions"])
        try:
            process = warm().start(
                [os.fsdecode(arg) for arg in args[1:]],
                cwd=Path(more["cwd"]),
                env=more["env"],
                terminal=True,
                without=self.without,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
            )
        finally:
            os.close(theirs)
        return Held(process, ours)


class Bare(Talk):
    """One that has no prompt_toolkit."""

    without = ("prompt_toolkit",)


@contextmanager
def talking(
    desk: CliEnvironment,
    *args: str,
    term: str = "dumb",
    toolkit: bool = True,
    command: str = "chat",
    fresh: bool = False,
) -> Iterator[Any]:
    """A chat in a pseudo-terminal, which is over in the end; `fresh` with an interpreter of its own."""
    environ = desk.env | {"TERM": term, "PROMPT_TOOLKIT_NO_CPR": "1", "NO_COLOR": "1"}
    start: list[str] = []
    kind = Talk if toolkit else Bare
    if fresh or not desk.forks(environ):
        start = ["-m", "jaato"] if toolkit else ["-c", WITHOUT_TOOLKIT]
        kind = pexpect.spawn
    with opened(desk, kind, [sys.executable, *start, command, *args], environ, (50, 200)) as child:
        yield child


@contextmanager
def opened(
    desk: CliEnvironment,
    kind: type[pexpect.spawn],
    words: Sequence[str],
    environ: dict[str, str],
    dimensions: tuple[int, int],
) -> Iterator[Any]:
    """A program in a pseudo-terminal of so many lines and columns, which is over in the end."""
    program, *args = words
    child = kind(
        program,
        args,
        cwd=str(desk.work),
        env=environ,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        dimensions=dimensions,
    )
    try:
        yield child
    finally:
        end(child)


def end(child: Any) -> None:
    """Hang up, and kill what does not end; wait until it is gone."""
    try:
        child.close(force=True)
    except pexpect.ExceptionPexpect:  # it was killed, and has not gone within a tenth of a second
        while child.isalive():
            time.sleep(0.02)
        child.close(force=True)


def leave(child: Any) -> int:
    """Leave with Ctrl-D; gives the exit code."""
    child.expect("> $")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    code: int = child.exitstatus
    return code
