"""`process_list` and `port_list`."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Literal

import anyio
import anyio.to_thread
import msgspec

from jaato.abc.plugin import Plugin
from jaato.plugins.machine.processes import Process, listeners, processes, processor_times
from jaato.plugins.machine.secrets import hidden, secret_values
from jaato.tools.call import clean
from jaato.tools.reach import environ_of
from jaato.tools.tool import tool

SAMPLE_S = 0.2
MAX_COMMAND_CHARS = 300

Limit = Annotated[int, msgspec.Meta(ge=1, le=500)]


class MachinePlugin(Plugin):
    """Processes and listening sockets."""

    name: ClassVar[str] = "machine"

    @tool(category="system", access="read")
    async def process_list(
        self,
        filter: Annotated[str | None, "text in the name or command line"] = None,  # noqa: A002 - the plain word
        pid: Annotated[int | None, "this process and those it started"] = None,
        user: str | None = None,
        sort: Literal["cpu", "memory", "pid", "started"] = "cpu",
        limit: Limit = 30,
    ) -> dict[str, Any]:
        """Running processes with pid, parent, user, CPU, memory and command line (secrets hidden), busiest first; own:
        what jaato started. Use it to see what is running or stuck."""
        before = await anyio.to_thread.run_sync(processor_times)
        begun = time.monotonic()
        await anyio.sleep(SAMPLE_S)
        found = await anyio.to_thread.run_sync(processes)
        passed_s = time.monotonic() - begun
        secrets = self._secrets()
        chosen = family(found, pid) if pid is not None else found
        rows = []
        for one in chosen:
            command = clean(hidden(one.command, secrets))
            if filter is not None and filter.lower() not in f"{one.name} {command}".lower():
                continue
            if user is not None and one.user != user:
                continue
            rows.append((one, share(one, before.get((one.pid, one.started_at_s)), passed_s), command))
        rows.sort(key=lambda row: order(row[0], row[1], sort))
        own = {one.pid for one in family(found, os.getpid())}
        shown = [described(*row) | origin(row[0].pid, own) for row in rows[:limit]]
        return {"processes": shown, "total": len(rows)}

    @tool(category="system", access="read")
    async def port_list(
        self,
        port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None,
        protocol: Literal["tcp", "udp", "any"] = "tcp",
        filter: Annotated[str | None, "text in the name of the process"] = None,  # noqa: A002 - the plain word
        limit: Limit = 100,
    ) -> dict[str, Any]:
        """Sockets that listen on this machine: protocol, address, port and the process behind each. Use it to find
        a server's port or what holds one."""
        listening = await anyio.to_thread.run_sync(listeners)
        names = {one.pid: one for one in await anyio.to_thread.run_sync(processes)}
        rows = []
        for one in sorted(listening, key=lambda found: (found.port, found.protocol, found.address)):
            if (port is not None and one.port != port) or protocol not in (one.protocol, "any"):
                continue
            row: dict[str, Any] = {"protocol": one.protocol, "address": one.address, "port": one.port}
            process = names.get(one.pid) if one.pid is not None else None
            if process is not None:
                command = clean(hidden(process.command, self._secrets()))
                row |= {
                    "pid": process.pid,
                    "process": clean(process.name),
                    "command": command[:MAX_COMMAND_CHARS],
                }
            if filter is None or (process is not None and filter.lower() in process.name.lower()):
                rows.append(row)
        return {"listening": rows[:limit], "total": len(rows)}

    def _secrets(self) -> list[str]:
        return secret_values(environ_of(self.host).items())


def family(found: list[Process], pid: int) -> list[Process]:
    """A process and all below it."""
    below: dict[int, list[Process]] = {}
    for one in found:
        below.setdefault(one.parent, []).append(one)
    chosen: dict[int, Process] = {one.pid: one for one in found if one.pid == pid}
    waiting = list(chosen)
    while waiting:
        for child in below.get(waiting.pop(), ()):
            if child.pid not in chosen:
                chosen[child.pid] = child
                waiting.append(child.pid)
    return list(chosen.values())


def share(now: Process, before_s: float | None, passed_s: float) -> float:
    """How much of one processor it used meanwhile, in per cent; 0 for a process that is new."""
    return 0.0 if before_s is None else round(100 * max(0.0, now.cpu_s - before_s) / passed_s, 1)


def order(one: Process, cpu: float, sort: str) -> tuple[float, ...]:
    """What rows are sorted by."""
    match sort:
        case "memory":
            return (-one.memory_bytes, one.pid)
        case "pid":
            return (one.pid,)
        case "started":
            return (-one.started_at_s, -one.pid)
    return (-cpu, -one.cpu_s, one.pid)


def origin(pid: int, own: Collection[int]) -> dict[str, bool]:
    """Whether jaato started a process, and in a sandbox, where it has another process id than the one shown."""
    if pid not in own:
        return {}
    try:
        confined = os.stat(f"/proc/{pid}/ns/pid").st_ino != os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        confined = False
    return {"own": True, **({"sandbox": True} if confined else {})}


def described(one: Process, cpu: float, command: str) -> dict[str, Any]:
    """A row for the model."""
    row: dict[str, Any] = {
        "pid": one.pid,
        "parent": one.parent,
        "name": clean(one.name),
        "user": one.user,
        "state": one.state,
        "cpu_percent": cpu,
        "cpu_s": round(one.cpu_s, 1),
        "memory_mb": round(one.memory_bytes / 1_048_576, 1),
        "started": datetime.datetime.fromtimestamp(one.started_at_s)
        .astimezone()
        .isoformat(timespec="seconds"),
    }
    cut = command[:MAX_COMMAND_CHARS] + ("…" if len(command) > MAX_COMMAND_CHARS else "")
    return row | ({"command": cut} if cut else {})
