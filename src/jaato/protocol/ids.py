"""Identifiers: a letter for the kind, then a ULID (48 bits of milliseconds, 80 random bits); trace and span ids."""

from __future__ import annotations

import hashlib
import os
import time
from collections import deque
from typing import Literal

from jaato.errors import ConfigError
from jaato.lazy_pattern import lazy_pattern

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32
PAIRS = [a + b for a in ALPHABET for b in ALPHABET]
DIGITS = bytes(ord(ALPHABET[byte & 31]) for byte in range(256))
ID_PATTERN = lazy_pattern(r"[a-z][0-9A-HJKMNP-TV-Z]{26}")

NAME_CHARS = 200
Kind = Literal["s", "a", "c", "q", "m", "t", "g", "b", "k"]
"""session, agent, call, question, message, turn, grant, background task, client"""


def random_bytes() -> bytes:
    """16 random bytes, as the system gives them, which is asked for many at once: each time costs as much as the rest of an
    identifier. Nothing is given twice, in whatever thread, and a process that is forked gives others."""
    try:
        return POOL.popleft()
    except IndexError:
        found = os.urandom(POOLED * 16)
        POOL.extend([found[at : at + 16] for at in range(16, len(found), 16)])
        return found[:16]


POOLED = 64
POOL: deque[bytes] = deque()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.clear)


def new_id(kind: Kind) -> str:
    """A new identifier; ids of one kind sort by the millisecond they were made in."""
    global MOMENT
    milliseconds = time.time_ns() // 1_000_000
    known, text = MOMENT
    if milliseconds != known:
        text = "".join([PAIRS[(milliseconds >> shift) & 1023] for shift in (40, 30, 20, 10, 0)])
        MOMENT = (milliseconds, text)
    return kind + text + random_bytes().translate(DIGITS).decode("ascii")


MOMENT = (-1, "")


def id_of(kind: Kind, word: str) -> str:
    """The identifier that a word stands for: always the same one, and no other word's. It says nothing of time."""
    number = int.from_bytes(hashlib.sha256(f"{kind} {word}".encode("utf-8", "surrogatepass")).digest(), "big")
    return kind + "".join([PAIRS[(number >> shift) & 1023] for shift in range(0, 130, 10)])


def trace_id(*what: str) -> str:
    """The trace that these words always give, as W3C Trace Context writes it: 16 bytes in hex."""
    return hash_hex(16, what)


def span_id(*what: str) -> str:
    """The span that these words always give: 8 bytes in hex."""
    return hash_hex(8, what)


def hash_hex(size: int, what: tuple[str, ...]) -> str:
    """A hash of words, in hex."""
    data = "\0".join(what).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=size, person=b"jaato.trace").hexdigest()


def is_id(text: str, kind: Kind | None = None) -> bool:
    """Whether the text has the form of an identifier (of this kind)."""
    return ID_PATTERN.fullmatch(text) is not None and (kind is None or text[0] == kind)


def session_name(text: str | None) -> str | None:
    """A name for a session, by which it can be found again; None for none. Raises `ConfigError` for a longer one than
    that, or one of several lines."""
    name = (text or "").strip()
    if len(name) > NAME_CHARS or not name.isprintable():
        raise ConfigError(f"The name of a session is one line of at most {NAME_CHARS} characters.")
    return name or None
