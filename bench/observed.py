"""A server that tells, when asked by a signal, how long its loop was held at most and what is open in it."""

from __future__ import annotations

import asyncio
import asyncio.events
import gc
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any


class Seen:
    """What was seen since the last report."""

    held_s = 0.0
    collected_s = 0.0
    reports = 0


def watch() -> None:
    """Take the CPU time of everything the loop runs, and of the collector's full rounds."""
    run: Any = asyncio.events.Handle._run
    since = [0.0]

    def timed(handle: asyncio.Handle) -> None:
        reports, begun = Seen.reports, time.thread_time()
        run(handle)
        if Seen.reports == reports:  # else it was interrupted to report
            Seen.held_s = max(Seen.held_s, time.thread_time() - begun)

    def collected(phase: str, told: dict[str, int]) -> None:
        if phase == "start":
            since[0] = time.thread_time()
        elif told["generation"] == 2:
            Seen.collected_s = max(Seen.collected_s, time.thread_time() - since[0])

    asyncio.events.Handle._run = timed  # type: ignore[method-assign,assignment]
    gc.callbacks.append(collected)


def report(*_: object) -> None:
    """Write what there is, and begin anew with what the loop was held for."""
    told = {"held_s": Seen.held_s, "collected_s": Seen.collected_s}
    gc.collect()
    told |= {
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")) - 1,
    }
    Seen.held_s = Seen.collected_s = 0.0
    Seen.reports += 1
    path = Path(sys.argv[1])
    part = path.with_suffix(".part")
    part.write_text(json.dumps(told))
    part.rename(path)


if __name__ == "__main__":
    from jaato.cli import main

    watch()
    signal.signal(signal.SIGUSR1, report)
    sys.exit(main(["serve", *sys.argv[2:]]))
