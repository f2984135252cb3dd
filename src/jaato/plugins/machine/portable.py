"""Processes and listening sockets from psutil, where there is no `/proc`."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from jaato.errors import ToolError
from jaato.plugins.machine.rows import Listener, Process


def library() -> Any:
    """psutil, imported now; raises `ToolError` that says how to get it."""
    try:
        import psutil
    except ImportError:
        raise ToolError(
            "Without /proc this needs psutil: install jaato[machine], or use run with ps or netstat."
        ) from None
    return psutil


def processes() -> Iterator[Process]:
    """Every process that can be seen."""
    psutil = library()
    wanted = [
        "pid",
        "ppid",
        "name",
        "username",
        "status",
        "cpu_times",
        "memory_info",
        "create_time",
        "cmdline",
    ]
    for entry in psutil.process_iter(wanted):
        info = entry.info
        times, memory = info["cpu_times"], info["memory_info"]
        yield Process(
            pid=info["pid"],
            parent=info["ppid"] or 0,
            name=info["name"] or "",
            user=info["username"] or "",
            state=info["status"] or "",
            cpu_s=times.user + times.system if times else 0.0,
            memory_bytes=memory.rss if memory else 0,
            started_at_s=info["create_time"] or 0.0,
            command=tuple(info["cmdline"] or ()),
        )


def listeners() -> list[Listener]:
    """The sockets that wait for others; where the system tells only of one's own processes, those."""
    psutil = library()
    try:
        found = [(one, one.pid) for one in psutil.net_connections(kind="inet")]
    except psutil.AccessDenied:
        found = list(connections(psutil))
    return [
        made for one, pid in found if (made := listener(one, pid or None, psutil.CONN_LISTEN)) is not None
    ]


def connections(psutil: Any) -> Iterator[tuple[Any, int]]:
    """The connections of each process that may be looked at, with its number."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            for one in process.net_connections(kind="inet"):
                yield one, process.pid


def listener(one: Any, pid: int | None, listening: str) -> Listener | None:
    """A connection as a socket that waits for others, None for one that does not."""
    is_stream = one.type == socket.SOCK_STREAM
    if not one.laddr or (one.status != listening if is_stream else bool(one.raddr)):
        return None
    return Listener("tcp" if is_stream else "udp", one.laddr.ip, one.laddr.port, pid)
