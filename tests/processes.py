"""The processes that a test has started, as Linux tells them."""

from __future__ import annotations

import os
from pathlib import Path


def children(*, zombies: bool) -> set[int]:
    """The processes this one has started and not seen the end of; with `zombies` those too that have ended and were
    not waited for. A process that ends while it is looked at counts as ended."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and (zombies or fields[0] != "Z"):
            found.add(int(entry.name))
    return found


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it may go while it is read
        return False
