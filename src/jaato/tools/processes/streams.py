"""The streams of a child process: pipes or a pseudo-terminal, and its output decoded as text."""

from __future__ import annotations

import codecs
import fcntl
import os
import struct
import termios
from collections.abc import Callable

import msgspec

from jaato.lazy_pattern import lazy_pattern

LINE_SEARCH_BYTES = 1024
NOT_SHOWN = lazy_pattern(r"\n\[… [\d,]+ bytes not shown …\]\n")
"""The notice in place of skipped output."""
BODY = lazy_pattern(r"[A-Za-z0-9+/=]{24,}|-----END .*")
"""A line of a key, whose beginning may lie in what is not shown."""


class OutputDecoder:
    """Decodes pieces of UTF-8 as they come and passes them on; what is not UTF-8 becomes U+FFFD."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._cut: str | None = None

    def take(self, data: bytes) -> None:
        """Decode a piece; after skipped output, start at the next whole line, so that no secret is shown in part."""
        text = self._decoder.decode(data)
        if self._cut is not None:
            text = self._after_cut(self._cut + text)
        if text:
            self._show(text)

    def skip(self, size_bytes: int) -> None:
        """Note that output was skipped, because it came too fast."""
        self._decoder.reset()
        self._cut = ""
        self._show(f"\n[… {size_bytes:,} bytes not shown …]\n")

    def _after_cut(self, text: str) -> str:
        """The text to show after skipped output; nothing until the line with the cut has ended."""
        _, newline, rest = text.partition("\n")
        if not newline and len(text) >= LINE_SEARCH_BYTES and " " in text:
            self._cut = None  # no lines, but words, and a secret without line ends is one
            return text.partition(" ")[2]
        while newline:
            line, newline, after = rest.partition("\n")
            if not newline and len(line) < LINE_SEARCH_BYTES:
                break
            if not BODY.fullmatch(line.strip()):
                self._cut = None
                return rest
            rest = after
        if len(rest or text) >= LINE_SEARCH_BYTES * 64:
            self._cut = None  # it has no lines
            return ""
        self._cut = f"\n{rest}" if rest else text[-LINE_SEARCH_BYTES * 64 :]
        return ""

    def end(self) -> None:
        """End the output: show an unfinished character."""
        rest = self._decoder.decode(b"", final=True)
        if self._cut is not None:
            rest = self._after_cut(f"{self._cut}{rest}\n").removesuffix("\n")
        if rest:
            self._show(rest)


def join_output(head: bytes, tail: bytes, total_bytes: int) -> str:
    """Head and tail of an output as text, with a line between them that says how much is missing."""
    if len(head) >= total_bytes:
        return head.decode("utf-8", "replace")
    head = head[: end_of_whole(head)]
    tail = tail[start_of_whole(tail) :]
    omitted = total_bytes - len(head) - len(tail)
    first, last = head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
    return f"{first.rstrip()}\n[… {omitted:,} bytes omitted …]\n{last}"


def end_of_whole(head: bytes) -> int:
    """Where to end the head: after a line if one ends near, else after a whole character."""
    newline = head.rfind(b"\n", len(head) - LINE_SEARCH_BYTES) if len(head) > LINE_SEARCH_BYTES else -1
    if newline >= 0:
        return newline + 1
    for back in range(1, min(4, len(head)) + 1):
        byte = head[-back]
        if byte >= 0xC0:  # the start of a character: is all of it there?
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(head) if back >= size else len(head) - back
        if byte < 0x80:
            break
    return len(head)


def start_of_whole(tail: bytes) -> int:
    """Where to start the tail: at a line if one starts near, else at a character."""
    newline = tail.find(b"\n", 0, LINE_SEARCH_BYTES)
    if 0 <= newline < len(tail) - 1 and len(tail) > LINE_SEARCH_BYTES:
        return newline + 1
    start = 0
    while start < min(3, len(tail)) and 0x80 <= tail[start] < 0xC0:
        start += 1
    return start


IUTF8 = 0x4000
"""Lets the terminal take a whole character back, not a byte of one; the module termios names it from Python 3.13."""


class Streams(msgspec.Struct):
    """Our ends, which do not block, and those of the process (`Command(streams=theirs)`), each to be closed once.

    Call `close_theirs` when the process runs, or end of file is never seen; `close` at the end.
    """

    input_fd: int
    output_fd: int
    theirs: tuple[int, ...]

    def close_theirs(self) -> None:
        """Close the ends of the process."""
        theirs, self.theirs = self.theirs, ()
        for fd in theirs:
            os.close(fd)

    def close_input(self) -> None:
        """Close the input of the process; a terminal stays open."""
        if self.input_fd not in (-1, self.output_fd):
            os.close(self.input_fd)
            self.input_fd = -1

    def close(self) -> None:
        """Close everything; may be called twice."""
        self.close_theirs()
        self.close_input()
        if self.output_fd != -1:
            os.close(self.output_fd)
            self.input_fd = self.output_fd = -1


def open_pipes() -> Streams:
    """Open two pipes: one for the input of the process, and one for its output."""
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


def open_pty(rows: int, columns: int) -> Streams:
    """Open a pseudo-terminal of this size, for all streams of the process and its `/dev/tty`."""
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
    """Resize a terminal; its program gets SIGWINCH."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
