"""Read the process tree: the descendants of a process, and the state of each."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    Row = tuple[int, int, bytes, int]

PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)
PROC = "/proc"
LISTED = os.path.exists(f"{PROC}/self/stat")
CHILD_LISTS = os.path.exists(f"{PROC}/self/task/{os.getpid()}/children")
PS = "/bin/ps"
ROW_FIELDS = 20
ONE_THREAD = 3  # links of a list of threads: its own two, and one for each thread


def become_subreaper() -> bool:
    """From now on orphans among our descendants become our children; False where that cannot be."""
    if sys.platform != "linux":
        return False
    return int(LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0


def row_of(pid: int) -> Row | None:
    """A process as (parent, group, state, start), None when it is gone; `start` tells two of one id apart.

    The state is one letter; a process whose first thread has ended while others run is `L`, no zombie.
    """
    try:
        with open(f"{PROC}/{pid}/stat", "rb", buffering=0) as stat:
            fields = stat.read(4096).rpartition(b")")[2].split(None, ROW_FIELDS)
        state = b"L" if fields[0] in b"ZX" and int(fields[17]) > 1 else fields[0]
        return int(fields[1]), int(fields[2]), state, int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def table() -> dict[int, Row]:
    """Every process that can be seen; raises OSError when they cannot be listed now."""
    if not LISTED:
        return table_of_ps()
    rows = {int(entry): row_of(int(entry)) for entry in os.listdir(PROC) if entry.isdigit()}
    return {pid: row for pid, row in rows.items() if row}


def table_of_ps() -> dict[int, Row]:
    """Every process as `ps` lists them, for systems without `/proc`; all of them start at 0."""
    output, written = os.pipe()
    try:
        ps = os.posix_spawn(
            PS,
            ["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "pgid=", "-o", "stat="],
            {"LC_ALL": "C"},
            file_actions=[(os.POSIX_SPAWN_DUP2, written, 1)],
        )
        os.close(written)
        written = -1
        with open(output, "rb", closefd=False) as listing:
            lines = listing.read().splitlines()
        if os.waitpid(ps, 0)[1]:
            raise OSError("ps failed")
    finally:
        os.close(output)
        if written >= 0:
            os.close(written)
    found = {}
    for pid, parent, group, state in (line.split()[:4] for line in lines):
        found[int(pid)] = (int(parent), int(group), state[:1], 0)
    found.pop(ps, None)
    return found


def children(pid: int) -> list[int]:
    """The children of a process now, zombies included; empty when it is gone."""
    if not CHILD_LISTS:
        return [child for child, row in table().items() if row[0] == pid]
    found: list[int] = []
    tasks = f"{PROC}/{pid}/task"
    try:
        threads = [pid] if os.stat(tasks).st_nlink == ONE_THREAD else os.listdir(tasks)
    except OSError:
        return found
    for thread in threads:
        try:
            listing = os.open(f"{tasks}/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            data = b""
            while more := os.read(listing, 1 << 16):
                data += more
            found += map(int, data.split())
        except OSError:
            continue
        finally:
            os.close(listing)
    return found


def questions() -> tuple[Callable[[int], list[int]], Callable[[int], Row | None]]:
    """How to ask for the children and the row of one process after another.

    Where asking for one is as dear as for all, the answers are of one moment. Raises OSError as `table` does.
    """
    if CHILD_LISTS:
        return children, row_of
    rows = table()
    below: dict[int, list[int]] = {}
    for child, row in rows.items():
        below.setdefault(row[0], []).append(child)
    return lambda parent: below.get(parent, []), rows.get


def descendants(pid: int, limit: int = 1 << 20) -> list[int]:
    """Every process below this one, parents first, at most `limit`; none when they cannot be listed."""
    found: list[int] = []
    try:
        ask, _ = questions()
    except OSError:
        return found
    queue = [pid]
    seen = {pid}
    while queue and len(found) < limit:
        new = [child for child in ask(queue.pop()) if child not in seen]
        seen.update(new)
        queue += new
        found += new
    return found[:limit]


def in_sessions(sessions: Collection[int]) -> list[int]:
    """The living processes of these sessions, for where an orphan is lost to its tree; not our own."""
    found = []
    for pid, row in table().items() if sessions else ():
        try:
            if os.getsid(pid) in sessions and row[2] not in b"ZX" and pid != os.getpid():
                found.append(pid)
        except OSError:
            continue
    return found


def of_group(pids: Iterable[int], group: int) -> list[int]:
    """Those of the processes that are in this process group."""
    found = []
    for pid in pids:
        try:
            if os.getpgid(pid) == group:
                found.append(pid)
        except OSError:
            continue
    return found


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each that can be reached."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def kill_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group that may be gone."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def hurry() -> None:
    """Ask for the processor: a thousand runnable processes must not starve the one that ends them.

    Linux may share it out by sessions first, and then the session's share counts as well; call in one's own.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        share = os.open(f"{PROC}/self/autogroup", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(share, b"-20")
    except OSError:
        pass
    finally:
        os.close(share)


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
        with open(f"{PROC}/{pid}/cmdline", "rb", buffering=0) as listing:
            return listing.read(400).replace(b"\0", b" ").decode("utf-8", "replace").strip()[:80]
    except OSError:
        return ""


def forks_so_far() -> int:
    """The newest process id of the machine, whose growth says how many were made; -1 is unknown."""
    try:
        with open(f"{PROC}/loadavg", "rb", buffering=0) as load:
            return int(load.read(200).split()[4])
    except (OSError, IndexError, ValueError):
        return -1


def terminate(pid: int, *, within: bool) -> None:
    """Ask the process group of a command to end; `within` spares its leader, the sandbox, which has to stay until it has."""
    below = descendants(pid) if within else []
    asked = of_group(below, pid)
    for top in below[1:2]:  # below the sandbox's own; at a terminal it leads a group of its own
        asked += [] if top in asked else of_group(below, top)
    for number in (signal.SIGTERM, signal.SIGCONT):
        if within:
            send(asked, number)
        else:
            kill_group(pid, number)
