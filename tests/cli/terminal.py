"""A chat in a pseudo-terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pexpect
from tests.cli.desk import Desk

WITHOUT_TOOLKIT = "import sys; sys.modules['prompt_toolkit'] = None; from jaato.cli import main; sys.exit(main(sys.argv[1:]))"
TIMEOUT_S = 20


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
