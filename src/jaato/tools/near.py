"""Words near in meaning, so that a request finds tools that call things otherwise."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

FILE = Path(__file__).with_name("near_words.txt")
"""A line for each stem: near stems with their nearness in hundredths; made by `python -m bench.near_words`."""
MAX_KEPT = 4096


@cache
def table() -> bytes:
    """The whole file, 0.3 MB: looked up where it lies, because most of it is never asked for."""
    return FILE.read_bytes()


@lru_cache(MAX_KEPT)
def near(term: str) -> tuple[tuple[str, float], ...]:
    """The stems near to one, each with its nearness up to 1; those that tools use for each other are at 1."""
    if not term.isascii() or not term.isalnum():
        return ()
    entries = (line_of(table(), term.encode()) or b"").decode().split()
    return tuple((other, int(near) / 100) for other, _, near in (entry.partition(":") for entry in entries))


def line_of(text: bytes, key: bytes) -> bytes | None:
    """What follows `key` and a space on its line; None without one.

    The text begins and ends with a line break, its lines are sorted, and each begins with a key and a space.
    """
    low, high = 0, len(text) - 1
    wanted = key + b" "
    while low < high:
        middle = text.rfind(b"\n", low, (low + high) // 2 + 1)
        middle = low if middle < 0 else middle
        end = text.find(b"\n", middle + 1)
        line = text[middle + 1 : end]
        if line.startswith(wanted):
            return line[len(wanted) :]
        if line < wanted:
            low = end
        else:
            high = middle
    return None
