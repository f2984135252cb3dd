"""Frames on the pipe between jaato and a supervisor: one type byte, four length bytes, the payload."""

from __future__ import annotations

import marshal
import struct

TYPE_CHECKING = False  # as in typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

HEADER = struct.Struct("!cI")
MAX_FRAME_BYTES = 64 << 20

COMMAND = b"c"  # to the warden, with a socket and streams: a supervisor for a command
JOINED_COMMAND = b"j"  # the same, and after the streams the descriptors of the namespaces it enters
NETWORK = b"n"  # to the warden, with a socket: make a network namespace, and answer there
REQUEST = b"R"  # to the supervisor: what to run, a value
STOP = b"K"  # to the supervisor: end it now
READY = b"Y"  # the supervisor waits for its request; its control group, if it has one
STARTED = b"P"  # the command runs, a value {pid}
OUTPUT = b"O"  # a piece of output as it came
SKIPPED = b"S"  # decimal number of bytes that were not forwarded here
HEAD = b"H"  # the first bytes of the output
TAIL = b"T"  # the last bytes, when the head is not all
ENDED = b"E"  # how it ended, a value; nothing it started is alive
LOST = b"L"  # from the warden: the supervisor was killed, and then its processes


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """One frame, encoded."""
    return HEADER.pack(kind, len(payload)) + payload


def value_frame(kind: bytes, value: Any) -> bytes:
    """One frame with plain data in it; text that came from bytes keeps its surrogates."""
    return frame(kind, marshal.dumps(value))


def value_of(payload: bytes) -> Any:
    """The plain data of a frame; both ends are the same version of jaato, and only they have the socket."""
    return marshal.loads(payload)  # noqa: S302 for that reason; json takes longer to import than a command to run


class FrameDecoder:
    """Decodes frames from a byte stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """The frames that are complete now, as (kind, payload); raises ValueError on what can be none."""
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
