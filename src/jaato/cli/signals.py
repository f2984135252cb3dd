"""Ctrl-C, SIGTERM and a terminal that closes: the first stops the work, the second ends the program at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jaato.cli.ending import INTERRUPTED

if TYPE_CHECKING:
    import asyncio

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heeded() -> list[signal.Signals]:
    """The signals to be handled; what was ignored when the program began, as under nohup, stays ignored."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


class SignalPipe:
    """Counts signals while its `with` lasts, and has `descriptor` readable for each; the second ends the program at once.

    For a program that waits on descriptors: no exception is raised in the middle of what it does.
    """

    def __enter__(self) -> SignalPipe:
        self.count = 0
        self.descriptor, self._writing = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._writing, False)
        self._before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._handlers = [(number, signal.signal(number, self._signalled)) for number in heeded()]
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers:
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._before)
        os.close(self.descriptor)
        os.close(self._writing)

    def _signalled(self, _number: int, _frame: object) -> None:
        self.count += 1
        if self.count > 1:
            restore_terminal()
            os._exit(INTERRUPTED)

    def clear(self, ready: Collection[int]) -> None:
        """Take what makes the descriptor readable, if it is."""
        if self.descriptor in ready:
            os.read(self.descriptor, 4_096)


class Interrupts:
    """What a signal stops: the work that has a way to be stopped, else the whole task."""

    def __init__(self, task: asyncio.Task[object]) -> None:
        self.count = 0
        self.stop: Callable[[], object] | None = None
        self._task = task

    def __call__(self) -> None:
        """A signal has come."""
        self.count += 1
        if self.count > 1:
            restore_terminal()
            os._exit(INTERRUPTED)
        if self.stop is not None:
            self.stop()
        else:
            self._task.cancel()


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Handle the signals while the body runs."""
    import asyncio  # slow, and a client of the server needs none

    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    interrupts = Interrupts(task)
    numbers = heeded()
    for number in numbers:
        loop.add_signal_handler(number, interrupts)
    try:
        yield interrupts
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def restore_terminal() -> None:
    """Write out what is buffered and leave the terminal on a fresh line."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
