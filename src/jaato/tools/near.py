"""Words near in meaning, so that a request finds tools that call things otherwise."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

from jaato.tools.sorted_lines import line_of
from jaato.tools.words import relations

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
    found: dict[str, float] = {}
    if term.isascii() and term.isalpha():
        for entry in (line_of(table(), term.encode()) or b"").decode().split():
            other, _, hundredths = entry.partition(":")
            found[other] = int(hundredths) / 100
    found |= dict.fromkeys(relations().get(term, ()), 1.0)
    return tuple(found.items())
