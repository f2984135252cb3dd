"""Capture a command's output in bounded memory: head and tail, a spool file with all of it, a throttled copy."""

from __future__ import annotations

import fcntl
import os
import stat
import time

SPOOL_PREFIX = "jaato-run-"
STALE_S = 24 * 3600.0
SHOWN_BYTES = 16384
SHOW_EVERY_S = 0.05


class Captured:
    """Captures output as it comes.

    `bound_bytes` may reach the model; above it everything also goes to the file `spool`, up to `cap_bytes`.
    Without a `spool` there is no end to what may be printed.
    """

    def __init__(self, bound_bytes: int, cap_bytes: int, spool: str) -> None:
        self.bound_bytes = bound_bytes
        self.cap_bytes = cap_bytes
        self.spool = spool
        self.total = 0
        self.head = bytearray()
        self.last = bytearray()
        self.pending = bytearray()
        self.skipped = 0
        self.spool_error = ""
        self._file = -1
        self._shown_at = 0.0

    @property
    def over_cap(self) -> bool:
        """Whether the command printed more than is kept."""
        return bool(self.spool) and self.total > self.cap_bytes

    def take(self, data: bytes) -> None:
        """Add a piece of output."""
        if (
            self.total + len(data) > self.bound_bytes
            and self._file < 0
            and self.spool
            and not self.spool_error
        ):
            self._open()
        self.total += len(data)
        if self._file >= 0 and not self.over_cap:
            self._write(data)
        room = self.bound_bytes - len(self.head)
        if room > 0:
            self.head += data[:room]
        self.last += data[-self.bound_bytes :]
        if len(self.last) > 4 * self.bound_bytes:
            del self.last[: -self.bound_bytes]
        self.pending += data[-SHOWN_BYTES:]
        over = len(self.pending) - SHOWN_BYTES
        self.skipped += max(len(data) - SHOWN_BYTES, 0) + max(over, 0)
        if over > 0:
            del self.pending[:over]

    def due_in(self) -> float:
        """Seconds until the pending output should be shown; 0 when now."""
        return max(0.0, self._shown_at + SHOW_EVERY_S - time.monotonic())

    def show(self) -> tuple[int, bytes]:
        """How many bytes were left out, and the output since the last time."""
        shown = (self.skipped, bytes(self.pending))
        self.skipped = 0
        self.pending.clear()
        self._shown_at = time.monotonic()
        return shown

    def ends(self) -> tuple[bytes, bytes]:
        """All of it and nothing when it fits the bound, else half the bound from each end."""
        if self.total <= self.bound_bytes:
            return bytes(self.head), b""
        half = self.bound_bytes // 2
        return bytes(self.head[:half]), bytes(self.last[-half:])

    def close(self) -> bool:
        """Finish the spool file; whether it holds all the output."""
        if self._file < 0:
            return False
        try:
            os.utime(self._file)  # so that it is not stale, however long ago it was written
        except OSError:
            pass
        os.close(self._file)
        self._file = -1
        return not self.over_cap and not self.spool_error

    def _open(self) -> None:
        try:
            self._file = os.open(self.spool, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self.spool_error = os.strerror(error.errno or 0)
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass  # this file system has no locks
        self._write(bytes(self.head))

    def _write(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self.spool_error = os.strerror(error.errno or 0)
            os.close(self._file)
            self._file = -1


def clear_stale(directory: str) -> None:
    """Remove stale spool files of this user (unused for a day), which a killed jaato has left."""
    try:
        names = [name for name in os.listdir(directory) if name.startswith(SPOOL_PREFIX)]
    except OSError:
        return
    for name in names:
        path = f"{directory}/{name}"
        try:
            seen = os.lstat(path)
            if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.getuid():
                continue
            if time.time() - seen.st_mtime < STALE_S:
                continue
            spool = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(spool, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        except OSError:
            continue  # its supervisor still writes it
        finally:
            os.close(spool)


def last_line(output: bytes) -> str:
    """The last line that was printed, where an error says what it is."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][-400:] if lines else "it gave no reason"
