"""Read the process tree, and kill all of it below a process."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time

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
    """Make this process the subreaper of its descendants; False where the system has none."""
    if sys.platform != "linux":
        return False
    return int(LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0


def read_row(pid: int) -> Row | None:
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
    rows = {int(entry): read_row(int(entry)) for entry in os.listdir(PROC) if entry.isdigit()}
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


def tree_readers() -> tuple[Callable[[int], list[int]], Callable[[int], Row | None]]:
    """Functions that return the children and the row of a process.

    If reading one process costs as much as reading all, they use one snapshot. Raises OSError as `table` does.
    """
    if CHILD_LISTS:
        return children, read_row
    rows = table()
    below: dict[int, list[int]] = {}
    for child, row in rows.items():
        below.setdefault(row[0], []).append(child)
    return lambda parent: below.get(parent, []), rows.get


def descendants(pid: int, limit: int = 1 << 20) -> list[int]:
    """Every process below this one, parents first, at most `limit`; none when they cannot be listed."""
    found: list[int] = []
    try:
        ask, _ = tree_readers()
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
    """Filter processes by process group."""
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


def raise_priority() -> None:
    """Raise the priority of this process, so that a fork bomb cannot starve it.

    Linux may schedule by session first (autogroup), so the session's priority is raised too; call it in a session of its own.
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
    """Wait for every child that has ended and call `reaped(pid, status)`; True when no child is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
        reaped(pid, status)


def command_line(pid: int) -> str:
    """The command line of a process, at most 80 characters; empty if it has ended."""
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb", buffering=0) as listing:
            return listing.read(400).replace(b"\0", b" ").decode("utf-8", "replace").strip()[:80]
    except OSError:
        return ""


def forks_so_far() -> int:
    """The newest process id of the machine, to estimate how many processes were created; -1 is unknown."""
    try:
        with open(f"{PROC}/loadavg", "rb", buffering=0) as load:
            return int(load.read(200).split()[4])
    except (OSError, IndexError, ValueError):
        return -1


def terminate(pid: int, *, within: bool) -> None:
    """Send SIGTERM to the process group of a command; `within` leaves out its leader, the sandbox, which ends after it."""
    below = descendants(pid) if within else []
    asked = of_group(below, pid)
    for top in below[1:2]:  # below the sandbox's own; at a terminal it leads a group of its own
        asked += [] if top in asked else of_group(below, top)
    for number in (signal.SIGTERM, signal.SIGCONT):
        if within:
            send(asked, number)
        else:
            kill_group(pid, number)


STILL = b"TtDUZX"  # stopped, in the kernel's hands, or dead: makes no child now
HALT_WITHIN_S = 3.0
MOST_TIMES = 3
PRLIMIT = getattr(resource, "prlimit", None)


class TreeKiller:
    """Kills the processes that `tops` returns and all below them, in passes; `reaped(pid, status)` is called for our children.

    Everything is stopped before anything is killed: a stopped process still counts for the user's limit on
    processes, so that a fork bomb cannot create a new one in its place, and no process is missed because its
    parent died during the search. If not all can be stopped in time, the rest is killed anyway.
    """

    def __init__(
        self,
        tops: Callable[[], Collection[int]],
        reaped: Callable[[int, int], None] | None = None,
    ) -> None:
        self.left: list[int] = []
        self._tops = tops
        self._reaped = reaped
        self._held: set[int] = set()
        self._doomed: dict[int, int] = {}
        self._groups: set[int] = set()
        self._kill_at: float | None = None

    def step(self) -> bool:
        """One pass; True when nothing is left. `left` has the rest."""
        try:
            if self._reaped is not None:
                reap(self._reaped)
            tops = self._tops()
            restless, living = self._halt(tops)
        except OSError:
            return False  # the processes cannot be listed now: no memory, no process for `ps`
        self.left = [pid for pid, row in living.items() if row is None or row[2] not in b"ZX"]
        now = time.monotonic()
        if restless and self._kill_at is None:
            self._kill_at = now + HALT_WITHIN_S
        if not restless or now >= (self._kill_at or now):
            self._kill(living)
        return not tops

    def to_end(self, patience_s: float, each_round: Callable[[], None] = lambda: None) -> list[int]:
        """Run passes until nothing is left; return the processes that could not be killed (of another user, uninterruptible).

        Gives up if their number does not fall for `patience_s`, and in any case after `MOST_TIMES` times that.
        """
        pause = 0.0005
        fewest = 1 << 30
        last = time.monotonic() + MOST_TIMES * patience_s
        deadline = last
        while not self.step():
            now = time.monotonic()
            if len(self.left) < fewest:
                fewest, deadline = len(self.left), min(last, now + patience_s)
            elif now > deadline:
                return self.left
            each_round()
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        return []

    def _halt(self, tops: Iterable[int]) -> tuple[bool, dict[int, Row | None]]:
        """Stop every process before its children are listed; return whether some still ran, and all processes found.

        New processes are stopped before their state is read, because a fork bomb is a race.
        """
        ask, read_row = tree_readers()
        living: dict[int, Row | None] = {}
        restless = False
        queue = list(tops)
        while queue:
            pid = queue.pop()
            if pid not in self._held:
                living[pid] = None
                self._hold(pid)
                restless = True
            elif (row := read_row(pid)) is not None:
                living[pid] = row
                restless |= self._ran_on(pid, row)
            queue += [child for child in ask(pid) if child not in living]
        self._held.intersection_update(living)
        return restless, living

    def _ran_on(self, pid: int, row: Row) -> bool:
        """Whether a process that was sent SIGSTOP, and not killed, still runs; it is stopped again."""
        _, group, state, start = row
        if state in STILL or self._doomed.get(pid) == start:
            return False
        self._stop(pid, group)
        return state != b"L"  # whose other threads stop unseen

    def _hold(self, pid: int) -> None:
        """Stop a process and its group, forks in progress included, and forbid it to fork."""
        self._held.add(pid)
        try:
            self._stop(pid, os.getpgid(pid))
            if PRLIMIT is not None:
                PRLIMIT(pid, resource.RLIMIT_NPROC, (0, 0))
        except (OSError, ValueError):
            pass  # gone, or of another user

    def _stop(self, pid: int, group: int) -> None:
        if group not in self._groups and group != os.getpgrp():
            self._groups.add(group)
            kill_group(group, signal.SIGSTOP)
        send((pid,), signal.SIGSTOP)

    def _kill(self, living: dict[int, Row | None]) -> None:
        for group in self._groups:
            kill_group(group, signal.SIGKILL)
        send(living, signal.SIGKILL)
        for pid, row in living.items():
            if row is not None:
                self._doomed[pid] = row[3]
        self._groups.clear()
        self._kill_at = None
