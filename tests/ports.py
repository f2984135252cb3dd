"""A port for a server that is told which one to use."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOWEST = 10_000


def unused_port() -> int:
    """A port of this machine that nothing uses. It is below those that the kernel gives to connections and to servers that
    take any, so that none of these has it before the server does."""
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(LOWEST, first_given)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
