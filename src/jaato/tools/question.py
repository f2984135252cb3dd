"""A permission question: what it says, who waits for its answer, and what becomes of a call when nobody can answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from jaato.abc.asker import Answer, Question
from jaato.protocol.ids import new_id
from jaato.protocol.specs import SandboxAccess
from jaato.tools.policy_rules import SHELL_TOOLS, TYPED_TOOLS
from jaato.tools.verdict import Decision, Verdict, deny

if TYPE_CHECKING:
    from jaato.tools.call import Call
    from jaato.tools.tool import Tool

SPELLINGS = {"yes": "y", "no": "n", "always": "a", "turn": "t", "idle": "i", "edit": "e", "comment": "c"}


@dataclass(eq=False, slots=True)
class Waiting:
    """A call that waits for an answer; `settled` is what an `all` has opened for it, None where there was none."""

    call: Call
    digest: str
    settled: SandboxAccess | None = None


def word_of(answer: Answer) -> str:
    """An answer in its canonical spelling, known or not."""
    word = answer.answer.strip().lower()
    return SPELLINGS.get(word, word)


def question_of(waiting: Waiting, verdict: Verdict, reason: str, timeout_s: float | None) -> Question:
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


def nobody(call: Call, tool: Tool, verdict: Verdict, path: Path | None) -> Decision:
    """Denied because no one can be asked, with the ways to allow it."""
    by_command = tool.name in SHELL_TOOLS and tool.name not in TYPED_TOOLS
    pattern = f"{tool.name}({verdict.shape})" if verdict.shape and by_command else tool.name
    where = path or "a permission file"
    remedy = f"Allow it with --allow {pattern!r}, by answering where someone can be asked, or in {where}."
    if not verdict.lasting:
        remedy = "Only someone who is asked can allow it, for this one call."
    if verdict.remedy:
        remedy = verdict.remedy
    return deny(f"{verdict.reason}, and there is nobody to ask about {call.name}. {remedy}", "no_channel")
