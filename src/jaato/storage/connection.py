"""Which databases this process has open: such a file is never opened beside SQLite.

Closing any descriptor of a file ends all locks this process has on it (POSIX). Another process would then take itself for
the last one, and remove the write-ahead log that is still written here.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter
from pathlib import Path
from typing import Any

_OPEN: Counter[tuple[int, int]] = Counter()
_LOCK = threading.RLock()
"""Taken again where a collection of garbage ends a connection while it is held."""


class Connection(sqlite3.Connection):
    """A connection whose file is known to be open while it is."""

    _place: tuple[int, int] | None = None

    def __init__(self, path: Path, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._place = place_of(path)
        with _LOCK:
            _OPEN[self._place] += 1

    def close(self) -> None:
        """Let go of the file."""
        super().close()
        self._gone()

    def __del__(self) -> None:
        """One that nobody closed is closed by SQLite; another file may have its number then."""
        self._gone()

    def _gone(self) -> None:
        place, self._place = self._place, None
        if place is None:
            return
        with _LOCK:
            _OPEN[place] -= 1
            if not _OPEN[place]:
                del _OPEN[place]


def opened_here(path: Path) -> bool:
    """Whether this process has the database at `path` open."""
    with _LOCK:
        return place_of(path) in _OPEN


def place_of(path: Path) -> tuple[int, int]:
    """The file a path leads to, whatever its name."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return found.st_dev, found.st_ino
