"""The table of attacks, and what each is told of the world outside."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, RENAME_EXCHANGE = -100, 2
MODULES = ("files", "workspace", "secrets", "processes", "mounts", "sockets", "calls")
ARM = platform.machine() == "aarch64"


class World:
    """What an attacker knows: everything about the outside but the secrets themselves."""

    def __init__(self, told: dict[str, Any], name: str) -> None:
        self.told = told
        self.name = name
        self.outside = f"{told['outside']}/{name}"
        """A directory of this attack's own, outside, with a file `canary`."""
        self.canary = f"{self.outside}/canary"
        self.workspace: str = told["workspace"]
        self.inside = f"{told['workspace']}/attacks/{name}"
        """A directory of this attack's own in the workspace."""

    def __getattr__(self, name: str) -> Any:
        return self.told[name]

    @property
    def victim(self) -> int:
        """The process id of a process outside that is this attack's own."""
        return int(self.told["victims"][self.name])


Play = Callable[[World], object]


@dataclass(frozen=True)
class Attack:
    """One attack. It does harm if it returns True or a secret, or if its canary, victim or listener is touched.

    `needs` is who it works for without a sandbox: anyone, root or an ordinary user. `held` are the profiles in which it
    must fail. `weak` says that it also works in bubblewrap where root keeps its capabilities and there is no filter.
    """

    name: str
    play: Play
    needs: str
    held: tuple[str, ...]
    weak: bool
    victim: bool


ATTACKS: dict[str, Attack] = {}


def attack(
    needs: str = "any",
    held: tuple[str, ...] = ("read-only", "workspace-write"),
    *,
    weak: bool = False,
    victim: bool = False,
) -> Callable[[Play], Play]:
    """Put a function into the table under its own name."""

    def put(play: Play) -> Play:
        name = play.__name__
        ATTACKS[name] = Attack(name, play, needs, held, weak, victim)
        return play

    return put


def call(x86_64: int, aarch64: int, *arguments: Any) -> int:
    """A system call by its number; raises OSError."""
    number = aarch64 if ARM else x86_64
    # An int would be passed with 32 bits, the rest of the word being what was there before.
    whole = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *whole)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)


def libc(name: str, *arguments: Any) -> int:
    """A function of libc that returns -1 for a failure; raises OSError."""
    result = getattr(LIBC, name)(*arguments)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)


def write(path: str, text: str = "harmed") -> None:
    """Change a file that is there."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, text.encode())
    os.close(fd)


def read(path: str) -> str:
    """All of a file."""
    with open(path, "rb") as file:
        return file.read(1 << 20).decode("utf-8", "replace")
