"""The interface of what answers permission and clarification questions: a terminal, a queue, a client."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field

from jaato.protocol.specs import SandboxAccess

ANSWERS = ("y", "n", "a", "t", "i", "once", "never", "all", "e", "c")
"""The permission answers, canonical; `yes no always turn idle` are spellings of the first five."""


class Question(Struct, frozen=True, kw_only=True):
    """May this call run? `reason` says which part no rule covers; `shape` is what a lasting answer would cover;
    `agent_id` is the agent whose call it is, which may be a subagent; `access` is what a yes lets its process reach."""

    id: str
    call_id: str
    tool: str
    arguments: dict[str, Any]
    digest: str
    reason: str
    shape: str | None = None
    options: tuple[str, ...] = ANSWERS
    deadline: str | None = None
    agent_id: str = ""
    access: SandboxAccess | None = None
    """What a yes opens to the process of the call; None for a call that starts none."""
    preview: str = ""
    """A unified diff of what the call would change, where its tool makes one."""


class Answer(Struct, frozen=True, kw_only=True):
    """One of `ANSWERS`; `e` comes with arguments, `c` with a comment for the model; `by` names who answered."""

    answer: str
    arguments: dict[str, Any] | None = None
    comment: str | None = None
    by: str = ""


class Allow(Struct, frozen=True):
    """The call may run, once; `arguments` replace those of the model, and are checked as they were."""

    arguments: dict[str, Any] | None = None


class AllowTurn(Struct, frozen=True):
    """The call may run, and calls like it until the turn ends."""


class AllowAlways(Struct, frozen=True):
    """The call may run, and calls like it from now on, also in later sessions of the workspace."""


class Deny(Struct, frozen=True):
    """The call does not run; the model reads the reason."""

    reason: str = ""


class DenyAlways(Struct, frozen=True):
    """The call does not run, nor do calls like it from now on."""


PermissionAnswer = str | Answer | Allow | AllowTurn | AllowAlways | Deny | DenyAlways
"""What a program may answer: one of `ANSWERS`, an `Answer`, or what they mean as a type."""


def to_answer(given: object, by: str) -> Answer:
    """The answer that a program gave. Raises `TypeError` for what is none."""
    match given:
        case Answer():
            return given
        case str():
            return Answer(answer=given, by=by)
        case Allow(arguments=None):
            return Answer(answer="y", by=by)
        case Allow(arguments=arguments):
            return Answer(answer="e", arguments=arguments, by=by)
        case AllowTurn():
            return Answer(answer="t", by=by)
        case AllowAlways():
            return Answer(answer="a", by=by)
        case Deny(reason=reason):
            return Answer(answer="c", comment=reason, by=by) if reason else Answer(answer="n", by=by)
        case DenyAlways():
            return Answer(answer="never", by=by)
    raise TypeError(
        f"{given!r:.80} is no answer; give Allow(), AllowTurn(), AllowAlways(), Deny(reason) or DenyAlways()"
    )


class Clarification(Struct, frozen=True, kw_only=True):
    """The model's questions to the user: each has `question`, and may have `choices` and `default`."""

    id: str
    call_id: str
    context: str
    questions: list[dict[str, Any]] = field(default_factory=list)


@runtime_checkable
class ClarificationChannel(Protocol):
    """Asks the user the model's questions where there is no session: blocks, and gives an answer for each question, None
    for one left open; None in place of the list means that no one can be asked."""

    def ask(self, clarification: Clarification) -> Sequence[str | None] | None: ...


class Asker(Protocol):
    """Answers permission questions. None means that no one can: the call is then denied with the reason.

    `ask` may be a plain method (the synchronous executor) or a coroutine (a session).
    """

    def ask(self, question: Question) -> Answer | Awaitable[Answer | None] | None: ...
