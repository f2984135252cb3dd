"""Kill the process tree below a process: stop all of it, then kill it at once."""

from __future__ import annotations

import os
import resource
import signal
import time

from jaato.tools.processes.warden import process_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from jaato.tools.processes.warden.process_tree import Row

STILL = b"TtDUZX"  # stopped, in the kernel's hands, or dead: makes no child now
HALT_WITHIN_S = 3.0
MOST_TIMES = 3
PRLIMIT = getattr(resource, "prlimit", None)


class TreeKiller:
    """Ends what `tops` names and all below it, a pass at a time; `reaped(pid, status)` hears of our children.

    Nothing is killed before all of it stands still: a stopped process keeps its place under the user's limit
    on processes, so that a fork bomb cannot put a new one there, and none is overlooked because its parent
    died while it was looked for. Where that cannot be had in time the rest is killed all the same.
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
                process_tree.reap(self._reaped)
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
        """Pass after pass until nothing is left; those that would not die (another user's, uninterruptible).

        Gives up when they grow no fewer for `patience_s`, and in any case after `MOST_TIMES` as long.
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
        """Stop what is found, each before its children are looked for; whether some still ran, and all of it.

        What is new is stopped without a look at it: each moment counts against a thousand that fork.
        """
        ask, row_of = process_tree.questions()
        living: dict[int, Row | None] = {}
        restless = False
        queue = list(tops)
        while queue:
            pid = queue.pop()
            if pid not in self._held:
                living[pid] = None
                self._hold(pid)
                restless = True
            elif (row := row_of(pid)) is not None:
                living[pid] = row
                restless |= self._ran_on(pid, row)
            queue += [child for child in ask(pid) if child not in living]
        self._held.intersection_update(living)
        return restless, living

    def _ran_on(self, pid: int, row: Row) -> bool:
        """Whether a process that was stopped, and not killed, did not stand still; it is stopped again."""
        _, group, state, start = row
        if state in STILL or self._doomed.get(pid) == start:
            return False
        self._stop(pid, group)
        return state != b"L"  # whose other threads stop unseen

    def _hold(self, pid: int) -> None:
        """Stop a process and its group at once, forks in progress included, and let none of them fork again."""
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
            process_tree.kill_group(group, signal.SIGSTOP)
        process_tree.send((pid,), signal.SIGSTOP)

    def _kill(self, living: dict[int, Row | None]) -> None:
        for group in self._groups:
            process_tree.kill_group(group, signal.SIGKILL)
        process_tree.send(living, signal.SIGKILL)
        for pid, row in living.items():
            if row is not None:
                self._doomed[pid] = row[3]
        self._groups.clear()
        self._kill_at = None
