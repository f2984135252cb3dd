"""The last resort: find and kill what a command left when it had killed both its supervisor and the warden."""

from __future__ import annotations

import os
import signal
import time

from jaato.plugins.shell.warden import cgroup, tree

MARK = "JAATO_CALL"
SWEEP_WITHIN_S = 5.0


def sweep(call_id: str, session: int, group: str) -> None:
    """Kill the call's control group, then whatever has its mark, its session or an ancestor that has; until none has.

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
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb", buffering=0) as stat:
                state, _, _, its_session = stat.read(4096).rpartition(b")")[2].split()[:4]
            if state in (b"Z", b"X"):
                continue
            with open(f"/proc/{entry}/environ", "rb", buffering=0) as environ:
                marked = mark in environ.read(1 << 20)
        except (OSError, ValueError):
            continue
        if marked or (session and int(its_session) == session):
            found.append(int(entry))
    return found
