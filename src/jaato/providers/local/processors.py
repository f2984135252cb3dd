"""How many threads the engine may use: its threads wait for each other in a busy loop after every operation, so one more
than there are free processors makes a turn several times slower, not faster."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

MAX_THREADS = 8
SAMPLES = 7
PAUSE_S = 0.02
LOAD = Path("/proc/loadavg")


def free_processors(load: Path = LOAD) -> int:
    """The processors this process may use that nobody else computes on just now; at least one, at most `MAX_THREADS`.

    Takes a seventh of a second. Where the system does not tell who computes, all of them count as free.
    """
    samples: list[int] = []
    for _ in range(SAMPLES):
        samples.append(others(load))
        time.sleep(PAUSE_S)
    return max(1, min(usable_processors() - int(statistics.median(samples)), MAX_THREADS))


def others(load: Path) -> int:
    """The threads that are computing at this moment, without this one; `load` is the kernel's own report."""
    try:
        running = int(load.read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 0
    return max(0, running - 1)


def usable_processors() -> int:
    """The processors this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
