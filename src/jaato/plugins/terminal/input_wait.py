"""Detects whether a program in the foreground of a terminal waits for input, from `/proc` (Linux)."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from typing import NamedTuple

MAX_MEMBERS = 64
MAX_THREADS = 64
MAX_DESCRIPTORS = 4096
CONTROLLING = os.makedev(5, 0)
"""The device of `/dev/tty`."""
POLLIN = 0x0001

CALLS = {
    "x86_64": {
        0: "read", 19: "read", 7: "poll", 271: "poll", 23: "select", 270: "select", 232: "epoll", 281: "epoll", 441: "epoll",
    },
    "aarch64": {63: "read", 65: "read", 73: "poll", 72: "select", 22: "epoll", 441: "epoll"},
}  # fmt: skip
"""The system calls a program waits for input in, by their numbers."""


class Modes(NamedTuple):
    """How a terminal is set: whether it shows what is typed, and takes whole lines."""

    echoes: bool
    by_line: bool


class ForegroundState(NamedTuple):
    """What the programs in the foreground of a terminal do. `reads`: one waits for this terminal and nothing else;
    `polls`: for this terminal among others; `idle`: all sleep, for an unknown reason; `awake`: one is running."""

    reads: bool = False
    polls: bool = False
    idle: bool = False
    awake: bool = False


def read_modes(fd: int) -> Modes:
    """The modes of the terminal behind a descriptor; raises `termios.error` when it is gone."""
    flags = termios.tcgetattr(fd)[3]
    return Modes(bool(flags & termios.ECHO), bool(flags & termios.ICANON))


def check_foreground(group: int, device: int, leader: int = 0) -> ForegroundState:
    """Look at every thread of a process group; `device` is the terminal's. Never raises.

    When all of the group sleeps, those count as well that have left the session of `leader` with a descriptor of the
    terminal, as what `setsid`, `su -c` and tmux start.
    """
    calls = CALLS.get(os.uname().machine, {})
    rows = read_processes()
    members = [name for name, row in rows.items() if row[2] == str(group)][:MAX_MEMBERS]
    found = check_threads(members, (device, CONTROLLING), calls)
    if found.reads or found.polls or found.awake:
        return found
    others = check_threads(find_detached_processes(leader, rows), (device,), calls)
    return found._replace(reads=others.reads, polls=others.polls)


def check_threads(pids: list[str], devices: tuple[int, ...], calls: dict[int, str]) -> ForegroundState:
    """Look at every thread of some processes."""
    polls = denied = False
    awake = False
    for pid in pids:
        for thread in process_threads(pid):
            task = f"/proc/{pid}/task/{thread}"
            kind = blocking_call(task, devices, calls)
            if kind in ("read", "poll") and has_pending_signal(task):
                kind = "running"
            if kind == "read":
                return ForegroundState(reads=True)
            polls = polls or kind == "poll"
            denied = denied or kind == "denied"
            awake = awake or kind == "running"
            if kind == "denied" and (read_stat(task) or ["X"])[0] != "S":
                awake = True
    return ForegroundState(polls=polls, idle=denied and not awake, awake=awake)


def read_processes() -> dict[str, list[str]]:
    """The fields of all processes that live, by their ids; a zombie does not."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    rows = {name: read_stat(f"/proc/{name}") for name in names if name.isdecimal()}
    return {name: row for name, row in rows.items() if len(row) > 3 and row[0] not in ("Z", "X")}


