"""What a server says of itself: in a private file that never grows beyond its bound, or on stderr."""

from __future__ import annotations

import logging
import os
from pathlib import Path

MAX_BYTES = 5_000_000
"""The size at which a log begins anew; the one before is kept beside it."""
MAX_LINE_CHARS = 10_000
FORM = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Bounded(logging.Handler):
    """Writes to stderr, which it turns to a new file when the file it goes to is full.

    So the file holds also what the interpreter and its libraries say. `path` is None where stderr is no file of ours.
    """

    def __init__(self, path: Path | None, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter(FORM))
        self._path = path
        self._max_bytes = max_bytes
        if path is not None:
            self._turn()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, or what a fault has for a trace."""
        try:
            line = self.format(record)[:MAX_LINE_CHARS] + "\n"
            os.write(2, line.encode("utf-8", "backslashreplace"))
            if self._path is not None and os.fstat(2).st_size > self._max_bytes:
                self._path.replace(old(self._path))
                self._turn()
        except OSError:
            pass  # a full disk: the server serves on

    def _turn(self) -> None:
        """Have stdout and stderr go to the file."""
        assert self._path is not None
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o600)
            os.dup2(fd, 1, inheritable=True)
            os.dup2(fd, 2, inheritable=True)
        finally:
            os.close(fd)


def old(path: Path) -> Path:
    """Where the log before this one is."""
    return path.with_name(f"{path.name}.old")


def keep(path: Path | None) -> None:
    """Keep the log of this process there, for good; None: on stderr."""
    root = logging.getLogger("jaato")
    root.addHandler(Bounded(path))
    root.setLevel(logging.INFO if path is not None else logging.WARNING)
    library = logging.getLogger("uvicorn.error")
    library.addHandler(Bounded(None))
    library.setLevel(logging.ERROR)  # what a client does wrong, the client is told
    library.addFilter(lambda record: not str(record.msg).startswith("Invalid UTF-8"))
    library.propagate = False
