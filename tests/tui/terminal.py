"""The full-screen client in a pseudo-terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
from tests.cli.environment import CliEnvironment
from tests.cli.terminal import Talk, opened

GAP = r"(?:[\s▌]|\x1b\[[\d;?]*[A-Za-z])+"
"""What is between two words: also the end of a line, or of one in a notice, which depends on the length of a path before it."""


@contextmanager
def terminal(desk: CliEnvironment, *args: str, start: Sequence[str] = (), **environ: str) -> Iterator[Any]:
    """A `jaato` in a pseudo-terminal of 80 by 24; what `start`s it is an interpreter of its own."""
    env = {**desk.env, "TERM": "xterm-256color", **environ}
    kind: type[pexpect.spawn] = pexpect.spawn
    if not start and desk.forks(env):
        start, kind = (sys.executable,), Talk
    with opened(desk, kind, [*(start or desk.command), *args], env, (24, 80)) as child:
        yield child


def desk_with_runtime(tmp_path: Path) -> CliEnvironment:
    """A desk whose server has its socket in a directory of its own."""
    desk = CliEnvironment(tmp_path)
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    desk.env["XDG_RUNTIME_DIR"] = str(runtime)
    return desk


def expect_all(child: Any, *texts: str) -> None:
    """Wait for texts that are drawn in one frame, in any order, wherever a line ends in them."""
    left = list(texts)
    while left:
        del left[child.expect([GAP.join(map(re.escape, text.split(" "))) for text in left])]


def leave(child: Any) -> None:
    """Leave with Ctrl+C twice, the second within two seconds of the first; the terminal is as it was."""
    child.send("\x03\x03")
    child.expect(re.escape("\x1b[?1049l"))
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
