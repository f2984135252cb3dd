"""The matcher used where ripgrep is absent: a program of its own, so that an endless expression can be ended.

Reads one JSON request from standard input (`pattern`, `ignore_case`, `fds`, `most`) and writes per descriptor, as
soon as it is known, one line `[position, count, [[line, column], …]]`; the first `most` lines are named.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys

MEMORY_BYTES = 2 << 30
CPU_S = 30
CHUNK_BYTES = 1 << 20
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def text_of(data: bytes) -> str:
    """The bytes as text: by their byte order mark, else UTF-8, where what is none stands for itself."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            lenient = "surrogateescape" if encoding == "utf-8" else "replace"
            return data[len(mark) :].decode(encoding, lenient)
    return data.decode("utf-8", "surrogateescape")


def lines_of(text: str) -> list[str]:
    """The lines without their ends."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def read_all(fd: int) -> bytes:
    """All bytes of a file, from its start."""
    os.lseek(fd, 0, os.SEEK_SET)
    chunks: list[bytes] = []
    while chunk := os.read(fd, CHUNK_BYTES):
        chunks.append(chunk)
    return b"".join(chunks)


def main() -> None:
    """Answer the request."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))  # also when who asked is gone
    except (ImportError, OSError, ValueError):
        pass  # a guard where there is one
    request = json.load(sys.stdin)
    search = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0).search
    for position, fd in enumerate(request["fds"]):
        count = 0
        named: list[tuple[int, int]] = []
        for number, line in enumerate(lines_of(text_of(read_all(fd))), 1):
            found = search(line)
            if found is not None:
                count += 1
                if len(named) < request["most"]:
                    before = line[: found.start()].encode("utf-8", "surrogateescape")
                    named.append((number, len(before) + 1))
        sys.stdout.write(json.dumps([position, count, named]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
