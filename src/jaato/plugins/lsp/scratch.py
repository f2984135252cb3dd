"""A directory for the temporary files of one language server, which leaves them behind when it is killed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "jaato-lsp-"
ABANDONED_S = 86_400.0
"""A process that cannot be seen may live all the same, in another container that shares the directory."""


def make(environ_tmp: str | None) -> Path | None:
    """A new directory, and those a killed jaato left a day ago are gone; None where none can be made, as on a full disk."""
    above = Path(environ_tmp or tempfile.gettempdir())
    try:
        for old in above.glob(f"{PREFIX}*"):
            abandoned = old.lstat().st_mtime < time.time() - ABANDONED_S
            if abandoned and not alive(old.name.removeprefix(PREFIX).partition("-")[0]):
                remove(old)
        return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=above))
    except OSError:
        return None


def remove(place: Path | None) -> None:
    """Remove it with all that is in it."""
    if place is not None:
        shutil.rmtree(place, ignore_errors=True)


def alive(pid: str) -> bool:
    """Whether a process of this number is there; so it is taken to be for what is no number."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, OverflowError):
        return True
    return True
