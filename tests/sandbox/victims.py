"""Processes outside that an attack may harm, and what can be seen of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import signal
from pathlib import Path
from typing import Any

from tests.sandbox.attacks.table import call

CANARY = "whole and well, and longer than one might think"
BUFFER = ctypes.create_string_buffer(CANARY.encode(), 64)
"""Where a victim's canary is: at the same address in each."""


def started() -> int:
    """A copy of this process that waits, in a process group of its own."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        while True:
            signal.pause()
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    return pid


def state_of(pid: int) -> tuple[object, ...]:
    """What can be changed of a process from outside."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            memory.seek(ctypes.addressof(BUFFER))
            data = memory.read(len(CANARY))
        nice = os.getpriority(os.PRIO_PROCESS, pid)
        most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    except OSError as error:
        return (error.errno,)
    kept = [line for line in lines if line.startswith(("State", "TracerPid"))]
    awake = re.compile(r"R \(running\)|D \(disk sleep\)")  # as it may be at any moment
    return (*[awake.sub("S (sleeping)", line) for line in kept], data, nice, most)


def quiet(*arguments: Any) -> None:
    """A system call whose failure does not matter."""
    with contextlib.suppress(OSError):
        call(*arguments)


def ended(pid: int) -> None:
    """Kill a child and wait for it."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
