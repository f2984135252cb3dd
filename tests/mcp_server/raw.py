"""A client of `jaato mcp serve` that says what it likes, as bytes."""

from __future__ import annotations

import json
import os
import select
from typing import IO, Any

from tests.mcp_server.serving import House

HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PATIENCE_S = 60


class Raw:
    """A client that says what it likes."""

    def __init__(self, house: House, *flags: str, fresh: bool = False) -> None:
        self.process = house.start(*flags, fresh=fresh)
        self.said: IO[bytes] = self.process.stdout  # type: ignore[assignment]  # a pipe was asked for
        self.heard = bytearray()
        """What was read of stdout and is no whole line yet, or has not been asked for."""

    def send(self, data: bytes | dict[str, Any]) -> None:
        """Bytes as they are; an object as a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """The next message."""
        while (end := self.heard.find(b"\n")) < 0:
            assert select.select([self.said], [], [], PATIENCE_S)[0], "the server says nothing"
            piece = os.read(self.said.fileno(), 1 << 16)
            assert piece, f"the server has ended: {bytes(self.heard)!r}"
            self.heard += piece
        message: dict[str, Any] = json.loads(self.heard[:end])
        del self.heard[: end + 1]
        return message

    def call(self, name: str, **arguments: Any) -> None:
        """Ask for a call and wait for nothing."""
        params = {"name": name, "arguments": arguments}
        self.send({"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params})

    def greet(self) -> None:
        """The handshake."""
        self.send(HELLO)
        assert self.read()["id"] == 0
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def end(self) -> tuple[int, bytes]:
        """Close stdin; gives the exit code and what was left on stdout."""
        rest, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, bytes(self.heard) + rest

    def close(self) -> None:
        """Leave nothing of it, whatever the test did."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
