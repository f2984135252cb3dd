"""A link between the browser and the server that can hold what the page sends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.page.browser import Desk

PIECE_BYTES = 16_384


class SlowLink:
    """Relays each connection; while it `carries` nothing, what the page sends stays on the way."""

    def __init__(self, desk: Desk) -> None:
        self.carries = threading.Event()
        self.carries.set()
        self._target = ("127.0.0.1", desk.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self.connections = 0
        port = self._listener.getsockname()[1]
        self.arguments = [f"--host-resolver-rules=MAP 127.0.0.1:{desk.port} 127.0.0.1:{port}"]
        """What Chromium is started with to reach the server over this link."""
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                page, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:  # the server is gone
                page.close()
                continue
            self.connections += 1
            self._sockets += [page, server]
            for source, target in ((page, server), (server, page)):
                self._threads.append(threading.Thread(target=self._relay, args=(source, target)))
                self._threads[-1].start()

    def _relay(self, source: socket.socket, target: socket.socket) -> None:
        is_sent = target.getpeername() == self._target
        with suppress(OSError):
            while data := source.recv(PIECE_BYTES):
                if is_sent:
                    self.carries.wait()
                target.sendall(data)
        end(source, target)

    def close(self) -> None:
        """End every connection."""
        self.carries.set()
        end(*self._sockets)
        for thread in list(self._threads):
            thread.join()
        for one in self._sockets:
            one.close()


def end(*sockets: socket.socket) -> None:
    """Wake whoever reads or writes one of these."""
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextmanager
def slow_link(desk: Desk) -> Iterator[SlowLink]:
    """A link that is closed with the body."""
    made = SlowLink(desk)
    try:
        yield made
    finally:
        made.close()
