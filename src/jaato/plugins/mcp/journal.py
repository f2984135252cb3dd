"""What a server says beside the protocol: its errors and what was wrong with its messages, the newest of it."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable

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

    def explained(self) -> str:
        """Notes and tail as they end an error message; empty when there is nothing to say."""
        notes = "; ".join(self.notes()[-5:])
        tail = self.tail(SHOWN_CHARS).strip()
        said = f" It {notes}." if notes else ""
        return said + (f" The end of its errors: {tail}" if tail else "")
