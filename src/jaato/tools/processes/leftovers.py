"""Find and kill what is left of a command that has killed both its supervisor and the warden."""

from __future__ import annotations

import os
import time

from jaato.tools.processes.warden import cgroup, process_tree
from jaato.tools.processes.warden.kill_tree import TreeKiller

MARK = "JAATO_CALL"
SWEEP_WITHIN_S = 5.0


def kill_leftovers(call_id: str, session: int, group: str) -> None:
    """Kill the call's control group, then all with its mark or session and what is below, until none is.

    Blocks for at most `SWEEP_WITHIN_S`.
    """
    if group:
        cgroup.kill(group)
    until = time.monotonic() + SWEEP_WITHIN_S
    roundup = TreeKiller(lambda: find_leftovers(f"{MARK}={call_id}".encode(), session))
    quiet = 0
    while quiet < 3 and time.monotonic() < until:
        quiet = quiet + 1 if roundup.step() else 0
        time.sleep(0.002)
    if group:
        cgroup.end(group, until)


def find_leftovers(mark: bytes, session: int) -> set[int]:
    """Living processes of this session, or with this text in their environment where that can be read."""
    found = set(process_tree.in_sessions({session} if session else ()))
    for pid, row in process_tree.table().items() if process_tree.LISTED else ():
        try:
            with open(f"{process_tree.PROC}/{pid}/environ", "rb") as environment:
                if row[2] not in b"ZX" and mark in environment.read():
                    found.add(pid)
        except OSError:
            continue
    return found - {os.getpid()}
