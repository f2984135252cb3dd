"""The log of a server: a private file with rotation by size, or stderr."""

from __future__ import annotations

import logging
import os
from pathlib import Path

MAX_BYTES = 5_000_000
"""The size at which the log is rotated; one old file is kept."""
MAX_LINE_CHARS = 10_000
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class RotatingStderr(logging.Handler):
    """Writes to stderr, which it redirects to a new file when the log is full, so that the log also contains what the
    interpreter and libraries print. `path` is None if stderr is not redirected.
    """

    def __init__(self, path: Path | None, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter(FORMAT))
        self._path = path
        self._max_bytes = max_bytes
        if path is not None:
            self._redirect()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            line = self.format(record)[:MAX_LINE_CHARS] + "\n"
            os.write(2, line.encode("utf-8", "backslashreplace"))
            if self._path is not None and os.fstat(2).st_size > self._max_bytes:
                self._path.replace(old_path(self._path))
                self._redirect()
        except OSError:
            pass  # a full disk does not stop the server

    def _redirect(self) -> None:
        """Redirect stdout and stderr to the file."""
        assert self._path is not None
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o600)
            os.dup2(fd, 1, inheritable=True)
            os.dup2(fd, 2, inheritable=True)
        finally:
            os.close(fd)


def old_path(path: Path) -> Path:
    """The path of the rotated log."""
    return path.with_name(f"{path.name}.old")


def configure_logging(path: Path | None) -> None:
    """Write the log of this process to a file; None: to stderr."""
    root = logging.getLogger("jaato")
    root.addHandler(RotatingStderr(path))
    root.setLevel(logging.INFO if path is not None else logging.WARNING)
    library = logging.getLogger("uvicorn.error")
    library.addHandler(RotatingStderr(None))
    library.setLevel(logging.ERROR)  # errors of clients are answered, not logged
    library.addFilter(lambda record: not str(record.msg).startswith("Invalid UTF-8"))
    library.propagate = False
