"""What a server prints as errors and what was wrong with its messages: the tail in memory for error messages, and a log file
of bounded size for `jaato mcp logs`."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from jaato.errors import ConfigError
from jaato.plugins.mcp.config import ServerConfig
from jaato.tools.filesystem.atomic import read_bounded, write_private

TAIL_CHARS = 8_000
SHOWN_CHARS = 1_500
MAX_NOTES = 50


class ServerLog:
    """The tail of what a server printed as errors, and notes on its conduct, `mask`ed. Safe from any thread."""

    def __init__(self, also: Callable[[str], None] | None = None, mask: Callable[[str], str] = str) -> None:
        self._lock = threading.Lock()
        self._mask = mask
        self._also = also
        self._parts: deque[str] = deque()
        self._chars = 0
        self._notes: Counter[str] = Counter()

    def write(self, text: str) -> None:
        """Some more of its errors."""
        text = self._mask(text[-TAIL_CHARS:])
        with self._lock:
            self._parts.append(text)
            self._chars += len(text)
            while self._chars - len(self._parts[0]) >= TAIL_CHARS:
                self._chars -= len(self._parts.popleft())
        if self._also is not None:
            self._also(text)

    def note(self, text: str) -> None:
        """Something about its conduct; the same is counted, not repeated."""
        with self._lock:
            if text in self._notes or len(self._notes) < MAX_NOTES:
                self._notes[text] += 1
                first = self._notes[text] == 1
            else:
                first = False
        if first and self._also is not None:
            self._also(f"[jaato] {text}\n")

    def tail(self, chars: int = TAIL_CHARS) -> str:
        """The end of its errors."""
        with self._lock:
            text = "".join(self._parts)
        return self._mask(text)[-chars:]

    def notes(self) -> list[str]:
        """What was noted, with how often."""
        with self._lock:
            return [text if times == 1 else f"{text} ({times} times)" for text, times in self._notes.items()]

    def explain(self) -> str:
        """Notes and tail as they end an error message; empty when there is nothing to say."""
        notes = "; ".join(self.notes()[-5:])
        tail = self.tail(SHOWN_CHARS).strip()
        summary = f" It {notes}." if notes else ""
        return summary + (f" The end of its errors: {tail}" if tail else "")


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
