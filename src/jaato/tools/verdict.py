"""What the permission gate thinks of a call and what it decides, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from jaato.protocol.events import Permission
from jaato.protocol.specs import SandboxAccess

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
    remedy: str = ""
    """What allows it where nobody can be asked, in place of a rule."""
    access: SandboxAccess | None = None
    """What the process of an allowed call may reach, or what a yes would open."""


@dataclass(frozen=True, slots=True)
class Decision:
    """May the call run? `arguments` are the user's own, if edited; `comment` is what the user tells the
    model."""

    allowed: bool
    permission: Permission
    arguments: dict[str, Any] | None = None
    comment: str | None = None


def settled(verdict: Verdict) -> Decision:
    """A verdict that needs no answer, as a decision."""
    return (
        allow(verdict.reason, verdict.method, access=verdict.access)
        if verdict.effect == "allow"
        else deny(verdict.reason, verdict.method)
    )


def allow(
    reason: str, method: str, arguments: dict[str, Any] | None = None, access: SandboxAccess | None = None
) -> Decision:
    """Yes."""
    return Decision(True, Permission("allowed", reason, method, access), arguments)


def deny(reason: str, method: str, comment: str | None = None) -> Decision:
    """No."""
    return Decision(False, Permission("denied", reason, method), comment=comment)
