"""One search of files by content: which lines match, with what stands around them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jaato.plugins.search.batch import SMALL_BYTES, SMALL_LINES, Batch, Part
from jaato.plugins.search.engines import Engine, Hits
from jaato.plugins.search.letters import Written
from jaato.plugins.search.scan import MARKS
from jaato.plugins.search.walk import Found, Limits
from jaato.tools.names import shown_name

SNIFF_BYTES = 8192
MAX_FILE_BYTES = 64 << 20
MAX_LINE = 400
MAX_NAMED = 10
ODD = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Line:
    """A line to show: a match, or one near a match."""

    number: int
    text: str
    is_match: bool


@dataclass(slots=True)
class Result:
    """What a search found: the matching lines shown, and counts of everything."""

    lines: dict[str, list[Line]] = field(default_factory=dict)
    total: int = 0
    files: int = 0
    searched: int = 0
    shown: int = 0
    binary: list[str] = field(default_factory=list)
    large: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for and how much of it to show."""

    wanted: Written
    ignore_case: bool
    context: int
    most: int
    engine: Engine
    limits: Limits

    def run(self, files: Iterable[tuple[str, Found]]) -> Result:
        """Search the files, each given with the name it is shown by."""
        result = Result()
        waiting = self._texts(files, result)
        while self.limits.go_on():
            batch = Batch()
            try:
                while not batch.is_full and (part := next(waiting, None)) is not None:
                    batch.add(part)
                if not batch.parts:
                    break
                left = max(0, self.most - result.shown)
                hits = batch.find(self.engine, self.wanted, self.ignore_case, left, self.limits)
                for part, hit in zip(batch.parts, hits, strict=True):
                    self._take(result, part, hit)
            finally:
                batch.close()
        return result

    def _texts(self, files: Iterable[tuple[str, Found]], result: Result) -> Iterator[Part]:
        """Each file that has text; what has none is only named."""
        for name, found in files:
            fd = found.open()
            if fd is None:
                result.unread.append(name)
                continue
            try:
                data = head_of(fd)
            except OSError:
                data = b""
            kind = kind_of(data, os.fstat(fd).st_size)
            if kind in ("text", "empty"):
                result.searched += 1
            if kind == "text" and (len(data) > SMALL_BYTES or data.count(b"\n") > SMALL_LINES):
                yield Part(name, b"", fd)
                continue
            os.close(fd)
            if kind == "text":
                yield Part(name, data)
            elif kind != "empty":
                (result.binary if kind == "binary" else result.large).append(name)

    def _take(self, result: Result, part: Part, hit: Hits) -> None:
        """Count one file's hits and read the lines of those that are shown."""
        if not hit.count:
            return
        result.total += hit.count
        result.files += 1
        named = dict(hit.named[: max(0, self.most - result.shown)])
        if named:
            result.shown += len(named)
            result.lines[part.name] = around(part.lines(), named, self.context)


def head_of(fd: int) -> bytes:
    """The bytes of a small file, or those of a larger one up to one more; read from its start again later."""
    data = os.read(fd, SMALL_BYTES + 1)
    while data and len(data) <= SMALL_BYTES and (more := os.read(fd, SMALL_BYTES + 1 - len(data))):
        data += more
    os.lseek(fd, 0, os.SEEK_SET)
    return data


def kind_of(data: bytes, size: int) -> str:
    """`text`, `binary`, `large` or `empty`; binary is what has a NUL near its start and no UTF-16 mark."""
    if size > MAX_FILE_BYTES:
        return "large"
    if not data:
        return "empty"
    marked = any(data.startswith(mark) for mark, _ in MARKS)
    return "binary" if b"\0" in data[:SNIFF_BYTES] and not marked else "text"


def around(lines: list[str], named: dict[int, int], context: int) -> list[Line]:
    """The matching lines and their neighbours, in order, long ones cut to where the match is."""
    near = sorted({at for number in named for at in range(number - context, number + context + 1)})
    return [
        Line(number, cut(lines[number - 1], named.get(number, 1)), number in named)
        for number in near
        if 1 <= number <= len(lines)
    ]


def cut(line: str, column: int) -> str:
    """The line, or where it is long the part around this column (in bytes, from 1)."""
    line = line.removesuffix("\r")
    if len(line) > MAX_LINE:
        at = len(line.encode("utf-8", "surrogateescape")[: column - 1].decode("utf-8", "replace"))
        start = max(0, min(at - MAX_LINE // 4, len(line) - MAX_LINE))
        end = start + MAX_LINE
        line = f"{'…' * (start > 0)}{line[start:end]}{'…' * (end < len(line))} ({len(line)} characters)"
    return line if line.isascii() else ODD.sub("\ufffd", line)


def rendered(result: Result) -> str:
    """The lines as a model reads them: `number: match` and `number- neighbour` beneath each file's name."""
    blocks: list[str] = []
    for name, lines in result.lines.items():
        block = [shown_name(name)]
        last = lines[0].number - 1 if lines else 0
        for line in lines:
            if line.number > last + 1 and any(not other.is_match for other in lines):
                block.append("--")
            block.append(f"{line.number}{':' if line.is_match else '-'} {line.text}")
            last = line.number
        blocks.append("\n".join(block))
    return "\n\n".join(blocks)


def listed(names: list[str]) -> str:
    """A few names and how many more there are."""
    more = len(names) - MAX_NAMED
    return ", ".join(map(shown_name, names[:MAX_NAMED])) + (f" and {more} more" if more > 0 else "")


def structured(result: Result, limits: Limits) -> dict[str, Any]:
    """The result as data for programs."""
    matches = [
        {"path": name, "line": line.number, "text": line.text}
        for name, lines in result.lines.items()
        for line in lines
        if line.is_match
    ]
    data: dict[str, Any] = {
        "matches": matches,
        "total": result.total,
        "files": result.files,
        "searched": result.searched,
        "truncated": result.shown < result.total,
    }
    if limits.stopped is not None:
        data["stopped"] = limits.stopped
    for key, names in (("binary", result.binary), ("too_large", result.large), ("unreadable", result.unread)):
        if names:
            data[key] = names[:100]
    return data
