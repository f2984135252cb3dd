"""An answer that comes while the call is under way: what the tool says, then its result; as server-sent events or as lines
of JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from jaato.tools.invisible_text import escape_invisible

ACCEPTED = "application/x-ndjson, text/event-stream;q=0.9, application/json;q=0.8"
MAX_SHOWN_CHARS = 1_000_000
"""What is shown of one call while it is under way; the result is none of it."""
LINE = re.compile(rb"\r\n|\n|\r")
KINDS: dict[str, Literal["sse", "ndjson"]] = {
    "text/event-stream": "sse",
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
}

Hear = Callable[[str], None]


class Said(msgspec.Struct):
    """One event: `output` with a text, `result` with the whole result; others are for who knows them."""

    type: str = ""
    text: str = ""
    result: msgspec.Raw = msgspec.Raw()


SAID: msgspec.json.Decoder[Said] = msgspec.json.Decoder(Said)


class Reader:
    """Takes a stream apart. `result` is the body of the answer once it is there; nothing that comes later counts."""

    def __init__(self, kind: Literal["sse", "ndjson"], hear: Hear) -> None:
        self.result: bytes | None = None
        self._hear = hear
        self._shown = 0
        self._rest = bytearray()
        self._looked = 0
        self._sse = kind == "sse"
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        self._rest += chunk
        while self.result is None:
            found = LINE.search(self._rest, self._looked)
            if found is None or (found[0] == b"\r" and found.end() == len(self._rest)):
                self._looked = max(0, len(self._rest) - 1)
                return  # it may be half of a line's end
            line = bytes(self._rest[: found.start()])
            del self._rest[: found.end()]
            self._looked = 0
            self._field(line) if self._sse else self._object(line)

    def end(self) -> bytes:
        """The body of the answer, all bytes being there; empty where there is none."""
        if self.result is None and not self._sse:
            self._object(bytes(self._rest))  # the last line need not end
        return self.result or b""

    def _field(self, line: bytes) -> None:
        """One line of an event; an empty one ends it."""
        if line:
            name, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
            value = value.removeprefix(b" ")
            if name == b"event":
                self._name = value
            elif name == b"data":
                self._data.append(value)
            return
        name, data = self._name, b"\n".join(self._data)
        self._name, self._data = b"", []
        if name == b"result":
            self.result = data
        elif name == b"output":
            self._show(decoded(data))

    def _object(self, line: bytes) -> None:
        said = decoded(line)
        if said is not None and said.type == "result":
            self.result = bytes(said.result)
        elif said is not None and said.type == "output":
            self._show(said)

    def _show(self, said: Said | None) -> None:
        """Show what the tool says, as a stranger's words."""
        if said is None or not said.text or self._shown >= MAX_SHOWN_CHARS:
            return
        text = said.text[: MAX_SHOWN_CHARS - self._shown]
        self._shown += len(text)
        self._hear(escape_invisible(text))


def reader_for(content_type: str, hear: Hear | None) -> Reader | None:
    """What takes an answer of this content type apart; None where it is no stream."""
    kind = KINDS.get(content_type.partition(";")[0].strip().lower())
    return None if kind is None or hear is None else Reader(kind, hear)


def decoded(data: bytes) -> Said | None:
    """An event; None for what is none."""
    try:
        return SAID.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
