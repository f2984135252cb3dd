"""The last resort, when a command has killed both its supervisor and the warden: find and kill the rest."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from jaato.plugins.shell.warden import cgroup, tree

MARK = "JAATO_CALL"
SWEEP_WITHIN_S = 5.0


def sweep(call_id: str, session: int, group: str) -> None:
    """Kill the call's control group, then all with its mark or session and what is below, until none is.

    Blocks for at most `SWEEP_WITHIN_S`.
    """
    if group:
        cgroup.kill(group)
    until = time.monotonic() + SWEEP_WITHIN_S
    quiet = 0
    while quiet < 3 and time.monotonic() < until:
        found = suspects(f"{MARK}={call_id}".encode(), session)
        below = [pid for suspect in found for pid in tree.descendants(suspect)]
        tree.send({*found, *below}, signal.SIGKILL)
        quiet = 0 if found else quiet + 1
        time.sleep(0.002)
    if group:
        cgroup.end(group, until)


def suspects(mark: bytes, session: int) -> list[int]:
    """Living processes with this text in their environment, or of this session."""
    found = []
    for process in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            state, _, _, its_session = (process / "stat").read_bytes().rpartition(b")")[2].split()[:4]
            if state in (b"Z", b"X"):
                continue
            marked = mark in (process / "environ").read_bytes()
        except (OSError, ValueError):
            continue
        if marked or (session and int(its_session) == session):
            found.append(int(process.name))
    return found
