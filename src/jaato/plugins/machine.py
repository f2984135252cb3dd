"""The plugin `machine`: list processes and listening sockets; secrets in command lines are redacted."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import socket
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import anyio
import anyio.to_thread
import msgspec

from jaato.abc.plugin import Plugin
from jaato.tools.call import replace_surrogates
from jaato.tools.host_services import environ_of
from jaato.tools.redaction.patterns import WORDS, is_secret_name, looks_like_secret
from jaato.tools.tool import tool

SAMPLE_S = 0.2
MAX_COMMAND_CHARS = 300

Limit = Annotated[int, msgspec.Meta(ge=1, le=500)]
MAX_READ_CHARS = 16_384
WANTED = ("ppid", "name", "username", "status", "cpu_times", "memory_info", "create_time", "cmdline")
HIDDEN = "***"
NAMED = re.compile(rf"(?i)^(-{{0,2}}[\w.-]*(?:{WORDS})[\w.-]*)([=:]\s*)(.+)$", re.DOTALL)
"""An argument that carries its value: `--password=x`, `TOKEN=x`, `secret:x`."""
OPTION = re.compile(rf"(?i)^--?[\w-]*(?:{WORDS})[\w-]*$")
"""An option whose value comes next."""
HEADER = re.compile(rf"(?i)\b([\w-]*(?:{WORDS})[\w-]*\s*[:=]\s*)(?:(bearer|basic|token)\s+)?[^\s'\"&;,]+")
USERINFO = re.compile(r"(?<=://)[^/\s@]+@")
SHAPES = re.compile(
    r"\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|"
    r"\bxox[abposr]-[\w-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|\bhf_[A-Za-z0-9]{20,}|"
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*"
)
"""What well-known keys look like."""
SHORT = {
    **dict.fromkeys(("mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "sshpass"), ("-p",)),
    **dict.fromkeys(("mongo", "mongosh", "mongodump", "mongorestore", "7z", "7za", "rabbitmqadmin"), ("-p",)),
    **dict.fromkeys(("zip", "unzip", "mosquitto_pub", "mosquitto_sub"), ("-P",)),
    **dict.fromkeys(("ldapsearch", "ldapmodify", "ldapadd", "ldapdelete", "ldapwhoami"), ("-w",)),
    "curl": ("-u", "-U", "--user", "--proxy-user"),
    "redis-cli": ("-a",),
    "smbclient": ("-U",),
    "login": ("-p",),
}
"""Programs whose option holds a password, in the same word or the next; `login` is a word after docker and its like."""


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
        before = await anyio.to_thread.run_sync(list_processes)
        begun = time.monotonic()
        await anyio.sleep(SAMPLE_S)
        found = await anyio.to_thread.run_sync(list_processes)
        passed_s = time.monotonic() - begun
        used_s = {(one.pid, one.started_at_s): one.cpu_s for one in before}
        secrets = self._secrets()
        chosen = process_tree(found, pid) if pid is not None else found
        rows = []
        for one in chosen:
            command = replace_surrogates(redact_command(one.command, secrets))
            if filter is not None and filter.lower() not in f"{one.name} {command}".lower():
                continue
            if user is not None and one.user != user:
                continue
            rows.append((one, cpu_percent(one, used_s.get((one.pid, one.started_at_s)), passed_s), command))
        rows.sort(key=lambda row: sort_key(row[0], row[1], sort))
        own = {one.pid for one in process_tree(found, os.getpid())}
        shown = [process_row(*row) | origin(row[0].pid, own) for row in rows[:limit]]
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
        listening = await anyio.to_thread.run_sync(list_listeners)
        names = {one.pid: one for one in await anyio.to_thread.run_sync(list_processes)}
        rows = []
        for one in sorted(listening, key=lambda found: (found.port, found.protocol, found.address)):
            if (port is not None and one.port != port) or protocol not in (one.protocol, "any"):
                continue
            row: dict[str, Any] = {"protocol": one.protocol, "address": one.address, "port": one.port}
            process = names.get(one.pid) if one.pid is not None else None
            if process is not None:
                command = replace_surrogates(redact_command(process.command, self._secrets()))
                row |= {
                    "pid": process.pid,
                    "process": replace_surrogates(process.name),
                    "command": command[:MAX_COMMAND_CHARS],
                }
            if filter is None or (process is not None and filter.lower() in process.name.lower()):
                rows.append(row)
        return {"listening": rows[:limit], "total": len(rows)}

    def _secrets(self) -> list[str]:
        environ = environ_of(self.host).items()
        return [value for name, value in environ if is_secret_name(name) and looks_like_secret(value)]


def process_tree(found: list[Process], pid: int) -> list[Process]:
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


def cpu_percent(now: Process, before_s: float | None, passed_s: float) -> float:
    """How much of one processor it used meanwhile, in per cent; 0 for a process that is new."""
    return 0.0 if before_s is None else round(100 * max(0.0, now.cpu_s - before_s) / passed_s, 1)


def sort_key(one: Process, cpu: float, sort: str) -> tuple[float, ...]:
    """The sort key of a process."""
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


def process_row(one: Process, cpu: float, command: str) -> dict[str, Any]:
    """A row for the model."""
    row: dict[str, Any] = {
        "pid": one.pid,
        "parent": one.parent,
        "name": replace_surrogates(one.name),
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
    """A socket that waits for others; `pid` is None when its process is not readable."""

    protocol: str
    address: str
    port: int
    pid: int | None = None


def list_processes() -> list[Process]:
    """Every process that can be seen; those of other users without the details that are not readable."""
    import psutil

    found = []
    for one in psutil.process_iter(WANTED):
        info = one.info
        line = "\0".join(info["cmdline"] or ())[:MAX_READ_CHARS]
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


def list_listeners() -> set[Listener]:
    """The sockets that wait for others; where the system tells only of one's own processes, those."""
    import psutil

    try:
        found = [(one, one.pid) for one in psutil.net_connections(kind="inet")]
    except psutil.AccessDenied:
        found = list(iterate_connections())
    return {
        Listener("tcp" if one.type == socket.SOCK_STREAM else "udp", one.laddr.ip, one.laddr.port, pid)
        for one, pid in found
        if one.laddr
        and (one.status == psutil.CONN_LISTEN if one.type == socket.SOCK_STREAM else not one.raddr)
    }


