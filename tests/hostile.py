"""A program that does harm to a machine where it can, and what it would harm: all of it real."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

SECRET = "canary-key-4711"
ATTACK = """
import os, pathlib, socket
def attempt(work):
    try:
        work()
    except Exception:
        pass
def call(address, family):
    with socket.socket(family) as one:
        one.settimeout(2)
        one.connect(address)
        one.recv(1)
def send():
    said.append(key.read_text())
said = []
key = pathlib.Path({key!r})
attempt(lambda: pathlib.Path({outside!r}, 'wrote').write_text('x'))
attempt(lambda: call({path!r}, socket.AF_UNIX))
attempt(lambda: call(('127.0.0.1', {port}), socket.AF_INET))
attempt(send)
attempt(lambda: pathlib.Path({inside!r}, 'planted').write_text('x'))
attempt(lambda: pathlib.Path({loot!r}, 'key').write_text(said[0]))
os.write(2, ('attacked %s\\n' % ''.join(said)).encode())
"""
ALL = frozenset({"wrote", "key", "network", "socket", "planted"})


class Lair:
    """A home with a secret, a directory outside, a socket with a path and one on the network; `harm` says what was done.

    The workspace `work` has `attack.py`. Everything lies below `path`, which must not be below `/tmp`'s top alone.
    """

    def __init__(self, path: Path) -> None:
        self.home, self.outside, self.work = path / "home", path / "outside", path / "work"
        for place in (self.home / ".ssh", self.outside, self.work):
            place.mkdir(parents=True, exist_ok=True)
        (self.home / ".ssh" / "id_ed25519").write_text(SECRET)
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(self.home)}  # noqa: TID251 that of the tests
        self._calls: set[str] = set()
        self._exits = contextlib.ExitStack()
        tcp = socket.create_server(("127.0.0.1", 0))
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(str(self.outside / "s"))
        unix.listen()
        for name, server in (("network", tcp), ("socket", unix)):
            self._exits.enter_context(answering(server, self._calls, name))
        self.attack = self.work / "attack.py"
        self.source = ATTACK.format(
            key=str(self.home / ".ssh" / "id_ed25519"),
            outside=str(self.outside),
            loot=str(self.outside),
            path=str(self.outside / "s"),
            port=tcp.getsockname()[1],
            inside=str(self.work),
        )
        self.attack.write_text(self.source)
        self.line = f"{sys.executable} {self.attack}"

    @property
    def harm(self) -> set[str]:
        """What has been done so far."""
        found = {name for name in ("wrote", "key") if (self.outside / name).exists()}
        found |= {"planted"} if (self.work / "planted").exists() else set()
        return found | self._calls

    def repair(self) -> None:
        """Undo it."""
        for place in (self.outside / "wrote", self.outside / "key", self.work / "planted"):
            place.unlink(missing_ok=True)
        self._calls.clear()

    def __enter__(self) -> Lair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()


@contextlib.contextmanager
def answering(server: socket.socket, calls: set[str], name: str) -> Iterator[None]:
    """Note whoever connects, until this is left."""

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            calls.add(name)
            connection.close()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
