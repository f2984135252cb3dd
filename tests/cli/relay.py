"""`jaato` for clients that start it themselves: has a process that has loaded it fork, and gives its streams. Standard library alone.

Arguments: the socket of that process (`tests.cli.warm`), and what `jaato` is given.
"""

from __future__ import annotations

import json
import os
import socket
import sys


def main(path: str, *args: str) -> int:
    """Wait for the command; gives its exit code."""
    asked = {"args": args, "env": dict(os.environ), "cwd": os.getcwd(), "terminal": False, "without": []}  # noqa: TID251
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(path)
        socket.send_fds(line, [json.dumps(asked).encode()], [0, 1, 2])
        for number in (0, 1, 2):
            os.close(number)
        line.recv(64)
        return int(line.recv(64))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
