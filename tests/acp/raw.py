"""An editor that sends bytes to `jaato acp`, and reads what comes back line by line."""

from __future__ import annotations

import json
import os
import select
import subprocess
from typing import IO, Any

from tests.cli.environment import CliEnvironment

PATIENCE_S = 60
HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


class Raw:
    """An editor that sends bytes."""

    def __init__(self, desk: CliEnvironment, *flags: str) -> None:
        self.process = desk.start("acp", *flags, stdin=subprocess.PIPE)
        self._out: IO[bytes] = self.process.stdout  # type: ignore[assignment]  # a pipe was asked for
        self._read = bytearray()
        self.text = ""
        self.completed = 0
        """How many calls have ended well."""

    def send(self, data: bytes | dict[str, Any]) -> None:
        """Bytes as they are; an object as a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """The next message that is no update; the text of updates is kept in `text`."""
        while True:
            while (end := self._read.find(b"\n")) < 0:
                assert select.select([self._out], [], [], PATIENCE_S)[0], "the agent sends nothing"
                piece = os.read(self._out.fileno(), 1 << 16)
                assert piece, "the agent has ended"
                self._read += piece
            message: dict[str, Any] = json.loads(self._read[:end])
            del self._read[: end + 1]
            if message.get("method") != "session/update":
                return message
            update = message["params"]["update"]
            if update["sessionUpdate"] == "agent_message_chunk":
                self.text += update["content"]["text"]
            self.completed += update.get("status") == "completed"

    def ask(self, request_id: Any, method: str, **params: Any) -> dict[str, Any]:
        """A request and its response."""
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        return self.read()

    def close(self) -> None:
        """End the process in any case."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                if stream is not None:
                    stream.close()
            except BrokenPipeError:
                pass  # it has read less than was sent

    def end(self) -> int:
        """End the stream; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)


def message(method: str, request: str | None = None, **params: Any) -> dict[str, Any]:
    """A request, or a notification."""
    head = {"jsonrpc": "2.0", "method": method, "params": params}
    return head if request is None else {**head, "id": request}
