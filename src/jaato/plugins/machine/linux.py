"""Processes and listening sockets from `/proc`."""

from __future__ import annotations

import ipaddress
import os
import pwd
import re
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from jaato.plugins.machine.rows import Listener, Process

PROC = Path("/proc")
MAX_COMMAND_BYTES = 16_384
SOCKET = re.compile(r"socket:\[(\d+)\]")
TABLES = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
"""The tables of sockets, each with the state that means waiting for others."""
STATES = {
    "R": "running", "S": "sleeping", "D": "waiting for a disk", "T": "stopped", "t": "traced", "Z": "zombie",
    "X": "dead", "I": "idle", "P": "parked",
}  # fmt: skip


def processes() -> Iterator[Process]:
    """Every process that can be seen; those that end meanwhile are left out."""
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    booted = boot_time()
    for entry in os.scandir(PROC):
        if not entry.name.isdigit():
            continue
        try:
            stat = read(f"{entry.path}/stat").decode("utf-8", "replace")
            command = read(f"{entry.path}/cmdline")
            owner = entry.stat().st_uid
        except OSError:
            continue
        head, _, rest = stat.rpartition(")")
        values = rest.split()
        if len(values) < 22:
            continue
        arguments = command.rstrip(b"\0").decode("utf-8", "replace").split("\0") if command else []
        yield Process(
            pid=int(entry.name),
            parent=int(values[1]),
            name=head.partition("(")[2],
            user=user(owner),
            state=STATES.get(values[0], values[0]),
            cpu_s=(int(values[11]) + int(values[12])) / ticks,
            memory_bytes=int(values[21]) * page,
            started_at_s=booted + int(values[19]) / ticks,
            command=tuple(arguments),
        )


def read(path: str) -> bytes:
    """The first bytes of a file of `/proc`."""
    with open(path, "rb") as file:
        return file.read(MAX_COMMAND_BYTES)


def boot_time() -> float:
    """When the machine was started, in seconds since 1970."""
    found = re.search(rb"^btime (\d+)$", (PROC / "stat").read_bytes(), re.MULTILINE)
    return float(found[1]) if found else 0.0


@lru_cache(maxsize=256)
def user(number: int) -> str:
    """A user's name, or the number where there is none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def listeners() -> list[Listener]:
    """The sockets that wait for others in this network, each with its process where that can be seen."""
    waiting = dict(sockets())
    owners = owners_of(set(waiting))
    return [found._replace(pid=owners.get(inode)) for inode, found in waiting.items()]


def sockets() -> Iterator[tuple[str, Listener]]:
    """Each waiting socket by its inode."""
    for table, state in TABLES.items():
        try:
            lines = (PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] != state or not fields[2].endswith(":0000"):
                continue  # of a connected UDP socket the other end is named
            address, port = fields[1].split(":")
            yield fields[9], Listener(table.removesuffix("6"), host(address), int(port, 16))


def host(text: str) -> str:
    """An address as the kernel writes it: words of the machine's byte order, in hexadecimal."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    return str(ipaddress.ip_address(struct.pack(f"={len(words)}I", *words)))


def owners_of(inodes: set[str]) -> dict[str, int]:
    """The lowest process that holds each socket."""
    found: dict[str, int] = {}
    for pid in sorted(int(name) for name in os.listdir(PROC) if name.isdigit()):
        try:
            names = os.listdir(f"{PROC}/{pid}/fd")
        except OSError:
            continue
        for name in names:
            try:
                link = SOCKET.fullmatch(os.readlink(f"{PROC}/{pid}/fd/{name}"))
            except OSError:
                continue
            if link and link[1] in inodes:
                found.setdefault(link[1], pid)
        if len(found) == len(inodes):
            break
    return found
