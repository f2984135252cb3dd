"""What is asked of a terminal by its descriptor."""

from __future__ import annotations

import fcntl
import struct
import termios

from jaato.plugins.terminal.waiting import Modes, modes_of

TIOCGSID = 0x5429
"""Asks for the leader of a terminal's session, on Linux; the module termios has no name for it. Elsewhere it is refused."""


def size_of(fd: int) -> tuple[int, int]:
    """The rows and columns of a terminal."""
    rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))
    return rows, columns


def leader_of(fd: int) -> int:
    """The process that leads the session of a terminal, as we see it; 0 while there is none."""
    try:
        return int(struct.unpack("i", fcntl.ioctl(fd, TIOCGSID, bytes(4)))[0])
    except OSError:
        return 0


def unread(fd: int) -> int:
    """How many typed bytes a program has not read."""
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0])


def modes_now(fd: int) -> Modes:
    """How the terminal is set; as at first where it is gone."""
    try:
        return modes_of(fd)
    except (OSError, ValueError, termios.error):
        return Modes(echoes=True, by_line=True)


def end_of_file(fd: int) -> bytes:
    """What is typed at it for the end of a file."""
    try:
        return termios.tcgetattr(fd)[6][termios.VEOF] or b"\x04"
    except (OSError, ValueError, termios.error):
        return b"\x04"
