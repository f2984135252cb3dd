"""`jaato mcp trust` at a real terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pexpect
import pytest
from tests.cli.environment import CliEnvironment


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 4), ("", 4), ("\x04", 4)])
def test_the_answer_decides(tmp_path: Path, typed: str, code: int) -> None:
    """Only a yes trusts; no, an empty line and the end of input do not, and nothing steers the terminal."""
    desk = CliEnvironment(tmp_path)
    entry = {"command": "sh", "args": ["-c", "exit 0"], "env": {"COLOUR": "${TOKEN:-x}"}}
    (desk.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": entry}}))
    child = pexpect.spawn(
        sys.executable,
        ["-m", "jaato", "mcp", "trust", "theirs"],
        cwd=str(desk.work),
        env=desk.env,
        encoding="utf-8",
        timeout=60,
    )
    child.expect("runs +sh -c 'exit 0'")
    child.expect("environment: TOKEN")
    child.expect(r"as shown\? \[y/N\]")
    if typed == "\x04":
        child.sendeof()
    else:
        child.sendline(typed)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == code
    trusted = (desk.state / "trust.json").exists()
    assert trusted == (code == 0)
