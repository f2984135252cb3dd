"""A chat in a pseudo-terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
from tests.cli.desk import Desk

WITHOUT_TOOLKIT = "import sys; sys.modules['prompt_toolkit'] = None; from jaato.cli import main; sys.exit(main(sys.argv[1:]))"
TIMEOUT_S = 60


@contextmanager
def talking(
    desk: Desk, *args: str, term: str = "dumb", toolkit: bool = True, command: str = "chat"
) -> Iterator[Any]:
    """A chat in a pseudo-terminal, which is over in the end."""
    start = ["-m", "jaato"] if toolkit else ["-c", WITHOUT_TOOLKIT]
    environ = desk.env | {"TERM": term, "PROMPT_TOOLKIT_NO_CPR": "1", "NO_COLOR": "1"}
    child = pexpect.spawn(
        sys.executable,
        [*start, command, *args],
        cwd=str(desk.work),
        env=environ,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        dimensions=(50, 200),
    )
    try:
        yield child
    finally:
        child.close(force=True)


def leave(child: Any) -> int:
    """Leave with Ctrl-D; gives the exit code."""
    child.expect("> $")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    code: int = child.exitstatus
    return code


def at_rest(child: Any) -> None:
    """Wait until the chat waits for a key: a signal between a prompt and its wait is heard with the next key only."""
    quiet = 0
    while quiet < 5:
        state = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]
        quiet = quiet + 1 if state == "S" else 0
        time.sleep(0.02)
