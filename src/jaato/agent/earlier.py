"""Questions an earlier process has asked and answers it was given, until the calls they belong to go on."""

from __future__ import annotations

from typing import Any

from jaato.abc.asker import Answer
from jaato.agent.state import Question as Asked
from jaato.agent.state import State
from jaato.protocol.events import ClarificationResolved, Permission, PermissionRequested, PermissionResolved

Given = Answer | list[str | None] | None
"""What was answered; None: nothing, in time."""
Key = tuple[str, str, str]
"""An agent, its call, and for a permission question the digest the answer is bound to."""
CONSENTS = frozenset("y yes a always t turn i idle once all e edit".split())
"""Answers that let a call run; any other is no, or no answer at all and asked for again."""
EDITED = ("e", "edit")

__all__ = ["Asked", "Given", "Key", "answers_of", "key_of", "settlement"]


def key_of(asked: Asked) -> Key:
    """Which call may use the answer to a question."""
    return asked.agent_id, asked.call_id, asked.digest if isinstance(asked, PermissionRequested) else ""


def answers_of(state: State) -> dict[Key, Given]:
    """The answers that are in the log and that no call has gone on with, but for edited arguments: no log has them."""
    given: dict[Key, Given] = {}
    for asked, resolved in state.answered.values():
        match resolved:
            case ClarificationResolved():
                answers = [answer for _, answer in resolved.qa_pairs]
                given[key_of(asked)] = answers if any(answer is not None for answer in answers) else None
            case PermissionResolved(permission=permission) if permission.method == "timeout":
                given[key_of(asked)] = None
            case PermissionResolved(permission=permission) if permission.method != "interrupted":
                word = resolved.answer.strip().lower()
                if word not in EDITED:
                    comment = permission.reason if word in ("c", "comment") else None
                    given[key_of(asked)] = Answer(answer=word, comment=comment, by=resolved.by)
    return given


def settlement(
    head: dict[str, Any], asked: Asked, given: Given, by: str = ""
) -> PermissionResolved | ClarificationResolved:
    """The end of a question, with its answer; None: nobody answered."""
    if isinstance(asked, PermissionRequested):
        answer = given if isinstance(given, Answer) else None
        said = answer.answer if answer is not None else "unanswered"
        denied = said.strip().lower() not in CONSENTS
        return PermissionResolved(
            **head,
            question_id=asked.question_id,
            call_id=asked.call_id,
            answer=said,
            permission=Permission(
                "denied" if denied else "allowed",
                (answer.comment or f"answered {said}") if answer else "nobody answered",
                ("user_denied" if denied else "user_approved") if answer else "timeout",
            ),
            by=answer.by if answer else "",
        )
    texts = [str(question.get("question", "")) for question in asked.questions]
    said_of = given if isinstance(given, list) else []
    pairs = list(zip(texts, [*said_of, *([None] * len(texts))][: len(texts)], strict=True))
    return ClarificationResolved(**head, question_id=asked.question_id, qa_pairs=pairs, by=by)
