"""A parser of server-sent events, from bytes in chunks of any size."""

from __future__ import annotations

from jaato.errors import MalformedReply

BOM = b"\xef\xbb\xbf"
MAX_EVENT_BYTES = 32 * 1024 * 1024
"""One event may be this large: a whole reply travels in the last event of some dialects."""


LINES = (b":", b"data", b"event", b"id", b"retry", b"\r", b"\n", BOM)


def is_event_stream(start: bytes) -> bool:
    """Whether bytes can be the beginning of an event stream: of a comment, a field, an empty line, or nothing."""
    return any(start.startswith(line) or line.startswith(start) for line in LINES)


class SseParser:
    """Takes bytes as they come and gives whole events as (name, data); name is "" where none was given.

    Lines end in LF, CRLF or CR, cut anywhere; comments, `id` and `retry` are skipped; several data lines are
    joined by LF; an event is complete at its blank line, so what a cut leaves unfinished is never given out.
    Raises `MalformedReply` when one event grows beyond `max_event_bytes`.
    """

    __slots__ = ("_after_cr", "_data", "_held", "_held_bytes", "_max", "_name", "_size", "_start")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._held: list[bytes] = []  # the pieces of a line that has no end yet
        self._held_bytes = 0
        self._data: list[bytes] = []  # the data lines of the event under way
        self._size = 0
        self._name = ""
        self._start = True
        self._after_cr = False

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """The events that these bytes complete, in order."""
        if self._start or self._after_cr or b"\r" in data:
            data = self._plain(data)
        if b"\n" not in data:
            if data:
                self._hold(data)
            return []
        if self._held:
            self._held.append(data)
            data = b"".join(self._held)
            self._held.clear()
            self._held_bytes = 0
        lines = data.split(b"\n")
        rest = lines.pop()
        events = self._events(lines)
        if rest:
            self._hold(rest)
        return events

    def _events(self, lines: list[bytes]) -> list[tuple[str, bytes]]:
        events: list[tuple[str, bytes]] = []
        collected = self._data
        for line in lines:
            if not line:
                if collected:
                    whole = collected[0] if len(collected) == 1 else b"\n".join(collected)
                    events.append((self._name, whole))
                    collected.clear()
                    self._size = 0
                self._name = ""
            elif line.startswith(b"data:"):
                value = line[6:] if line.startswith(b"data: ") else line[5:]
                self._size += len(value)
                if self._size > self._max:
                    self._too_large()
                collected.append(value)
            elif line.startswith(b"event:"):
                self._name = line[6:].removeprefix(b" ").decode("utf-8", "replace")
            elif line == b"data":
                collected.append(b"")
        return events

    def _plain(self, data: bytes) -> bytes:
        """The same bytes with LF as the only line end and no byte order mark in front."""
        if self._start and data:
            held = b"".join(self._held) + data
            if len(held) < len(BOM) and BOM.startswith(held):
                self._held, self._held_bytes = [held], len(held)
                return b""
            self._start = False
            self._held.clear()
            self._held_bytes = 0
            data = held.removeprefix(BOM)
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes + self._size > self._max:
            self._too_large()

    def _too_large(self) -> None:
        raise MalformedReply(
            f"One event of the stream is larger than {self._max:,} bytes; this is no answer of a model."
        )
