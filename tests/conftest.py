"""What holds for every test: no network, no deadline by the clock, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from tests.cli import warm
from tests.processes import children

ROOT = Path(__file__).parents[1]

hypothesis.settings.register_profile("house", database=None, deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile("explore", database=None, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("JAATO_TEST_PROFILE", "house"))  # noqa: TID251 a test's own choice


def untracked() -> set[str]:
    """Files in the checkout that neither git nor its ignore rules know, and every `.jaato`."""
    listed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    own = {str(path.relative_to(ROOT)) for path in ROOT.glob("**/.jaato") if ".venv" not in path.parts}
    return {line[3:] for line in listed if line.startswith("??")} | own


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """After the last test no process of ours lives and no file was added to the checkout."""
    files, processes = untracked(), children(zombies=False)
    yield
    warm.HELD.close()
    until = time.monotonic() + 10
    while children(zombies=False) - processes and time.monotonic() < until:
        time.sleep(0.05)
    left = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(zombies=False) - processes}
    assert not left, f"processes left behind: {left}"
    added = untracked() - files
    assert not added, f"files left in the checkout: {added}"
