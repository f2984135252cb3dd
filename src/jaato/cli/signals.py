"""Handle Ctrl-C, SIGTERM and SIGHUP: the first stops the work, the second exits at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jaato.cli.exit_codes import INTERRUPTED

if TYPE_CHECKING:
    import asyncio

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def get_handled_signals() -> list[signal.Signals]:
    """The signals to handle; those that were ignored at the start, as under nohup, stay ignored."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


class SignalPipe:
    """Counts signals within its `with`, and makes `descriptor` readable for each; the second exits at once.

    For a program that polls descriptors: no exception interrupts its work.
    """

    def __enter__(self) -> SignalPipe:
        self.count = 0
        self.descriptor, self._writing = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._writing, False)
        self._before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._handlers = [(number, signal.signal(number, self._handle)) for number in get_handled_signals()]
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers:
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._before)
        os.close(self.descriptor)
        os.close(self._writing)

    def _handle(self, _number: int, _frame: object) -> None:
        self.count += 1
        exit_if_repeated(self.count)

    def clear(self, ready: Collection[int]) -> None:
        """Drain the descriptor, if it is among those ready."""
        if self.descriptor in ready:
            os.read(self.descriptor, 4_096)


@contextmanager
def cancel_on_signal(stop: Callable[[], object] | None = None) -> Iterator[None]:
    """On a signal call `stop`, or cancel the current task, while the body runs."""
    import asyncio  # slow, and a client of the server does not need it

    loop = asyncio.get_running_loop()
    task: asyncio.Task[object] | None = asyncio.current_task()
    assert task is not None
    count = 0

    def handle() -> None:
        nonlocal count
        count += 1
        exit_if_repeated(count)
        (stop or task.cancel)()

    numbers = get_handled_signals()
    for number in numbers:
        loop.add_signal_handler(number, handle)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def exit_if_repeated(count: int) -> None:
    """Exit the program at the second signal."""
    if count > 1:
        flush_streams()
        os._exit(INTERRUPTED)


def flush_streams() -> None:
    """Write out buffered output."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
