"""Control groups (cgroup v2), one per command where allowed: the kernel then kills all of it at once."""

from __future__ import annotations

import os
import time


def own_directory() -> str | None:
    """The directory of our own version 2 control group, or None where there is none to see."""
    try:
        with open("/proc/self/cgroup") as listing:
            lines = listing.read().splitlines()
        with open("/proc/self/mountinfo") as listing:
            mounts = listing.read().splitlines()
    except OSError:
        return None
    path = next((line[3:] for line in lines if line.startswith("0::/")), None)
    for mount in mounts:
        left, _, right = mount.partition(" - ")
        if path is not None and right.startswith("cgroup2 "):
            root, point = left.split(" ")[3:5]
            inside = os.path.relpath(path, root)
            if not inside.startswith(".."):
                return os.path.normpath(os.path.join(point, inside))
    return None


def prefix(warden: int) -> str:
    """The prefix of the names of this warden's groups; "" if groups cannot be created, or not be killed as one (Linux 5.14).

    Also kills the groups of wardens of this process namespace that are dead.
    """
    own = own_directory()
    if own is None:
        return ""
    ours = f"jaato-{os.stat('/proc/self/ns/pid').st_ino}-"
    probe = f"{own}/{ours}{warden}-probe"
    if not make(probe):
        return ""
    killable = os.path.exists(f"{probe}/cgroup.kill")
    remove(probe)
    for name in os.listdir(own) if killable else ():
        owner = name.removeprefix(ours).partition("-")[0]
        if name.startswith(ours) and owner.isdigit() and not is_alive(owner):
            end(f"{own}/{name}", time.monotonic() + 1)
    return f"{own}/{ours}{warden}-" if killable else ""


def is_alive(pid: str) -> bool:
    """Whether the process exists and is no zombie."""
    return read_state(pid) not in ("", "Z", "X")


def read_state(pid: str) -> str:
    """The state of a process (the letter of proc_pid_stat(5)); empty if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            return stat.read(4096).rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


def make(path: str) -> bool:
    """Create the group; False if that is refused."""
    try:
        os.mkdir(path)
    except OSError:
        return False
    return True


def write_file(path: str, name: str, text: bytes) -> None:
    """Write a control file of the group; a failure is ignored."""
    try:
        control = os.open(f"{path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(control, text)
    except OSError:
        pass
    finally:
        os.close(control)


def join(path: str) -> None:
    """Move the calling process into the group, if it may."""
    write_file(path, "cgroup.procs", b"0")


def kill(path: str) -> None:
    """Kill every process of the group and of the groups below it, forks in progress included."""
    write_file(path, "cgroup.kill", b"1")


def remove(path: str) -> bool:
    """Remove the group and those a command made below it; False while a process is still in one."""
    try:
        os.rmdir(path)
        return True
    except FileNotFoundError:
        return True
    except OSError:
        pass
    try:
        for folder, _, _ in os.walk(path, topdown=False):
            os.rmdir(folder)
    except OSError:
        return False
    return True


def end(path: str, until: float) -> None:
    """Kill the group and remove it, trying until `until` of `time.monotonic()`."""
    while not remove(path) and time.monotonic() < until:
        kill(path)
        time.sleep(0.001)