def iterate_connections() -> Iterator[tuple[Any, int]]:
    """The connections of each readable process, with its pid."""
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            for one in process.net_connections(kind="inet"):
                yield one, process.pid


def redact_command(command: Sequence[str], known: Iterable[str] = ()) -> str:
    """A command line with each secret replaced; `known` are values that are secret wherever they stand."""
    values = sorted((one for one in known if len(one) >= 8), key=len, reverse=True)
    return " ".join(redact_words([redact_argument(argument, values) for argument in command]))


def redact_words(words: Sequence[str]) -> list[str]:
    """Words of a command line without those that an option makes secret; also within the line a shell is given."""
    shown: list[str] = []
    after_option = False
    short: tuple[str, ...] = ()
    for word in words:
        if after_option and not word.startswith("--"):
            shown.append(HIDDEN)
            after_option = False
            continue
        short += SHORT.get(word.rpartition("/")[2], ())
        after_option = bool(OPTION.fullmatch(word)) or word in short
        joined = next((one for one in short if word.startswith(one) and word != one), None)
        if joined is not None and not word.startswith("--"):
            shown.append(joined + HIDDEN)
        elif re.search(r"\s", word):
            parts = re.split(r"(\s+)", word)
            shown.append(
                "".join(map("".join, zip(redact_words(parts[::2]), [*parts[1::2], ""], strict=True)))
            )
        else:
            shown.append(word)
    return shown


def redact_argument(argument: str, values: Iterable[str]) -> str:
    """One argument without what is secret in it."""
    for value in values:
        argument = argument.replace(value, HIDDEN)
    named = NAMED.match(argument)
    if named:
        return f"{named[1]}{named[2]}{HIDDEN}"
    argument = USERINFO.sub(f"{HIDDEN}@", argument)
    argument = HEADER.sub(rf"\g<1>{HIDDEN}", argument)
    return SHAPES.sub(HIDDEN, argument)
