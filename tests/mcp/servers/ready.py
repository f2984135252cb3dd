"""The server with one of everything, started often: a process that has loaded it, and forks for each that is wanted.

Run as a program with the path of a socket, it listens there until its input ends; with the path and more, it asks the one
that listens there for a server with these arguments, at its own standard streams, which ends when it does.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import threading
from typing import Any


def listen(path: str) -> None:
    """Fork for each that asks."""
    import everything  # type: ignore[import-not-found]  # beside this file, which is run by itself
    import uvicorn  # noqa: F401

    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        watched: list[Any] = [listener, 0]
        while 0 not in select.select(watched, [], [])[0]:
            line, _ = listener.accept()
            data, descriptors, _, _ = socket.recv_fds(line, 1 << 16, 3)
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                for number, descriptor in enumerate(descriptors):
                    os.dup2(descriptor, number)
                    os.close(descriptor)
                threading.Thread(target=end_with, args=(line,), daemon=True).start()
                sys.argv = ["everything.py", *json.loads(data)]
                try:
                    everything.main()
                finally:
                    sys.stdout.flush()
                    os._exit(0)
            for descriptor in descriptors:
                os.close(descriptor)
            line.close()


def end_with(line: socket.socket) -> None:
    """End this process when the one that asked for it has ended."""
    line.recv(1)
    os._exit(0)


def ask(path: str, *arguments: str) -> None:
    """Have a server at the streams of this process, until one of both ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(path)
        socket.send_fds(line, [json.dumps(arguments).encode()], [0, 1, 2])
        for number in (0, 1, 2):
            os.close(number)
        line.recv(1)


if __name__ == "__main__":
    (ask if sys.argv[2:] else listen)(*sys.argv[1:])
