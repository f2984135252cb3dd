"""Which tools a key sees: those whose names match; for it the others are not there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class Sight:
    """Names as patterns with `*`, `?` and `[…]`; upper and lower case are different."""

    patterns: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Whether a tool of this name is seen."""
        return any(one.match(name) for one in compiled(self.patterns))


@lru_cache(REMEMBERED)
def compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """The patterns, ready to be asked."""
    return tuple(re.compile(translate(one)) for one in patterns)
