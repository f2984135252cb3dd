"""Identifiers: one letter that says of what, then a ULID (48 bits of milliseconds, 80 random bits)."""

from __future__ import annotations

import re
import secrets
import time
from typing import Literal

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32
PAIRS = [a + b for a in ALPHABET for b in ALPHABET]
ID_PATTERN = re.compile(r"[a-z][0-9A-HJKMNP-TV-Z]{26}")

Kind = Literal["s", "a", "c", "q", "m", "t", "g", "b"]
"""session, agent, call, question, message, turn, grant, background task"""


def new_id(kind: Kind) -> str:
    """A new identifier; ids of one kind sort by the millisecond they were made in."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return kind + "".join([PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])


def is_id(text: str, kind: Kind | None = None) -> bool:
    """Whether the text has the form of an identifier (of this kind)."""
    return ID_PATTERN.fullmatch(text) is not None and (kind is None or text[0] == kind)
