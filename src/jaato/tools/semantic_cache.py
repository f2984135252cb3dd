"""Vectors kept between runs: one bounded file, written whole, and ignored when it is damaged or of another model."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

from jaato.errors import ConfigError
from jaato.tools.semantic_model import SIZE

MAGIC = b"jaato vectors 1\n"
HEADER = struct.Struct("<16s16sI")
KEY_BYTES = 16
ROW_BYTES = KEY_BYTES + SIZE
SUM_BYTES = 16
MAX_ROWS = 20_000
"""8 MB; what was not asked for longest is dropped."""


def load(path: Path, model: bytes) -> dict[bytes, bytes]:
    """The int8 vectors in a file by the key of their text; none when it is missing, damaged or another model's."""
    from jaato.tools.atomic import read_small

    try:
        content = read_small(path, HEADER.size + MAX_ROWS * ROW_BYTES + SUM_BYTES)
    except ConfigError:
        return {}
    if content is None or len(content) < HEADER.size + SUM_BYTES:
        return {}
    body, told = content[:-SUM_BYTES], content[-SUM_BYTES:]
    magic, owner, count = HEADER.unpack_from(body)
    if (
        (magic, owner) != (MAGIC, model)
        or len(body) != HEADER.size + count * ROW_BYTES
        or checksum(body) != told
    ):
        return {}
    starts = range(HEADER.size, len(body), ROW_BYTES)
    return {body[at : at + KEY_BYTES]: body[at + KEY_BYTES : at + ROW_BYTES] for at in starts}


def save(path: Path, model: bytes, rows: dict[bytes, bytes]) -> None:
    """Add rows to what the file has, the newest first in the right to stay. Raises `OSError`."""
    from jaato.tools.atomic import write_private

    kept = dict(
        list((rows | {k: v for k, v in load(path, model).items() if k not in rows}).items())[:MAX_ROWS]
    )
    body = HEADER.pack(MAGIC, model, len(kept)) + b"".join(key + row for key, row in kept.items())
    write_private(path, body + checksum(body))


def checksum(body: bytes) -> bytes:
    """What tells a whole file from a damaged one."""
    return hashlib.blake2b(body, digest_size=SUM_BYTES).digest()
