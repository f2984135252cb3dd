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
        return compiled(self.patterns).match(name) is not None


@lru_cache(REMEMBERED)
def compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """The patterns as one: it is asked of every tool whenever one has come or gone."""
    return re.compile("|".join(map(translate, patterns)) or "(?!)")  # none match nothing
