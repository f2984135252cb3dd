"""What each server printed as errors, kept in a private file of bounded size for `jaato mcp logs`."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from jaato.errors import ConfigError
from jaato.plugins.mcp.config import ServerConfig
from jaato.tools.filesystem.atomic import read_bounded, write_private

MAX_BYTES = 262_144
KEPT_BYTES = 131_072
MAX_PIECE_BYTES = 65_536
FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class LogFile:
    """The log of one server: called with each piece of text, from any thread; a disk that refuses loses it."""

    def __init__(self, state_dir: Path, config: ServerConfig) -> None:
        self.path = state_dir / "mcp-logs" / f"{config.identity}.log"
        self._lock = threading.Lock()
        self._begun = False

    def __call__(self, text: str) -> None:
        """Add a piece; of an absurdly long one, its end."""
        data = text.encode("utf-8", "replace")[-MAX_PIECE_BYTES:]
        with self._lock:
            try:
                if not self._begun:
                    self._begun = True
                    data = f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} process {os.getpid()}\n".encode() + data
                self._append(data)
            except (OSError, ConfigError):
                return

    def tail(self, lines: int) -> str:
        """The last lines. Raises `ConfigError`."""
        content = read_bounded(self.path, MAX_BYTES + 16 * MAX_PIECE_BYTES) or b""
        kept = content.decode("utf-8", "replace").splitlines()[-lines:]
        return "\n".join(kept)

    def remove(self) -> None:
        """Keep nothing."""
        self.path.unlink(missing_ok=True)

    def _append(self, data: bytes) -> None:
        """Add to the file, which is shortened to its newer half when it is full."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path, FLAGS, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
        if size + len(data) > MAX_BYTES:
            content = read_bounded(self.path, MAX_BYTES + 16 * MAX_PIECE_BYTES) or b""
            write_private(self.path, content[-KEPT_BYTES:].partition(b"\n")[2])
