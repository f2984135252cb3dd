"""Processes and listening sockets of this machine, from psutil."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_COMMAND_CHARS = 16_384
WANTED = ("ppid", "name", "username", "status", "cpu_times", "memory_info", "create_time", "cmdline")


class Process(NamedTuple):
    """A process: `cpu_s` used since it began, `memory_bytes` resident, `command` its arguments."""

    pid: int
    parent: int
    name: str
    user: str
    state: str
    cpu_s: float
    memory_bytes: int
    started_at_s: float
    command: tuple[str, ...]


class Listener(NamedTuple):
    """A socket that waits for others; `pid` is None when its process may not be looked at."""

    protocol: str
    address: str
    port: int
    pid: int | None = None


def processor_times() -> dict[tuple[int, float], float]:
    """The seconds of the processor that each process has used, by its number and when it was started."""
    import psutil

    return {
        (one.pid, one.info["create_time"] or 0.0): sum(one.info["cpu_times"][:2])
        for one in psutil.process_iter(["create_time", "cpu_times"])
        if one.info["cpu_times"]
    }


def processes() -> list[Process]:
    """Every process that can be seen; of what may not be looked at, nothing is told."""
    import psutil

    found = []
    for one in psutil.process_iter(WANTED):
        info = one.info
        line = "\0".join(info["cmdline"] or ())[:MAX_COMMAND_CHARS]
        made = Process(
            pid=one.pid,
            parent=info["ppid"] or 0,
            name=info["name"] or "",
            user=info["username"] or "",
            state=info["status"] or "",
            cpu_s=sum(info["cpu_times"][:2]) if info["cpu_times"] else 0.0,
            memory_bytes=info["memory_info"].rss if info["memory_info"] else 0,
            started_at_s=info["create_time"] or 0.0,
            command=tuple(line.split("\0")) if line else (),
        )
        found.append(made)
    return found


def listeners() -> set[Listener]:
    """The sockets that wait for others; where the system tells only of one's own processes, those."""
    import psutil

    try:
        found = [(one, one.pid) for one in psutil.net_connections(kind="inet")]
    except psutil.AccessDenied:
        found = list(connections())
    return {
        Listener("tcp" if one.type == socket.SOCK_STREAM else "udp", one.laddr.ip, one.laddr.port, pid)
        for one, pid in found
        if one.laddr
        and (one.status == psutil.CONN_LISTEN if one.type == socket.SOCK_STREAM else not one.raddr)
    }


def connections() -> Iterator[tuple[Any, int]]:
    """The connections of each process that may be looked at, with its number."""
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            for one in process.net_connections(kind="inet"):
                yield one, process.pid
