"""How a command ended."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Ended:
    """How a command ended. `spool` has all of its output if that was over the bound; its taker removes it."""

    code: int | None = None
    reason: str = ""
    head: bytes = b""
    tail: bytes = b""
    total: int = 0
    spool: Path | None = None
    spool_error: str = ""
    duration_s: float = 0.0
    left: list[str] = field(default_factory=list)
    left_count: int = 0
    stuck: list[str] = field(default_factory=list)


def interrupted(reason: str, spool: Path, forwarded: bytes, bound_bytes: int) -> Ended:
    """The end of a command whose supervisor said none: its spool file, else what was forwarded, is all of it."""
    half = bound_bytes // 2
    try:
        with spool.open("rb") as written:
            total = written.seek(0, os.SEEK_END)
            written.seek(0)
            head = written.read(half)
            written.seek(max(total - half, len(head)))
            return Ended(reason=reason, head=head, tail=written.read(half), total=total, spool=spool)
    except OSError:
        return Ended(reason=reason, head=forwarded, total=len(forwarded))
