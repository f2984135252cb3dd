"""Landlock: restrict this process and all it starts to what may be read and what may be written."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

LIBC = ctypes.CDLL(None, use_errno=True)
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38
LEAST_VERSION = 2
"""Before it nothing could be renamed into another directory."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READING = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
SCOPES = 0b11  # abstract sockets and signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def version() -> int:
    """The version of Landlock that the kernel has; 0 where there is none, or it is turned off."""
    return max(int(LIBC.syscall(CREATE_RULESET, None, 0, CREATE_RULESET_VERSION)), 0)


def rights(abi: int) -> int:
    """All rights to files that a version knows."""
    known = {1: 13, 2: 14, 3: 15, 4: 15}
    return (1 << known.get(abi, 16)) - 1


def restrict(writable: Iterable[str]) -> None:
    """Let everything be read, and only what lies below these paths be changed; for good, also as root.

    Abstract sockets and processes outside are out of reach from version 6 on. Raises OSError.
    """
    abi = version()
    if abi < LEAST_VERSION:
        raise OSError(errno.ENOSYS, f"Landlock {abi} is too old")
    handled = rights(abi)
    attributes = struct.pack("=QQQ", handled, 0, SCOPES if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = checked("landlock", LIBC.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))
    allow(ruleset, "/", handled & (READING | IOCTL_DEV))
    for path in writable:
        allow(ruleset, path, handled)
    checked("no_new_privs", LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    checked("landlock", LIBC.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def allow(ruleset: int, path: str, allowed: int) -> None:
    """Allow what is done to a path and below it."""
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not stat.S_ISDIR(os.fstat(place).st_mode):
        allowed &= OF_FILES
    rule = struct.pack("=Qi", allowed, place)
    checked(path, LIBC.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0))
    os.close(place)


def checked(doing: str, result: int) -> int:
    """The result of a call of libc; raises OSError for a failure."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), doing)
    return result
