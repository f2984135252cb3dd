"""An index kept between runs: files by the digest of their tools, read as they lie, ignored when damaged or outdated."""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import sys
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec

from jaato.errors import ConfigError
from jaato.protocol.specs import ToolSpec
from jaato.tools.sorted_lines import line_of
from jaato.tools.tool_terms import DIGEST_BYTES, weights_of

MAGIC = b"jaato index 1\n\0\0"
HEADER = struct.Struct("<16s16s16sIIIII")
MAX_TOOLS = 65_535
MAX_BYTES = 64 * 1024 * 1024
MAX_FILES = 6
SUFFIX = ".index"
PROBE = ToolSpec(
    "probe_HTTPThings2",
    "Converts the classification of studies, quickly; café 画像のサイズ",
    {"properties": {"userIds": {"description": "Who was notified"}}},
    "search",
)


@dataclass(frozen=True, slots=True)
class Packed:
    """An index as a file has it: the names and digests of its tools, and for each term where its postings lie."""

    whole: bytes
    names: list[str]
    digests: bytes
    terms: bytes
    """A line for each term: itself, where its postings begin, and how many there are."""
    tools: memoryview[int]
    weights: memoryview[float]
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where the postings of the terms that were asked for lie."""

    def entries(self) -> dict[str, bytes | None]:
        """The digest of each tool by its name."""
        each = struct.unpack(f"{DIGEST_BYTES}s" * len(self.names), self.digests)
        return dict(zip(self.names, each, strict=True))

    def posting(self, term: str) -> dict[str, float]:
        """The tools that have a term, with its weight in each."""
        first, count = self._place(term)
        return self._at(first, count)

    def frequency(self, term: str) -> int:
        """How many tools have a term."""
        return self._place(term)[1]

    def _place(self, term: str) -> tuple[int, int]:
        place = self.places.get(term)
        if place is None:
            line = line_of(self.terms, term.encode("utf-8", "replace"))
            first, count = (b"0", b"0") if line is None else line.split(b" ")
            place = self.places[term] = int(first), int(count)
        return place

    def all_terms(self) -> Iterator[str]:
        """Every term."""
        return (line.partition(b" ")[0].decode() for line in self.terms[1:-1].split(b"\n") if line)

    def _at(self, first: int, count: int) -> dict[str, float]:
        having, weights = self.tools[first : first + count], self.weights[first : first + count]
        return dict(zip(map(self.names.__getitem__, having), weights, strict=True))


@cache
def version() -> bytes:
    """Names the way of reading tools: an index of another one is of no use here."""
    told = repr((sys.byteorder, sorted(weights_of(PROBE).items())))
    return hashlib.blake2b(told.encode(), digest_size=16).digest()


def load(folder: Path, digest: bytes, tools: Sequence[ToolSpec]) -> Packed | None:
    """The index of exactly these tools, or else the one used last if it has most of them."""
    exact = folder / f"{digest.hex()}{SUFFIX}"
    found = read(exact)
    if found is not None and found.whole == digest:
        with contextlib.suppress(OSError):
            os.utime(exact)
        return found
    found = read(newest(folder)[0]) if newest(folder) else None
    return found if found is not None and serves(found, {tool.name for tool in tools}) else None


def serves(found: Packed, names: Set[str]) -> bool:
    """Whether an index has enough of these tools to begin with."""
    return 2 * len(names & set(found.names)) > max(len(names), len(found.names))


def read(path: Path) -> Packed | None:
    """The index in a file; None when it is missing, damaged or of another version."""
    from jaato.tools.atomic import read_small

    try:
        content = read_small(path, MAX_BYTES)
    except ConfigError:
        return None
    if content is None or len(content) < HEADER.size:
        return None
    magic, made_by, whole, told, count, names_size, terms_size, postings = HEADER.unpack_from(content)
    body = memoryview(content)[HEADER.size :]
    sizes = (names_size, count * DIGEST_BYTES, terms_size, 2 * postings, 4 * postings)
    if (magic, made_by) != (MAGIC, version()) or sum(sizes) != len(body) or zlib.crc32(body) != told:
        return None
    parts = []
    at = 0
    for size in sizes:
        parts.append(body[at : at + size])
        at += size
    try:
        names = msgspec.json.decode(parts[0], type=list[str])
    except msgspec.DecodeError:
        return None
    if len(names) != count:
        return None
    return Packed(whole, names, bytes(parts[1]), bytes(parts[2]), parts[3].cast("H"), parts[4].cast("f"))


def save(
    folder: Path, digest: bytes, tools: Mapping[str, bytes], postings: Mapping[str, Mapping[str, float]]
) -> bool:
    """Keep an index by the digest of its tools, and of the others those used last; False when it cannot be kept."""
    from jaato.tools.atomic import write_private

    content = packed(digest, tools, postings)
    if content is None:
        return False
    try:
        write_private(folder / f"{digest.hex()}{SUFFIX}", content)
        for path in newest(folder)[MAX_FILES:]:
            path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def packed(
    digest: bytes, tools: Mapping[str, bytes], postings: Mapping[str, Mapping[str, float]]
) -> bytes | None:
    """The content of a file; None when there are too many tools or a text that cannot be written."""
    if len(tools) > MAX_TOOLS:
        return None
    place = {name: at for at, name in enumerate(tools)}
    having, weights = array("H"), array("f")
    lines = []
    for term, posting in postings.items():
        lines.append(f"{term} {len(having)} {len(posting)}".encode("utf-8", "replace"))
        having.extend(map(place.__getitem__, posting))
        weights.extend(posting.values())
    try:
        names = msgspec.json.encode(list(tools))
    except ValueError:
        return None
    terms = b"\n" + b"\n".join(sorted(lines)) + b"\n"
    names += b" " * (-(HEADER.size + len(names) + len(terms) + 2 * len(having)) % 4)
    body = b"".join((names, b"".join(tools.values()), terms, having.tobytes(), weights.tobytes()))
    if HEADER.size + len(body) > MAX_BYTES:
        return None
    head = HEADER.pack(
        MAGIC, version(), digest, zlib.crc32(body), len(tools), len(names), len(terms), len(having)
    )
    return head + body


def newest(folder: Path) -> Sequence[Path]:
    """The files in a folder, the one used last first."""
    found: list[tuple[int, Path]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        found = [
            (entry.stat(follow_symlinks=False).st_mtime_ns, Path(entry.path))
            for entry in entries
            if entry.name.endswith(SUFFIX) and not entry.name.startswith(".")
        ]
    return [path for _, path in sorted(found, reverse=True)]
