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
        found = psutil.net_connections(kind="inet")
    except psutil.AccessDenied:
        found = list(own_connections(psutil))
    return [
        Listener(
            "tcp" if one.type == socket.SOCK_STREAM else "udp", one.laddr.ip, one.laddr.port, one.pid or None
        )
        for one in found
        if one.laddr
        and (one.status == psutil.CONN_LISTEN if one.type == socket.SOCK_STREAM else not one.raddr)
    ]


def own_connections(psutil: Any) -> Iterator[Any]:
    """The connections of each process that may be looked at."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            for one in process.net_connections(kind="inet"):
                yield psutil._common.sconn(*one, process.pid)  # noqa: SLF001 - the record with its process
