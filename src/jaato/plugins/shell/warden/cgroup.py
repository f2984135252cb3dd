"""One control group per command, where this process may make one: the kernel then kills the whole of it at once."""

from __future__ import annotations

import os
from pathlib import Path


def own_directory() -> Path | None:
    """The directory of our own version 2 control group, or None where there is none to see."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    path = next((line[3:] for line in lines if line.startswith("0::/")), None)
    for mount in mounts:
        left, _, right = mount.partition(" - ")
        if path is not None and right.startswith("cgroup2 "):
            root, point = left.split(" ")[3:5]
            inside = os.path.relpath(path, root)
            if not inside.startswith(".."):
                return Path(point) / inside
    return None


def usable() -> Path | None:
    """Our own group's directory if groups can be made in it and killed as one (Linux 5.14), else None."""
    own = own_directory()
    if own is None:
        return None
    probe = own / f"jaato-probe-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError:
        return None
    killable = (probe / "cgroup.kill").exists()
    remove(probe)
    return own if killable else None


def make(path: Path) -> bool:
    """Make the group; False when that is refused."""
    try:
        path.mkdir()
    except OSError:
        return False
    return True


def join(path: Path) -> None:
    """Move the calling process into the group; a refusal leaves it where it is."""
    try:
        (path / "cgroup.procs").write_text("0")
    except OSError:
        pass


def kill(path: Path) -> None:
    """Kill every process of the group and of the groups below it, forks in progress included."""
    try:
        (path / "cgroup.kill").write_text("1")
    except OSError:
        pass


def remove(path: Path) -> bool:
    """Remove the group and those a command made below it; False while a process is still in one."""
    try:
        for folder, _, _ in os.walk(path, topdown=False):
            os.rmdir(folder)
    except OSError:
        return False
    return True
