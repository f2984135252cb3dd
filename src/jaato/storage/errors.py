"""Errors of disk and database as `StoreError`s that name the file and the remedy: disk full, read-only, damaged, moved."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jaato.errors import StoreError, StoreFull, StoreReadOnly

NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NO_RIGHT = {errno.EACCES, errno.EPERM, errno.EROFS}
KEPT = "Nothing was lost: what was stored before can still be read."


def database_error(error: sqlite3.Error, path: Path) -> StoreError:
    """The `StoreError` for what SQLite raised while using the database at `path`."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StoreFull(f"{path}: the disk is full ({error}). Free some space and try again. {KEPT}")
        case sqlite3.SQLITE_IOERR:
            return StoreFull(
                f"{path}: the disk refuses to be read or written ({error}). "
                f"Check free space, quota and file size limits, and try again. {KEPT}"
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return StoreReadOnly(
                f"{path} cannot be written ({error}). "
                f"Check the permissions of the file and of its directory. {KEPT}"
            )
        case sqlite3.SQLITE_CANTOPEN:
            return StoreReadOnly(
                f"{path} cannot be opened ({error}). "
                "Check that its directory exists and may be written by you."
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError(
                f"{path} is locked by another process ({error}). Wait for it or stop it, and try again."
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return make_damaged_error(path, str(error))
    return StoreError(f"{path}: {error}.")


def is_damage(error: StoreError) -> bool:
    """Whether an error comes from a part of the database that is broken, so that other parts may be whole."""
    code = getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF
    return code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR}


def file_error(error: OSError, path: Path) -> StoreError:
    """The `StoreError` for what the operating system refused at `path`."""
    why = error.strerror or str(error)
    if error.errno in NO_SPACE:
        return StoreFull(f"{path}: {why}. Free some space and try again. {KEPT}")
    if error.errno in NO_RIGHT:
        return StoreReadOnly(
            f"{path} cannot be used: {why}. Check its permissions and owner, or set XDG_STATE_HOME. {KEPT}"
        )
    if error.errno == errno.ELOOP:
        return StoreError(f"{path} is a symbolic link, and the store follows none. Put the real file there.")
    return StoreError(f"{path} cannot be used: {why}.")


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Raise the `StoreError` for what the operating system refuses the block at `path`."""
    try:
        yield
    except OSError as error:
        raise file_error(error, path) from error


def make_damaged_error(path: Path, why: str) -> StoreError:
    """The error for a database that is broken; it is never changed."""
    return StoreError(
        f"{path} is damaged ({why}). It was left as it is: move it away to start anew, "
        f"and recover what it holds with `sqlite3 {path} .recover`."
    )


def make_moved_error(path: Path) -> StoreError:
    """The error for a database that was moved or removed while it was open: later writes would be lost."""
    return StoreError(
        f"{path} was moved, removed or replaced while it was open here, so nothing is written any more. "
        "Put it back to go on; or stop what has it open (`jaato serve --stop`), and go on with what is there now."
    )


def foreign_file_error(path: Path, why: str) -> StoreError:
    """The error for a file that is no store of ours; it is never changed."""
    return StoreError(
        f"{path} is not a session store of jaato ({why}). "
        "It was left as it is: move it away, or name another path."
    )
