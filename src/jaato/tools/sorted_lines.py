"""Looking up a line in sorted text without reading all of it."""

from __future__ import annotations


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
