"""The desk where questions wait for a person: durable, answered once, never waiting for nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import msgspec

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


Asked = PermissionRequested | ClarificationQuestion


@dataclass(slots=True, eq=False)
class Waiting:
    """One open question and, later, its answer: an `Answer` to a permission question, a list to a clarification."""

    permission: bool
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Any = None
    asked: Asked | None = None
    """The question, where an earlier process has asked it and the call that waits for it has not come yet."""


class Desk:
    """Puts questions to whoever is there to answer. With nobody there a question is answered None at once.

    A clarification waits at most `timeout_s`, a permission question until its own deadline.
    """

    def __init__(self, journal: Journal, timeout_s: float | None = None) -> None:
        self._timeout_s = timeout_s
        self._journal = journal
        self._open: dict[str, Waiting] = {}
        self._answerers = 0
        self._patient = False
        self.early: Callable[[], None] = lambda: None
        """Told that a question of an earlier process was answered before the turn goes on."""

    # --- questions of an earlier process -------------------------------------------------------------------------

    def restore(self, asked: list[Asked]) -> None:
        """These questions are open, and wait for their answers, and for the calls that go on with them."""
        for question in asked:
            permission = isinstance(question, PermissionRequested)
            self._open[question.question_id] = Waiting(permission, asked=question)

    @property
    def restored(self) -> list[Asked]:
        """Those of them that no call has gone on with yet."""
        return [waiting.asked for waiting in self._open.values() if waiting.asked is not None]

    def forget(self) -> list[Asked]:
        """The questions nobody goes on with any more."""
        left = self.restored
        self._open = {key: waiting for key, waiting in self._open.items() if waiting.asked is None}
        return left

    def _taken_up(self, call_id: str, digest: str | None) -> Asked | None:
        """The question an earlier process has asked about this very call; whoever asks it again goes on with it."""
        for waiting in self._open.values():
            asked = waiting.asked
            if asked is None or asked.call_id != call_id:
                continue
            if digest is None or (isinstance(asked, PermissionRequested) and asked.digest == digest):
                waiting.asked = None
                return asked
        return None

    def as_asked(self, question: Question) -> Question:
        """A permission question under the id and deadline it has had in an earlier process, if it was asked there."""
        for waiting in self._open.values():
            held, mine = waiting.asked, (question.call_id, question.digest)
            if isinstance(held, PermissionRequested) and (held.call_id, held.digest) == mine:
                return msgspec.structs.replace(question, id=held.question_id, deadline=held.deadline)
        return question

    def waits(self, question_id: str) -> bool:
        """Whether anybody waits for the answer to a question."""
        return question_id in self._open

    # --- who is there --------------------------------------------------------------------------------------------

    def attend(self, *, patient: bool = False) -> Callable[[], None]:
        """Someone is there to answer from now on; returns the function that says they have left. With `patient` they, or
        others, may come back: questions wait for them, up to their deadlines."""
        self._answerers += 1
        self._patient = self._patient or patient
        present = True

        def leave() -> None:
            nonlocal present
            if not present:
                return
            present = False
            self._answerers -= 1
            if not self._answerers and not self._patient:
                for waiting in self._open.values():
                    waiting.answered.set()

        return leave

    @property
    def attended(self) -> bool:
        """Whether anybody can answer, now or later."""
        return self._answerers > 0 or self._patient

    async def ask(self, question: Question) -> Answer | None:
        """The answer to a permission question; None when nobody can give one. Raises TimeoutError past its deadline."""
        journal = self._journal
        question = self.as_asked(question)
        if self._taken_up(question.call_id, question.digest) is not None:
            return await self._answered(question)
        if not self.attended:
            return None
        self._open[question.id] = Waiting(permission=True)
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
        return await self._answered(question)

    async def _answered(self, question: Question) -> Answer | None:
        journal, waiting = self._journal, self._open[question.id]
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
        """The user's answers to what an agent asks, in order; None when nobody is there, or has answered in time:
        defaults stand then."""
        journal = self._journal
        deadline = None if self._timeout_s is None else moment_in(self._timeout_s)
        held = self._taken_up(asked.call_id, None)
        if held is not None:
            asked, deadline = msgspec.structs.replace(asked, id=held.question_id), held.deadline
        elif not self.attended:
            return None
        else:
            self._open[asked.id] = Waiting(permission=False)
            journal.record(
                ClarificationQuestion(
                    **journal.head(agent_id),
                    question_id=asked.id,
                    call_id=asked.call_id,
                    context=asked.context,
                    questions=asked.questions,
                    deadline=deadline,
                )
            )
        waiting = self._open[asked.id]
        answers: list[str | None] | None = None
        try:
            seconds = seconds_until(deadline)
            answers = await self._wait(asked.id, waiting, "an answer of the user", seconds, agent_id)
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
        if waiting.asked is not None:
            self.early()
        return True


def moment_in(seconds: float) -> str:
    """The moment so many seconds from now, in ISO 8601."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def seconds_until(deadline: str | None) -> float | None:
    """Seconds from now to a moment in ISO 8601; None for no deadline."""
    if deadline is None:
        return None
    return max(0.0, (datetime.fromisoformat(deadline) - datetime.now(UTC)).total_seconds())
