"""Frames between jaato and a supervisor: one type byte, four length bytes, the payload."""

from __future__ import annotations

import json
import struct
from typing import Any

HEADER = struct.Struct("!cI")
MAX_FRAME_BYTES = 64 << 20

REQUEST = b"R"  # to the supervisor: what to run, JSON
STOP = b"K"  # to the supervisor: end it now
STARTED = b"P"  # the command runs, JSON {pid}
OUTPUT = b"O"  # a piece of output as it came
SKIPPED = b"S"  # decimal number of bytes that were not forwarded here
HEAD = b"H"  # the first bytes of the output
TAIL = b"T"  # the last bytes, when the head is not all
ENDED = b"E"  # how it ended, JSON; nothing it started is alive
LOST = b"L"  # the warden's word that the supervisor was killed and its processes were too


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """One frame, encoded."""
    return HEADER.pack(kind, len(payload)) + payload


def json_frame(kind: bytes, value: Any) -> bytes:
    """One frame with JSON in it; text that came from bytes keeps its surrogates."""
    return frame(kind, json.dumps(value, separators=(",", ":")).encode())


class Frames:
    """Frames out of a byte stream, however it was cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """The frames that are complete now, as (kind, payload). Raises ValueError on what cannot be a frame."""
        self._buffer += data
        found = []
        while len(self._buffer) >= HEADER.size:
            kind, size = HEADER.unpack_from(self._buffer)
            if size > MAX_FRAME_BYTES:
                raise ValueError(f"a frame of {size} bytes")
            end = HEADER.size + size
            if len(self._buffer) < end:
                break
            found.append((kind, bytes(self._buffer[HEADER.size : end])))
            del self._buffer[:end]
        return found
