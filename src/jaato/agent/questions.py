"""The desk where questions wait for a person: durable, answered once, never waiting for nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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

DENIALS = {"n", "no", "never", "c"}


@dataclass(slots=True, eq=False)
class Waiting:
    """One open question and, later, its answer."""

    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Any = None


class Desk:
    """Puts questions to whoever is there to answer. With nobody there a question is answered None at once."""

    def __init__(self, journal: Journal, timeout_s: float | None = None) -> None:
        self._journal = journal
        self._open: dict[str, Waiting] = {}
        self._answerers = 0
        self.timeout_s = timeout_s

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
        """The answer to a permission question; None when nobody can give one or the time is over."""
        if not self.attended:
            return None
        journal = self._journal
        journal.record(
            PermissionRequested(
                **journal.head(),
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
            answer = await self._wait(question.id, f"permission for {question.tool}")
        finally:
            journal.record(self._settled(question, answer))
        return answer

    def _settled(self, question: Question, answer: Answer | None) -> PermissionResolved:
        said = answer.answer if answer is not None else "unanswered"
        denied = answer is None or said.split(" ")[0].lower() in DENIALS
        return PermissionResolved(
            **self._journal.head(),
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

    async def clarify(self, asked: Clarification) -> list[str | None] | None:
        """The user's answers, in order; None when nobody is there."""
        if not self.attended:
            return None
        journal = self._journal
        journal.record(
            ClarificationQuestion(
                **journal.head(),
                question_id=asked.id,
                call_id=asked.call_id,
                context=asked.context,
                questions=asked.questions,
            )
        )
        answers: list[str | None] | None = None
        try:
            answers = await self._wait(asked.id, "an answer of the user")
        finally:
            texts = [str(question.get("question", "")) for question in asked.questions]
            given = [*(answers or []), *([None] * len(texts))][: len(texts)]
            pairs = list(zip(texts, given, strict=True))
            journal.record(ClarificationResolved(**journal.head(), question_id=asked.id, qa_pairs=pairs))
        return answers

    async def _wait(self, question_id: str, what: str) -> Any:
        waiting = self._open[question_id] = Waiting()
        self._status("blocked", f"waiting for {what}")
        try:
            with anyio.move_on_after(self.timeout_s):
                await waiting.answered.wait()
        finally:
            del self._open[question_id]
            self._status("active", None)
        return waiting.answer

    def _status(self, status: Any, reason: str | None) -> None:
        self._journal.show(AgentStatusChanged(**self._journal.shown(), status=status, reason=reason))

    def answer(self, question_id: str, answer: Answer | list[str | None]) -> bool:
        """Answer an open question; False when it is not open (answered, withdrawn or never asked)."""
        waiting = self._open.get(question_id)
        if waiting is None or waiting.answered.is_set():
            return False
        waiting.answer = answer
        waiting.answered.set()
        return True
