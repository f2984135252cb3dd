"""Lines from a terminal, read on the loop, so that a question or a turn can be cancelled while one is awaited."""

from __future__ import annotations

import os
import sys
import termios
from collections import deque

from jaato.errors import ConfigError

READ_BYTES = 65_536


class Lines:
    """The lines of stdin, one reader at a time; the terminal itself does the editing. None is the end of input."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._ready: deque[str] = deque()
        self._rest = b""
        self._ended = False

    @property
    def pending(self) -> bool:
        """Whether a line has been typed ahead."""
        return bool(self._ready)

    async def read(self) -> str | None:
        """The next line without its newline; None when the input has ended."""
        while not self._ready:
            if self._ended:
                return None
            await self._wait()
            self._take(os.read(self.descriptor, READ_BYTES))
        return self._ready.popleft()

    def take(self) -> bool:
        """Read what `descriptor` has, which must be readable; whether the input goes on. For a program without a loop."""
        self._take(os.read(self.descriptor, READ_BYTES))
        return not self._ended or bool(self._ready)

    def next(self) -> str | None:
        """A line that has been typed, None when none has."""
        return self._ready.popleft() if self._ready else None

    async def _wait(self) -> None:
        import anyio  # a program without a loop needs none of it
        import anyio.lowlevel

        try:
            await anyio.wait_readable(self.descriptor)
        except (PermissionError, OSError):
            await anyio.lowlevel.checkpoint()  # a regular file cannot be waited for, and is always ready

    def _take(self, data: bytes) -> None:
        if not data:
            self._ended = not os.isatty(self.descriptor) or not self._rest
            lines, self._rest = ([self._rest] if self._rest else []), b""
            if self._ended and not lines:
                return
        else:
            *lines, self._rest = (self._rest + data).split(b"\n")
        self._ready.extend(line.decode("utf-8", "replace").rstrip("\r") for line in lines)

    def forget(self) -> None:
        """Drop what was typed before the question was there: it cannot be the answer."""
        self._ready.clear()
        self._rest = b""
        if os.isatty(self.descriptor):
            termios.tcflush(self.descriptor, termios.TCIFLUSH)

    def reopen(self) -> None:
        """On a terminal Ctrl-D ends one reading, not all of it."""
        if os.isatty(self.descriptor):
            self._ended = False


def ask_yes_no(question: str, unasked: str) -> bool:
    """Whether the person at the terminal says yes. Raises `ConfigError` with the text `unasked` where there is none."""
    if not sys.stdin.isatty():
        raise ConfigError(unasked)
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
