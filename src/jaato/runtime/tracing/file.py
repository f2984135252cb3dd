"""Spans in a local file: one OTLP document a line, begun anew when it is full, shared by any number of processes."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from jaato.runtime.tracing.otlp import document
from jaato.runtime.tracing.outlet import SinkFault
from jaato.runtime.tracing.spans import Span, Value

LOCKED_WITHIN_S = 5.0
FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class TraceFile:
    """A file of spans, readable by its owner alone. When it would grow beyond `max_bytes` it becomes `NAME.1`, in place of
    the one before."""

    linger_s = 0.05

    def __init__(self, path: Path, max_bytes: int, resource: Mapping[str, Value]) -> None:
        self.name = f"the file {path}"
        self.path = path
        self._max_bytes = max_bytes
        self._resource = resource

    def ready(self) -> str:
        """Why it cannot be written; empty when it can."""
        try:
            os.close(self._opened())
        except SinkFault as fault:
            return str(fault)
        return ""

    def send(self, spans: Sequence[Span], closing: threading.Event) -> int:
        """Append a line for each span, all or none of those that go into one file."""
        lines = [document([span], self._resource) + b"\n" for span in spans]
        try:
            while lines:
                lines = lines[self._append(lines, closing) :]
        except OSError as error:
            raise SinkFault(f"{error.strerror or error}.") from None
        return 0

    def close(self) -> None:
        """It is open only while it is written."""

    def _append(self, lines: list[bytes], closing: threading.Event) -> int:
        """Append the first lines, as many as there is room for, at least one; gives how many."""
        fd = self._locked(closing)
        try:
            size = os.fstat(fd).st_size
            torn = b"\n" if size and os.pread(fd, 1, size - 1) != b"\n" else b""
            data, count = torn, 0
            while count < len(lines) and (
                not count or size + len(data) + len(lines[count]) <= self._max_bytes
            ):
                data += lines[count]
                count += 1
            if size and size + len(data) > self._max_bytes:
                os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))
                return 0
            self._write(fd, data, size)
            return count
        finally:
            os.close(fd)

    def _write(self, fd: int, data: bytes, size: int) -> None:
        """All of it or nothing, as long as the process lives."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(fd, view) :]
        except OSError:
            os.ftruncate(fd, size)
            raise

    def _opened(self) -> int:
        """The file, made where there is none. Raises `SinkFault`."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self.path, FLAGS, 0o600)
        except (OSError, ValueError) as error:
            raise SinkFault(f"{getattr(error, 'strerror', None) or error}.") from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise SinkFault("it is no regular file.")
        return fd

    def _locked(self, closing: threading.Event) -> int:
        """The file at the path, which no other process writes or moves as long as it is open. Raises `SinkFault`."""
        until = time.monotonic() + LOCKED_WITHIN_S
        while True:
            fd = self._opened()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(fd), os.stat(self.path)):
                    return fd
            except OSError:
                pass  # another writes, or has just moved it
            os.close(fd)
            if time.monotonic() > until:
                raise SinkFault("another process keeps it locked.")
            closing.wait(0.005) if not closing.is_set() else time.sleep(0.005)
