"""An answer as the server takes it."""

from __future__ import annotations

from jaato.abc.asker import Answer
from jaato.protocol.commands import ClarificationResponse, Command, PermissionResponse


def response_to(session_id: str, question_id: str, answer: Answer | list[str | None]) -> Command:
    """The command that gives it."""
    if isinstance(answer, Answer):
        return PermissionResponse(
            session_id=session_id,
            question_id=question_id,
            answer=answer.answer,
            arguments=answer.arguments,
            comment=answer.comment,
        )
    return ClarificationResponse(session_id=session_id, question_id=question_id, answers=answer)
