"""Private `/tmp` directories of sessions: locked while their process lives, removed by a later one."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import os
import shutil
import stat
import tempfile
import threading
import time
from pathlib import Path

PREFIX = "jaato-private-"
MOST_LOOKED_AT = 100_000
MOST_SWEPT = 256
SWEEP_WITHIN_S = 20.0
TRIES = 5


class PrivateTmp:
    """A new directory that only this user may use, this process's until `remove`; the first one starts a sweep."""

    def __init__(self) -> None:
        begin_sweep()
        for _ in range(TRIES):
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            self._descriptor = lock_directory(str(self.path))
            if self._descriptor >= 0:
                return  # else a sweep was faster, or this file system has no locks and is never swept

    def remove(self) -> None:
        """Remove it with everything in it."""
        remove_tree(str(self.path))
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def lock_directory(path: str) -> int:
    """Lock a directory of this user; returns its descriptor, -1 if it belongs to another user or is locked."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen = os.fstat(descriptor)
        is_ours = seen.st_uid == os.geteuid() and stat.S_IMODE(seen.st_mode) == 0o700
        if is_ours and os.path.samestat(seen, os.lstat(path)):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return -1


def remove_stale() -> None:
    """Remove directories whose processes were killed; bounded in number and time."""
    until = time.monotonic() + SWEEP_WITHIN_S
    removed = 0
    with os.scandir(tempfile.gettempdir()) as entries:
        found = [one.path for one in itertools.islice(entries, MOST_LOOKED_AT) if one.name.startswith(PREFIX)]
    for path in found:
        if removed >= MOST_SWEPT or time.monotonic() > until:
            return
        descriptor = lock_directory(path)
        if descriptor >= 0:
            remove_tree(path)
            os.close(descriptor)
            removed += 1


def remove_tree(path: str) -> None:
    """Remove a directory with everything in it, also what its user may not write to now; no link is followed."""
    shutil.rmtree(path, ignore_errors=True)
    for directory, names, _ in os.walk(path):
        for one in (f"{directory}/{name}" for name in names):
            with contextlib.suppress(OSError):
                if not os.path.islink(one):
                    os.chmod(one, 0o700)
    shutil.rmtree(path, ignore_errors=True)


@functools.cache
def begin_sweep() -> threading.Thread:
    """Start the sweep in a thread, once per process."""
    thread = threading.Thread(target=remove_stale, name="jaato-sweep", daemon=True)
    thread.start()
    return thread
