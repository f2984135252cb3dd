"""Find and kill every descendant of a process, whatever it did to hide."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)
CHILD_LISTS = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def become_subreaper() -> bool:
    """From now on orphans among our descendants become our children; False where that cannot be."""
    if sys.platform != "linux":
        return False
    return int(LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0


def children(pid: int) -> list[int]:
    """The children of a process now, zombies included; empty when it is gone."""
    if not CHILD_LISTS:
        return [child for child, parent in parents().items() if parent == pid]
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as listing:
                found += map(int, listing.readall().split())
        except OSError:
            continue
    return found


def parents() -> dict[int, int]:
    """The parent of every process that can be seen."""
    found = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb", buffering=0) as stat:
                    found[int(entry)] = int(stat.read(4096).rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
    return found


def descendants(pid: int, limit: int = 1 << 20) -> list[int]:
    """Every process below this one, parents before children, at most `limit`."""
    listing: Callable[[int], list[int]] = children
    if not CHILD_LISTS:
        below: dict[int, list[int]] = {}
        for child, parent in parents().items():
            below.setdefault(parent, []).append(child)
        listing = lambda parent: below.get(parent, [])  # noqa: E731 one snapshot for the whole walk
    found: list[int] = []
    queue = [pid]
    seen = {pid}
    while queue and len(found) < limit:
        for child in listing(queue.pop()):
            if child not in seen:
                seen.add(child)
                found.append(child)
                queue.append(child)
    return found


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each that can be reached."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def hurry() -> None:
    """Ask for the processor: a thousand runnable processes must not starve the one that ends them."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        pass


def kill_below(
    spared: Callable[[], Iterable[int]],
    reaped: Callable[[int, int], None],
    patience_s: float,
    each_round: Callable[[], None] = lambda: None,
) -> list[int]:
    """Kill and reap all our descendants but the spared ones until none is left; call as their subreaper.

    Gives up when they grow no fewer for `patience_s` and returns those that would not die (uninterruptible,
    or of another user). With nobody spared the end is exact: a subreaper without children has no descendants.
    """
    pause = 0.0005
    fewest = 1 << 30
    deadline = time.monotonic() + patience_s
    while True:
        keep = set(spared())
        below = [pid for child in children(os.getpid()) if child not in keep for pid in kill_tree(child)]
        if reap(reaped) or not [pid for pid in children(os.getpid()) if pid not in keep]:
            return []
        if len(below) < fewest:
            fewest, deadline = len(below), time.monotonic() + patience_s
        elif time.monotonic() > deadline:
            return below
        each_round()
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def kill_tree(top: int) -> list[int]:
    """Kill a process, its group at once, and what is below it, each as it is found; all that were found.

    The parent goes first, so that it makes no more; a group dies in one call, forks in progress included.
    """
    own_group = os.getpgrp()
    groups = set()
    found = []
    queue = [top]
    while queue:
        pid = queue.pop()
        found.append(pid)
        send((pid,), signal.SIGSTOP)
        queue += children(pid)
        try:
            group = os.getpgid(pid)
            if group not in groups and group != own_group:
                groups.add(group)
                os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        send((pid,), signal.SIGKILL)
    return found


def reap(reaped: Callable[[int, int], None]) -> bool:
    """Take in every child that has ended, telling `reaped(pid, status)`; True when no child is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
        reaped(pid, status)


def command_line(pid: int) -> str:
    """What a process was started as, in at most 80 characters; empty when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as listing:
            return listing.read(400).replace(b"\0", b" ").decode("utf-8", "replace").strip()[:80]
    except OSError:
        return ""


def kill_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process group that may be gone."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def forks_so_far() -> int:
    """The newest process id of the machine: how far it moves says how fast processes are made."""
    try:
        with open("/proc/loadavg", "rb", buffering=0) as load:
            return int(load.read(200).split()[4])
    except (OSError, IndexError, ValueError):
        return 0
