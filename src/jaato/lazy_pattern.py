"""Patterns that are compiled when they are first used, if at all: a start needs few of the many a program has."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from typing import Any

    lazy_pattern = re.compile
else:

    class lazy_pattern:  # noqa: N801 - it stands for a function
        """What `re.compile` returns, without `isinstance(_, re.Pattern)`; a mistake in the text is found at the first use."""

        def __init__(self, text: str, flags: int = 0) -> None:
            self.pattern = text
            self.flags = flags

        def __reduce__(self) -> tuple[Any, ...]:
            return lazy_pattern, (self.pattern, self.flags)

        def __getattr__(self, name: str) -> Any:
            compiled = re.compile(self.pattern, self.flags)
            for method in ("search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn"):
                setattr(self, method, getattr(compiled, method))  # the next use finds it at once
            return getattr(compiled, name)


def matches_glob(name: str, glob: str) -> bool:
    """What `fnmatchcase` returns; a glob with wild characters at its ends alone, as most are, is not compiled."""
    text = glob.strip("*")
    if any(wild in text for wild in "*?["):
        return fnmatchcase(name, glob)
    if glob.startswith("*"):
        return text in name if glob.endswith("*") else name.endswith(text)
    return name.startswith(text) if glob.endswith("*") else name == text
