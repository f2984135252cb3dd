"""What the permission gate thinks of a call, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Effect = Literal["allow", "deny", "ask"]


@dataclass(frozen=True, slots=True)
class PartVerdict:
    """One command of a shell line: what would become of it alone, and which rule or doubt says so."""

    text: str
    effect: Effect
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What would happen to a call without asking anyone.

    `shape` is what a lasting answer would cover, None when only this call can be answered; `lasting`
    says whether a
    lasting answer is worth more than one call (never for control paths). `entries` is the shape as
    lines of a policy
    file: (list name, text).
    """

    effect: Effect
    method: str
    reason: str
    shape: str | None = None
    lasting: bool = True
    parts: tuple[PartVerdict, ...] = ()
    entries: tuple[tuple[str, str], ...] = ()
    fixed: bool = False
    """Whether it depends on the tool alone, so that every call of it has this verdict."""
