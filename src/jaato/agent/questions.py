"""The desk where questions wait for a person: durable, answered once, never waiting for nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio

from jaato.abc.asker import Answer, Clarification, Question
from jaato.agent.journal import Journal
from jaato.protocol.events import (
    AgentStatusChanged,
    ClarificationQuestion,
    ClarificationResolved,
    Permission,
    PermissionRequested,
    PermissionResolved,
)

CONSENTS = frozenset("y yes a always t turn i idle once all e edit".split())
"""Answers that let a call run; any other is no, or no answer at all and asked for again."""


@dataclass(slots=True, eq=False)
class Waiting:
    """One open question and, later, its answer: an `Answer` to a permission question, a list to a clarification."""

    permission: bool
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Any = None


class Desk:
    """Puts questions to whoever is there to answer. With nobody there a question is answered None at once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._open: dict[str, Waiting] = {}
        self._answerers = 0

    def attend(self) -> Callable[[], None]:
        """Someone is there to answer from now on; returns the function that says they have left."""
        self._answerers += 1
        present = True

        def leave() -> None:
            nonlocal present
            if not present:
                return
            present = False
            self._answerers -= 1
            if not self._answerers:
                for waiting in self._open.values():
                    waiting.answered.set()

        return leave

    @property
    def attended(self) -> bool:
        """Whether anybody can answer."""
        return self._answerers > 0

    async def ask(self, question: Question) -> Answer | None:
        """The answer to a permission question; None when nobody can give one. Raises TimeoutError past its deadline."""
        if not self.attended:
            return None
        journal = self._journal
        waiting = self._open[question.id] = Waiting(permission=True)
        journal.record(
            PermissionRequested(
                **journal.head(question.agent_id),
                question_id=question.id,
                call_id=question.call_id,
                tool=question.tool,
                arguments=question.arguments,
                digest=question.digest,
                reason=question.reason,
                options=list(question.options),
                shape=question.shape,
                deadline=question.deadline,
            )
        )
        answer: Answer | None = None
        try:
            seconds = seconds_until(question.deadline)
            answer = await self._wait(
                question.id, waiting, f"permission for {question.tool}", seconds, question.agent_id
            )
        finally:
            journal.record(self._settled(question, answer))
        if answer is None and self.attended:
            raise TimeoutError
        return answer

    def _settled(self, question: Question, answer: Answer | None) -> PermissionResolved:
        said = answer.answer if answer is not None else "unanswered"
        denied = said.strip().lower() not in CONSENTS
        return PermissionResolved(
            **self._journal.head(question.agent_id),
            question_id=question.id,
            call_id=question.call_id,
            answer=said,
            permission=Permission(
                "denied" if denied else "allowed",
                (answer.comment or f"answered {said}") if answer else "nobody answered",
                ("user_denied" if denied else "user_approved") if answer else "timeout",
            ),
            by=answer.by if answer else "",
        )

    async def clarify(self, asked: Clarification, agent_id: str = "") -> list[str | None] | None:
        """The user's answers to what an agent asks, in order; None when nobody is there."""
        if not self.attended:
            return None
        journal = self._journal
        waiting = self._open[asked.id] = Waiting(permission=False)
        journal.record(
            ClarificationQuestion(
                **journal.head(agent_id),
                question_id=asked.id,
                call_id=asked.call_id,
                context=asked.context,
                questions=asked.questions,
            )
        )
        answers: list[str | None] | None = None
        try:
            answers = await self._wait(asked.id, waiting, "an answer of the user", None, agent_id)
        finally:
            texts = [str(question.get("question", "")) for question in asked.questions]
            given = [*(answers or []), *([None] * len(texts))][: len(texts)]
            pairs = list(zip(texts, given, strict=True))
            journal.record(
                ClarificationResolved(**journal.head(agent_id), question_id=asked.id, qa_pairs=pairs)
            )
        return answers

    async def _wait(
        self, question_id: str, waiting: Waiting, what: str, seconds: float | None, agent_id: str
    ) -> Any:
        self._status(agent_id, "blocked", f"waiting for {what}")
        try:
            with anyio.move_on_after(seconds):
                await waiting.answered.wait()
        finally:
            self._open.pop(question_id, None)
            self._status(agent_id, "active", None)
        return waiting.answer

    def _status(self, agent_id: str, status: Any, reason: str | None) -> None:
        self._journal.show(AgentStatusChanged(**self._journal.shown(agent_id), status=status, reason=reason))

    def answer(self, question_id: str, answer: Answer | list[str | None]) -> bool:
        """Answer an open question; False when it is not open (answered, withdrawn or never asked)."""
        waiting = self._open.get(question_id)
        if waiting is None or waiting.answered.is_set() or isinstance(answer, Answer) != waiting.permission:
            return False
        waiting.answer = answer
        waiting.answered.set()
        return True


def seconds_until(deadline: str | None) -> float | None:
    """Seconds from now to a moment in ISO 8601; None for no deadline."""
    if deadline is None:
        return None
    return max(0.0, (datetime.fromisoformat(deadline) - datetime.now(UTC)).total_seconds())
