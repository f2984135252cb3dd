"""What the sessions of a store have reserved of the day's budget: small files beside it, ordered by a lock between processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from jaato.abc.store import BudgetDay
from jaato.storage.errors import file_error
from jaato.storage.leases import try_lock
from jaato.storage.private_files import FILE_MODE, private_directory
from jaato.typed_decoding import decode_json

MOST_BYTES = 1 << 20
OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Reserved(msgspec.Struct, frozen=True):
    """What the running calls of a session may use."""

    session_id: str
    tokens: int
    usd: float


class FileDayLedger:
    """The reservations in a directory. One of a session whose holder has died does not count, and is removed.

    A session writes its own file; to add to it takes the lock, so that nobody reserves between what it has read and what it
    writes. To take away from it does not: what was used is in the log by then.
    """

    def __init__(self, directory: Path, is_alive: Callable[[str], bool]) -> None:
        self._directory = directory
        self._is_alive = is_alive

    def try_lock(self) -> Callable[[], None] | None:
        """Lock the ledger; returns the function that unlocks it, None while another process or session has it."""
        private_directory(self._directory)
        path = self._directory / "day"
        try:
            descriptor = os.open(path, OPEN, FILE_MODE)
        except OSError as error:
            raise file_error(error, path) from error
        if try_lock(descriptor):
            return lambda: os.close(descriptor)
        os.close(descriptor)
        return None

    def load_day(self) -> BudgetDay:
        """The day as it was saved; an empty one where it was not. Under the lock."""
        try:
            return decode_json((self._directory / "day").read_bytes()[:MOST_BYTES], BudgetDay)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return BudgetDay()

    def save_day(self, day: BudgetDay) -> None:
        """Save the day. Under the lock."""
        self._write(self._directory / "day", msgspec.json.encode(day))

    def read_reserved(self, except_session: str) -> tuple[int, float]:
        """Tokens and US dollars that the other sessions have reserved. Under the lock."""
        tokens, usd = 0, 0.0
        for one, path in self._entries():
            if one.session_id == except_session:
                continue
            if self._is_alive(one.session_id):
                tokens, usd = tokens + one.tokens, usd + one.usd
            else:
                path.unlink(missing_ok=True)
        return tokens, usd

    def reserve(self, session_id: str, tokens: int, usd: float) -> None:
        """Write what a session has reserved now, in all; nothing removes its file."""
        path = self._path(session_id)
        if tokens or usd:
            self._write(path, msgspec.json.encode(Reserved(session_id, tokens, usd)))
        else:
            path.unlink(missing_ok=True)

    def _entries(self) -> Iterator[tuple[Reserved, Path]]:
        for path in self._directory.glob("*.reserved"):
            with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
                yield decode_json(path.read_bytes(), Reserved), path

    def _path(self, session_id: str) -> Path:
        return self._directory / f"{hashlib.sha256(session_id.encode()).hexdigest()[:32]}.reserved"

    def _write(self, path: Path, data: bytes) -> None:
        """Write a small file in place, so that a lock on it stays."""
        try:
            descriptor = os.open(path, OPEN, FILE_MODE)
            try:
                os.pwrite(descriptor, data, 0)
                os.ftruncate(descriptor, len(data))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise file_error(error, path) from error
