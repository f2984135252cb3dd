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

ROOT = Path(__file__).parents[1]

hypothesis.settings.register_profile("house", database=None, deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile("explore", database=None, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("JAATO_TEST_PROFILE", "house"))  # noqa: TID251 a test's own choice


def children() -> set[int]:
    """The processes this one has started that still live; zombies of a finished test are none."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.add(int(entry.name))
    return found


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
    files, processes = untracked(), children()
    yield
    warm.HELD.close()
    until = time.monotonic() + 10
    while children() - processes and time.monotonic() < until:
        time.sleep(0.05)
    left = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children() - processes}
    assert not left, f"processes left behind: {left}"
    added = untracked() - files
    assert not added, f"files left in the checkout: {added}"
