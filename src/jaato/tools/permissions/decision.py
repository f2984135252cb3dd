"""The verdict on a call, the decision about it, and the question asked when a person has to decide."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from jaato.abc.asker import Answer, Question
from jaato.protocol.events import Permission
from jaato.protocol.ids import new_id
from jaato.protocol.specs import SandboxAccess
from jaato.tools.permissions.rules import SHELL_TOOLS, TYPED_TOOLS

if TYPE_CHECKING:
    from jaato.tools.call import Call
    from jaato.tools.tool import Tool

Effect = Literal["allow", "deny", "ask"]


class PartVerdict(msgspec.Struct, frozen=True):
    """The verdict on one command of a shell line, and the rule or reason for it."""

    text: str
    effect: Effect
    reason: str


class Verdict(msgspec.Struct, frozen=True):
    """The result of evaluating a call by the rules, before anyone is asked.

    `shape` is what a lasting answer would cover, None when only this call can be answered; `lasting` says whether a
    lasting answer is possible (never for control paths). `entries` is the shape as lines of a policy file: (list name,
    text).
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
    """How to allow it where no one can be asked, if not by a rule."""
    access: SandboxAccess | None = None
    """The access of the process of an allowed call, or the access that a yes would open."""


ACCESS_WORDS = {"allow": "allowed", "ask": "asks", "deny": "denied"}
MAX_PARTS = 50


def describe_verdict(tool: str, verdict: Verdict) -> dict[str, Any]:
    """A verdict for who asks before a call: the tool, its access (allowed, asks or denied), why, and by which rule."""
    row: dict[str, Any] = {
        "tool": tool,
        "access": ACCESS_WORDS[verdict.effect],
        "reason": verdict.reason,
        "method": verdict.method,
    }
    if len(verdict.parts) > 1:
        row["parts"] = [
            {"command": part.text[:500], "access": ACCESS_WORDS[part.effect], "reason": part.reason}
            for part in verdict.parts[:MAX_PARTS]
        ]
    return row


class Decision(msgspec.Struct, frozen=True):
    """Whether the call may run; `arguments` are set if the user edited them, `comment` is the user's message to the model."""

    allowed: bool
    permission: Permission
    arguments: dict[str, Any] | None = None
    comment: str | None = None


def to_decision(verdict: Verdict) -> Decision:
    """The decision for a verdict that needs no answer."""
    return (
        allow(verdict.reason, verdict.method, access=verdict.access)
        if verdict.effect == "allow"
        else deny(verdict.reason, verdict.method)
    )


def allow(
    reason: str, method: str, arguments: dict[str, Any] | None = None, access: SandboxAccess | None = None
) -> Decision:
    """An allowing decision."""
    return Decision(True, Permission("allowed", reason, method, access), arguments)


def deny(reason: str, method: str, comment: str | None = None) -> Decision:
    """A denying decision."""
    return Decision(False, Permission("denied", reason, method), comment=comment)


SPELLINGS = {"yes": "y", "no": "n", "always": "a", "turn": "t", "idle": "i", "edit": "e", "comment": "c"}


class PendingCall(msgspec.Struct, eq=False):
    """A call that waits for an answer; `settled` is the access that an answer `all` has opened for it, `decided` what the
    mode or a rule has decided while its question was open."""

    call: Call
    tool: Tool
    digest: str
    decided: Decision | None = None
    settled: SandboxAccess | None = None


def canonical_answer(answer: Answer) -> str:
    """An answer in its canonical spelling, known or not."""
    word = answer.answer.strip().lower()
    return SPELLINGS.get(word, word)


def make_question(waiting: PendingCall, verdict: Verdict, reason: str, timeout_s: float | None) -> Question:
    """The question about a call, to be answered in so many seconds or without end."""
    deadline = None
    if timeout_s is not None:
        deadline = (datetime.now(UTC) + timedelta(seconds=timeout_s)).isoformat(timespec="milliseconds")
    return Question(
        id=new_id("q"),
        call_id=waiting.call.id,
        tool=waiting.call.name,
        arguments=waiting.call.arguments,
        digest=waiting.digest,
        reason=reason,
        shape=verdict.shape if verdict.lasting else None,
        deadline=deadline,
        agent_id=waiting.call.agent_id,
        access=verdict.access,
    )


def deny_without_channel(
    call: Call, tool: Tool, verdict: Verdict, path: Path | None, distrust: str = ""
) -> Decision:
    """Denied because no one can be asked, with the ways to allow it; `distrust` says that the file at `path` is not trusted."""
    by_command = tool.name in SHELL_TOOLS and tool.name not in TYPED_TOOLS
    pattern = f"{tool.name}({verdict.shape})" if verdict.shape and by_command else tool.name
    where = path or "a permission file"
    remedy = (
        f"Allow it with the option --allow {pattern!r} of `jaato run` or `jaato chat`, with a rule in {where}, or answer at a "
        "terminal: `jaato attach` shows the questions of the server's sessions."
    )
    if not verdict.lasting:
        remedy = "Only someone who is asked can allow it, for this one call."
    if verdict.remedy:
        remedy = verdict.remedy
    remedy = f"{distrust} {remedy}".strip()
    return deny(
        f"{verdict.reason}, and no one can answer the permission request for {call.name}. {remedy}",
        "no_channel",
    )
