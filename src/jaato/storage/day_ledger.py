"""What the sessions of a store have reserved of the day's budget: small files beside it, ordered by a lock between processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from jaato.abc.store import BudgetDay
from jaato.storage.errors import file_errors
from jaato.storage.leases import try_lock
from jaato.storage.private_files import FILE_MODE, private_directory
from jaato.typed_decoding import decode_json

T = TypeVar("T")

MOST_BYTES = 1 << 20
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Reserved(msgspec.Struct, frozen=True):
    """What the running calls of a session may use."""

    session_id: str
    tokens: Annotated[int, Meta(ge=0)]
    usd: Annotated[float, Meta(ge=0)]


class FileDayLedger:
    """The reservations in a directory. One of a session whose holder has died does not count, and is removed.

    A session writes its own file; to add to it takes the lock, so that no other session reserves between what it has read
    and what it writes. To take away from it does not: what was used is in the log by then.
    """

    def __init__(self, directory: Path, is_alive: Callable[[str], bool]) -> None:
        self._directory = directory
        self._is_alive = is_alive

    def try_lock(self) -> Callable[[], None] | None:
        """Lock the ledger; returns the function that unlocks it, None while another process or session has it."""
        private_directory(self._directory)
        path = self._directory / "day"
        with file_errors(path):
            descriptor = os.open(path, WRITE, FILE_MODE)
        is_ours = False
        try:
            is_ours = try_lock(descriptor)
        finally:
            if not is_ours:
                os.close(descriptor)
        return (lambda: os.close(descriptor)) if is_ours else None

    def load_day(self) -> BudgetDay:
        """The day as it was saved; an empty one where it was not. Under the lock."""
        return read_line(self._directory / "day", BudgetDay) or BudgetDay()

    def save_day(self, day: BudgetDay) -> None:
        """Save the day. Under the lock."""
        path = self._directory / "day"
        with file_errors(path):
            write_line(path, day)

    def read_reserved(self, except_session: str) -> tuple[int, float]:
        """Tokens and US dollars that the other sessions have reserved. Under the lock."""
        tokens, usd = 0, 0.0
        for path in self._directory.glob("*.reserved"):
            one = read_line(path, Reserved)
            if one is not None and one.session_id == except_session:
                continue
            if one is not None and self._is_alive(one.session_id):
                tokens, usd = tokens + one.tokens, usd + one.usd
            else:  # of a session that has ended, or damaged
                with contextlib.suppress(OSError):
                    path.unlink()
        return tokens, usd

    def reserve(self, session_id: str, tokens: int, usd: float) -> None:
        """Write what a session has reserved now, in all; nothing removes its file."""
        path = self._directory / f"{hashlib.sha256(session_id.encode()).hexdigest()[:32]}.reserved"
        with file_errors(path):
            if tokens or usd:
                write_line(path, Reserved(session_id, tokens, usd))
            else:
                path.unlink(missing_ok=True)


def read_line(path: Path, kind: type[T]) -> T | None:
    """What the first line of a small file says; None for one that is missing, damaged or no regular file."""
    try:
        descriptor = os.open(path, READ)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        line, _, _ = os.read(descriptor, MOST_BYTES).partition(b"\n")
        return decode_json(line, kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    finally:
        os.close(descriptor)


def write_line(path: Path, value: Reserved | BudgetDay) -> None:
    """Write a small file in place, so that a lock on it stays. Its first line is what counts: what an end of this process
    leaves behind it does no harm. Raises `OSError`."""
    descriptor = os.open(path, WRITE, FILE_MODE)
    try:
        data = msgspec.json.encode(value) + b"\n"
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)
