"""Records of changes: what was at a path before one, and the identifiers that put them in order."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import threading
import time
from datetime import datetime
from typing import Literal

from msgspec import Struct

from jaato.protocol.ids import ALPHABET, PAIRS

State = Literal["absent", "file", "link", "directory"]


class Record(Struct, frozen=True, omit_defaults=True):
    """One change of one path: what was there before. `path` is relative to the workspace, or absolute."""

    id: str
    path: str
    action: str
    time: float
    before: State
    digest: str | None = None
    size_bytes: int = 0
    mode: int = 0
    link: str | None = None
    other: str | None = None
    """Where it was moved to or came from."""
    after: str | None = None
    """What the change left, as `held` says it; None where nobody knows."""
    made: list[str] = []
    """The directories that were made for it, outermost first."""
    call_id: str = ""
    session_id: str = ""
    batch: str = ""
    """The set it belongs to, whose records are forgotten together when it is taken back."""

    @property
    def held(self) -> str:
        """What was there before, to be compared: `absent`, `directory`, `file:` its hash, `link:` its target."""
        return held(self.before, self.digest, self.link)


def held(state: State, digest: str | None = None, link: str | None = None) -> str:
    """What is at a place, in one line that is equal where that is equal."""
    match state:
        case "file":
            return f"file:{digest}"
        case "link":
            return f"link:{link}"
    return state


class Ids:
    """Backup identifiers: a letter and a ULID, always greater than the last one of this process and than those it has
    passed, whatever the clock does."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> str:
        """A new identifier."""
        with self._lock:
            now = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(79)
            self._last = max(now, self._last + 1)
            number = self._last
        return id_text(number)

    def passed(self, known: str) -> None:
        """Give only greater identifiers than this one from now on; what is none does nothing."""
        if ID.fullmatch(known) is None:
            return
        number = sum(ALPHABET.index(letter) << 5 * place for place, letter in enumerate(reversed(known[1:])))
        if number < LAST:
            with self._lock:
                self._last = max(self._last, number)


def id_text(number: int) -> str:
    """An identifier as it is written."""
    return "f" + "".join([PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])


def first_id(moment: str) -> str:
    """The least identifier of a backup made at this moment (ISO 8601); empty for none."""
    try:
        return id_text(int(datetime.fromisoformat(moment).timestamp() * 1000) << 80)
    except ValueError:
        return ""


ID = re.compile(r"f[0-9A-HJKMNP-TV-Z]{26}")
LAST = 1 << 129
"""Identifiers beyond are nobody's: the clock would have to run for millennia."""
IDS = Ids()
"""The one source of identifiers, so that those of one process have an order."""


def state_of(mode: int) -> State:
    """What a mode says is there, as records name it."""
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "file"


def folder_of(path: str) -> str:
    """The directory of a path's records."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
