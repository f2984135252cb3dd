"""The streams of a process that goes on: a pair of pipes, or a terminal."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from dataclasses import dataclass

IUTF8 = 0x4000
"""Lets the terminal take a whole character back, not a byte of one; the module termios names it from Python 3.13."""


@dataclass(slots=True)
class Streams:
    """Our ends, which do not block, and those of the process (`Command(streams=theirs)`), each to be closed once.

    `close_theirs` when the process runs, or the end of its output is never seen; `close` when all is over.
    """

    input_fd: int
    output_fd: int
    theirs: tuple[int, ...]

    def close_theirs(self) -> None:
        """Let go of the ends of the process."""
        theirs, self.theirs = self.theirs, ()
        for fd in theirs:
            os.close(fd)

    def close_input(self) -> None:
        """Let the process read the end of its input; a terminal stays open."""
        if self.input_fd not in (-1, self.output_fd):
            os.close(self.input_fd)
            self.input_fd = -1

    def close(self) -> None:
        """Let go of everything, also twice."""
        self.close_theirs()
        self.close_input()
        if self.output_fd != -1:
            os.close(self.output_fd)
            self.input_fd = self.output_fd = -1


def pipes() -> Streams:
    """Two pipes: what is written to `input_fd` the process reads, what it prints comes from `output_fd`."""
    read, input_fd = os.pipe()
    try:
        output_fd, written = os.pipe()
    except OSError:
        os.close(read)
        os.close(input_fd)
        raise
    os.set_blocking(input_fd, False)
    os.set_blocking(output_fd, False)
    return Streams(input_fd, output_fd, (read, written))


def terminal(rows: int, columns: int) -> Streams:
    """A terminal of this size; the process finds it as all of its streams and as `/dev/tty`."""
    ours, theirs = os.openpty()
    try:
        resize(ours, rows, columns)
        modes = termios.tcgetattr(theirs)
        modes[0] |= IUTF8
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        os.set_blocking(ours, False)
    except (OSError, termios.error):
        os.close(ours)
        os.close(theirs)
        raise
    return Streams(ours, ours, (theirs,))


def resize(fd: int, rows: int, columns: int) -> None:
    """Give a terminal another size; what runs on it is told."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