def find_detached_processes(leader: int, rows: dict[str, list[str]]) -> list[str]:
    """The processes below the one that started `leader` that are in sessions of their own."""
    if str(leader) not in rows:
        return []
    below: dict[str, list[str]] = {}
    for name, row in rows.items():
        below.setdefault(row[1], []).append(name)
    found: list[str] = []
    waiting, seen = [rows[str(leader)][1]], set[str]()
    while waiting and len(found) < MAX_MEMBERS:
        parent = waiting.pop()
        for name in below.get(parent, ()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
                if rows[name][3] != str(leader):
                    found.append(name)
    return found


def process_name(pid: int) -> str:
    """The name of a process; empty where it is unknown."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read(64).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def process_threads(pid: str) -> list[str]:
    """The threads of a process."""
    try:
        return os.listdir(f"/proc/{pid}/task")[:MAX_THREADS]
    except OSError:
        return []


def read_stat(place: str) -> list[str]:
    """The fields of a `stat` file after the name: state, parent, group, session, …"""
    try:
        with open(f"{place}/stat", "rb") as file:
            return file.read(1024).rpartition(b")")[2].decode("ascii", "replace").split()
    except OSError:
        return []


def blocking_call(task: str, devices: tuple[int, ...], calls: dict[int, str]) -> str:
    """What a thread waits for: `read` of the terminal, `poll` with it among others, `other`; `running` or `denied`."""
    try:
        with open(f"{task}/syscall", "rb") as file:
            words = file.read(256).split()
    except PermissionError:
        return "denied"
    except OSError:
        return "denied" if not calls else "other"
    if not calls:
        return "denied"
    if len(words) < 7:
        return "running" if words[:1] == [b"running"] else "other"
    kind = calls.get(int(words[0]))
    if kind is None:
        return "other"
    given = [int(word, 16) for word in words[1:7]]
    wanted = find_waited_descriptors(kind, given, task)
    if wanted is None:
        return "denied"
    on_terminal = [is_terminal(task, fd, devices) for fd in wanted]
    if not any(on_terminal):
        return "other"
    return "read" if all(on_terminal) else "poll"


def has_pending_signal(task: str) -> bool:
    """Whether a thread was sent a signal that it has yet to handle, which ends its wait."""
    try:
        with open(f"{task}/status", "rb") as file:
            masks = dict(
                line.split(b":", 1)
                for line in file.read(1 << 16).splitlines()
                if line[:3] in (b"Sig", b"Shd")
            )
        pending = int(masks[b"SigPnd"], 16) | int(masks[b"ShdPnd"], 16)
        return bool(pending & ~int(masks[b"SigBlk"], 16))
    except (OSError, KeyError, ValueError):
        return False


def find_waited_descriptors(kind: str, given: list[int], task: str) -> list[int] | None:
    """The descriptors a blocked call waits to read from; None where that is unknown."""
    try:
        match kind:
            case "read":
                return [given[0]]
            case "poll":
                count = min(given[1], MAX_DESCRIPTORS)
                data = read_memory(task, given[0], count * 8)
                return [
                    fd for fd, events, _ in struct.iter_unpack("ihh", data) if fd >= 0 and events & POLLIN
                ]
            case "select":
                count = min(given[0], MAX_DESCRIPTORS)
                if not given[1]:
                    return []
                bits = int.from_bytes(read_memory(task, given[1], (count + 63) // 64 * 8), "little")
                return [fd for fd in range(count) if bits >> fd & 1]
            case _:
                return epoll_descriptors(task, given[0])
    except OSError:
        return None
    except (struct.error, ValueError, OverflowError):
        return []


def read_memory(task: str, address: int, size: int) -> bytes:
    """Some of the memory of a process. Raises OSError."""
    with open(f"{task}/mem", "rb", buffering=0) as file:
        file.seek(address)
        return file.read(size)


def epoll_descriptors(task: str, fd: int) -> list[int]:
    """The descriptors an epoll waits for. Raises OSError."""
    with open(f"{task}/fdinfo/{fd}", "rb") as file:
        rows = [line.split() for line in file.read(1 << 16).splitlines() if line.startswith(b"tfd:")]
    return [int(row[1]) for row in rows if len(row) > 3 and int(row[3], 16) & POLLIN]


def is_terminal(task: str, fd: int, devices: tuple[int, ...]) -> bool:
    """Whether a descriptor of a process is one of these devices."""
    try:
        return os.stat(f"{task}/fd/{fd}").st_rdev in devices
    except OSError:
        return False


TIOCGSID = 0x5429
"""Asks for the leader of a terminal's session, on Linux; the module termios has no name for it. Elsewhere it is refused."""


def terminal_size(fd: int) -> tuple[int, int]:
    """The rows and columns of a terminal."""
    rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))
    return rows, columns


def session_leader(fd: int) -> int:
    """The process that leads the session of a terminal, as we see it; 0 while there is none."""
    try:
        return int(struct.unpack("i", fcntl.ioctl(fd, TIOCGSID, bytes(4)))[0])
    except OSError:
        return 0


def unread_bytes(fd: int) -> int:
    """How many typed bytes a program has not read."""
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0])


def current_modes(fd: int) -> Modes:
    """How the terminal is set; as at first where it is gone."""
    try:
        return read_modes(fd)
    except (OSError, ValueError, termios.error):
        return Modes(echoes=True, by_line=True)


def end_of_file(fd: int) -> bytes:
    """What is typed at it for the end of a file."""
    try:
        return termios.tcgetattr(fd)[6][termios.VEOF] or b"\x04"
    except (OSError, ValueError, termios.error):
        return b"\x04"
