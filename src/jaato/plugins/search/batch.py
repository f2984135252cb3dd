"""Files searched by one run of a matcher: small ones joined into one, since a run costs more than they do."""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from jaato.plugins.search.engines import EVERY, Engine, Hits
from jaato.plugins.search.letters import Written
from jaato.plugins.search.scan import MARKS, lines_of, read_all, text_of
from jaato.plugins.search.walk import Limits

SMALL_BYTES = 1 << 20
SMALL_LINES = 50_000
FULL_BYTES = 8 << 20
FULL_LINES = 200_000
FULL_FILES = 5_000
MAX_OPEN = 16
"""Large files open at once: many searches may run at a time, and descriptors are few."""


@dataclass(slots=True)
class Part:
    """One file with text: its bytes when it is small, else open."""

    name: str
    data: bytes
    fd: int = -1

    def lines(self) -> list[str]:
        """Its lines without their ends."""
        return lines_of(text_of(self.data if self.fd < 0 else read_all(self.fd)))


@dataclass(slots=True)
class Batch:
    """Some files in the order of their names. `close` it."""

    parts: list[Part] = field(default_factory=list)
    size_bytes: int = 0
    lines: int = 0
    opened: int = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to search it."""
        return (
            self.size_bytes >= FULL_BYTES
            or self.lines >= FULL_LINES
            or len(self.parts) >= FULL_FILES
            or self.opened >= MAX_OPEN
        )

    def add(self, part: Part) -> None:
        """Take one more file."""
        self.parts.append(part)
        self.opened += part.fd >= 0
        self.size_bytes += len(part.data)
        self.lines += part.data.count(b"\n") + 1

    def close(self) -> None:
        """Close what is open."""
        for part in self.parts:
            if part.fd >= 0:
                os.close(part.fd)
        self.parts = []

    def find(
        self, engine: Engine, wanted: Written, ignore_case: bool, most: int, limits: Limits
    ) -> list[Hits]:
        """The hits of each file in order; the first `most` of all are named at least."""
        hits = [Hits() for _ in self.parts]
        small = [at for at, part in enumerate(self.parts) if part.fd < 0]
        if small:
            found = joined([self.parts[at].data for at in small], engine, wanted, ignore_case, limits)
            for at, hit in zip(small, found, strict=True):
                hits[at] = hit
        large = [at for at, part in enumerate(self.parts) if part.fd >= 0]
        if large and limits.stopped is None:
            fds = [self.parts[at].fd for at in large]
            for at, hit in zip(large, engine.find(wanted, ignore_case, fds, most, limits), strict=True):
                hits[at] = hit
        return hits


def joined(
    texts: Sequence[bytes], engine: Engine, wanted: Written, ignore_case: bool, limits: Limits
) -> list[Hits]:
    """The hits of each text, searched as one file whose lines are told apart by their numbers."""
    starts: list[int] = []
    lines = 0
    with tempfile.TemporaryFile() as file:
        for text in texts:
            data = plain(text)
            starts.append(lines)
            lines += data.count(b"\n")
            file.write(data)
        file.flush()
        [found] = engine.find(wanted, ignore_case, [file.fileno()], EVERY, limits)
    hits = [Hits() for _ in texts]
    for line, column in found.named:
        at = bisect_right(starts, line - 1) - 1
        hits[at].count += 1
        hits[at].named.append((line - starts[at], column))
    return hits


def plain(data: bytes) -> bytes:
    """A text as UTF-8 without a byte order mark, its last line ended."""
    if any(data.startswith(mark) for mark, _ in MARKS):
        data = text_of(data).encode("utf-8", "surrogateescape")
    return data if data.endswith(b"\n") or not data else data + b"\n"
