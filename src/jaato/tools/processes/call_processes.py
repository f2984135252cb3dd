"""Processes of tool calls: find whether this process runs below one, and kill what a command has left.

A command cannot leave its supervisor by forking, because the supervisor is the subreaper of all its descendants. It can
remove the mark from its environment and, where it may write to control groups, leave its group; so every ancestor is
checked for each of these signs.
"""

from __future__ import annotations

import os
import re
import time

from jaato.errors import NotAllowed
from jaato.settings import environment
from jaato.tools.processes.launcher import START
from jaato.tools.processes.warden import cgroup, process_tree
from jaato.tools.processes.warden.process_tree import TreeKiller

MARK = "JAATO_CALL"
"""The variable that holds the id of the call in the environment of its processes."""
SWEEP_WITHIN_S = 5.0
GROUP = re.compile(rb"/jaato-\d+-\d+-\d+(?:/|\n|$)")
"""The control group of a command."""
MARKED = re.compile(rb"(?:^|\0)" + MARK.encode() + b"=")
MOST_BYTES = 4 << 20
MOST_WALKS = 50
"""A parent may end during the search, and its child then has another parent; so the search is repeated."""
REMEDY = "A command of a tool call may not loosen permissions, trust, settings or keys. Run this in a terminal of your own."


def require_outside_call() -> None:
    """Raise `NotAllowed` if this process runs below a call of a tool."""
    found = find_calling_tool()
    if found is not None:
        raise NotAllowed(f"This runs below a call of a tool: {found}. {REMEDY}")


def find_calling_tool() -> str | None:
    """The evidence that this process runs below a call of a tool; None if there is none."""
    if environment().get(MARK):
        return f"{MARK} is set"
    try:
        return find_call_above(os.getpid())
    except ProcessLookupError:
        return None  # no /proc: the environment is all there is to see


def find_call_above(pid: int) -> str | None:
    """The evidence that some process runs below a call of a tool; None if there is none.

    Raises `ProcessLookupError` when the process itself cannot be seen.
    """
    before: list[int] = []
    for _walk in range(MOST_WALKS):
        line, whole = ancestors(pid)
        if not line:
            raise ProcessLookupError(f"process {pid} cannot be seen")
        found = next((what for one in line if (what := find_sign(one)) is not None), None)
        if found is not None or whole or line == before:
            return found
        before = line
    return None


def ancestors(pid: int) -> tuple[list[int], bool]:
    """A process and its ancestors, nearest first, and whether the list reaches the first process."""
    line: list[int] = []
    while pid > 0 and pid not in line:
        row = process_tree.read_row(pid) if process_tree.LISTED else None
        if row is None:
            return line, False
        line.append(pid)
        pid = row[0]
    return line, True


def find_sign(pid: int) -> str | None:
    """The evidence that this very process is a supervisor, or belongs to a command."""
    if START.encode() in read_proc(pid, "cmdline").split(b"\0"):
        return f"process {pid} supervises the commands of tools"
    if GROUP.search(read_proc(pid, "cgroup")):
        return f"process {pid} is in the control group of a command"
    if MARKED.search(read_proc(pid, "environ")):
        return f"process {pid} has {MARK} in its environment"
    return None


def read_proc(pid: int, name: str) -> bytes:
    """A file of `/proc/PID`, empty where it cannot be read."""
    try:
        with open(f"{process_tree.PROC}/{pid}/{name}", "rb") as file:
            return file.read(MOST_BYTES)
    except OSError:
        return b""


def kill_leftovers(call_id: str, session: int, group: str) -> None:
    """Kill the call's control group, then all with its mark or session and what is below, until none is.

    Blocks for at most `SWEEP_WITHIN_S`.
    """
    if group:
        cgroup.kill(group)
    until = time.monotonic() + SWEEP_WITHIN_S
    killer = TreeKiller(lambda: find_leftovers(f"{MARK}={call_id}".encode(), session))
    quiet = 0
    while quiet < 3 and time.monotonic() < until:
        quiet = quiet + 1 if killer.step() else 0
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
