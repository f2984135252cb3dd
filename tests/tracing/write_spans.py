"""Writes spans into a file in a process of its own: `python -m tests.tracing.write_spans FILE MAX_BYTES COUNT WHO [LIMIT]`."""

from __future__ import annotations

import resource
import signal
import sys
import threading
from pathlib import Path

from jaato.runtime.tracing.file import TraceFile
from jaato.runtime.tracing.outlet import SinkFault
from jaato.runtime.tracing.spans import Span


def span(number: int, who: str = "a") -> Span:
    """A span with a number."""
    return Span(
        trace_id="0" * 31 + "1",
        span_id=f"{number + 1:016x}",
        name=f"{who} {number}",
        start_ns=number,
        end_ns=number + 1,
        attributes={"who": who},
    )


def main(path: str, max_bytes: str, count: str, who: str, limit: str = "") -> None:
    """Write them, ten at a time; with a limit, no file of this process may become larger, as on a full disk."""
    if limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    file, closing = TraceFile(Path(path), int(max_bytes), {"service.name": who}), threading.Event()
    for first in range(0, int(count), 10):
        try:
            file.send([span(number, who) for number in range(first, first + 10)], closing)
        except SinkFault as fault:
            print(fault)


if __name__ == "__main__":
    main(*sys.argv[1:])
