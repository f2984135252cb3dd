"""A process and a listening socket as data."""

from __future__ import annotations

from typing import NamedTuple


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
