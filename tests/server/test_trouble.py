"""Trouble with the disk under a server: it says what is wrong and what to do, loses nothing, and goes on afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def apart(module: str, place: Path) -> None:
    """Run a module in a process that may mount things nobody else sees; skip where the system does not allow that."""
    command = ["unshare", "-Urm", sys.executable, "-m", f"tests.server.{module}", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if done.stdout == "no mounts here\n" or done.stderr.startswith("unshare:"):
        pytest.skip("this user may not mount anything")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_disk_that_is_full_in_mid_turn(tmp_path: Path) -> None:
    """Whoever watches learns that the turn broke off and why; other sessions are read and served; with room again the turn
    goes on without repeating what had begun, and what had no room is recorded."""
    apart("full_disk", tmp_path)
