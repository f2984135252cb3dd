"""Pending questions of a session: permissions and clarifications, their responders, and those restored after a crash."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import msgspec

from jaato.abc.asker import Answer, Clarification, Question
from jaato.agent.journal import Journal
from jaato.agent.state import Question as Asked
from jaato.agent.state import State
from jaato.errors import SessionBusy
from jaato.protocol.events import (
    AgentStatusChanged,
    ClarificationQuestion,
    ClarificationResolved,
    Permission,
    PermissionRequested,
    PermissionResolved,
)

Given = Answer | list[str | None] | None
"""An answer; None if there was none before the deadline."""
Key = tuple[str, str, str]
"""An agent, its call, and for a permission question the digest the answer is bound to."""
CONSENTS = frozenset("y yes a always t turn i idle once all e edit".split())
"""Answers that allow a call; any other denies it, or is invalid and asked for again."""
EDITED = ("e", "edit")
DECIDERS = dict.fromkeys(("mode", "read_only", "plan"), "the mode")
"""By the method of a permission, what has decided it in place of a person; else the rules have."""
OF_TURN = "limit:"
"""How the `call_id` of a question begins that belongs to no call: the turn itself waits for its answer."""

__all__ = ["Asked", "Given", "Key", "answers_of", "key_of", "resolution"]


def key_of(asked: Asked) -> Key:
    """The call that an answer belongs to."""
    return asked.agent_id, asked.call_id, asked.digest if isinstance(asked, PermissionRequested) else ""


def is_edit(answer: str) -> bool:
    """Whether an answer allows the call with edited arguments."""
    return answer.strip().lower() in EDITED


def answers_of(state: State) -> dict[Key, Given]:
    """The recorded answers that their calls have not used yet; edited arguments are not recorded."""
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
                if not is_edit(word):
                    comment = permission.reason if word in ("c", "comment") else None
                    given[key_of(asked)] = Answer(answer=word, comment=comment, by=resolved.by)
    return given


def resolution(
    head: dict[str, Any], asked: Asked, given: Given, by: str = ""
) -> PermissionResolved | ClarificationResolved:
    """The event that resolves a question; None: it was not answered."""
    if isinstance(asked, PermissionRequested):
        answer = given if isinstance(given, Answer) else None
        word = answer.answer if answer is not None else "unanswered"
        denied = word.strip().lower() not in CONSENTS
        return PermissionResolved(
            **head,
            question_id=asked.question_id,
            call_id=asked.call_id,
            answer=word,
            permission=Permission(
                "denied" if denied else "allowed",
                (answer.comment or f"answered {word}") if answer else "no answer",
                ("user_denied" if denied else "user_approved") if answer else "timeout",
            ),
            by=answer.by if answer else "",
        )
    texts = [str(question.get("question", "")) for question in asked.questions]
    replies = given if isinstance(given, list) else []
    pairs = list(zip(texts, [*replies, *([None] * len(texts))][: len(texts)], strict=True))
    return ClarificationResolved(**head, question_id=asked.question_id, qa_pairs=pairs, by=by)


NOTHING: Given = []
"""No recorded answer; None means it timed out."""


class Waiting(msgspec.Struct, eq=False):
    """A pending question and, later, its answer: an `Answer` to a permission question, a list to a clarification."""

    asked: Asked | None = None
    earlier: bool = False
    """Whether an earlier process asked it and its call has not been resumed yet."""
    answered: anyio.Event = msgspec.field(default_factory=anyio.Event)
    answer: Given = None


class Questions:
    """Asks the responders of a session. Without a responder a question is answered with None at once.

    A clarification waits at most `timeout_s`, a permission question until its own deadline. An answer is in the log
    before `answer` says that it counts. `check_edit` raises `InvalidArguments` for edited arguments that a tool cannot be
    called with.
    """

    def __init__(
        self,
        journal: Journal,
        timeout_s: float | None = None,
        check_edit: Callable[[str, dict[str, Any]], None] = lambda _tool, _arguments: None,
    ) -> None:
        self._timeout_s = timeout_s
        self._journal = journal
        self._check_edit = check_edit
        self._open: dict[str, Waiting] = {}
        self._given: dict[Key, Given] = {}
        self._answerers = 0
        self._waits = 0
        self._waiting_since = self._waited_s = 0.0
        self._patient = False
        self.early: Callable[[], None] = lambda: None
        """Called when a restored question is answered before its turn is resumed."""

    # --- questions of an earlier process -------------------------------------------------------------------------

    def restore(self, asked: list[Asked], given: dict[Key, Given]) -> None:
        """Restore pending questions of an earlier process, and answers that their calls have not used yet."""
        self._open |= {question.question_id: Waiting(question, earlier=True) for question in asked}
        self._given |= given

    def forget(self, agent_id: str) -> list[Asked]:
        """Remove and return the restored questions of an agent that is not resumed."""
        self._given = {key: given for key, given in self._given.items() if key[0] != agent_id}
        left = [asked for asked in self._restore() if asked.agent_id == agent_id]
        for asked in left:
            del self._open[asked.question_id]
        return left

    def withdraw(self, agent_id: str) -> None:
        """Resolve the restored questions of an agent that no call has taken up. Raises `StoreError`."""
        for asked in self.forget(agent_id):
            self._journal.record(resolution(self._journal.head(agent_id), asked, None))

    def expire(self) -> None:
        """Resolve restored questions past their deadline by their default. Raises `StoreError`."""
        for asked in self._restore():
            if seconds_until(asked.deadline) == 0.0:
                self._settle_early(asked, None)

    def leave_open(self) -> None:
        """Resolve the questions about interrupted calls as unknown. Raises `StoreError`."""
        for asked in self._restore():
            if isinstance(asked, ClarificationQuestion) and asked.outcome:
                self._settle_early(asked, None)

    def _settle_early(self, asked: Asked, answer: Given, by: str = "") -> None:
        """Record an answer before its call is resumed."""
        self._journal.record(resolution(self._journal.head(asked.agent_id), asked, answer, by))
        del self._open[asked.question_id]
        self._given[key_of(asked)] = answer

    def _restore(self) -> list[Asked]:
        return [one.asked for one in self._open.values() if one.earlier and one.asked is not None]

    def _find_restored(self, key: Key) -> Waiting | None:
        """The restored question about this call, if an earlier process asked one."""
        for asked in self._restore():
            if key_of(asked) == key:
                waiting = self._open[asked.question_id]
                waiting.earlier = False
                return waiting
        return None

    def as_asked(self, question: Question) -> Question:
        """The permission question with the id and deadline it had in an earlier process, if it was asked there."""
        for held in self._restore():
            if key_of(held) == (question.agent_id, question.call_id, question.digest):
                return msgspec.structs.replace(question, id=held.question_id, deadline=held.deadline)
        return question

    def waits(self, question_id: str) -> bool:
        """Whether a question is pending."""
        return question_id in self._open

    # --- who is there --------------------------------------------------------------------------------------------

    def add_responder(self, *, patient: bool = False) -> Callable[[], None]:
        """Register a responder; returns the function that removes it. With `patient`, questions stay pending without a
        responder, up to their deadlines, since one may reconnect."""
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
                    if not waiting.earlier:
                        waiting.answered.set()

        return leave

    @property
    def has_responder(self) -> bool:
        """Whether there is a responder, or may be one later."""
        return self._answerers > 0 or self._patient

    async def ask(self, question: Question) -> Answer | None:
        """Ask a permission question; None without a responder. Raises TimeoutError past its deadline."""
        journal = self._journal
        key = (question.agent_id, question.call_id, question.digest)
        waiting = self._find_restored(key)
        if waiting is None:
            given = self._given.pop(key, NOTHING)
            if given is None:
                raise TimeoutError
            if isinstance(given, Answer):
                return given
            if not self.has_responder:
                return None
            asked = PermissionRequested(
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
                access=question.access,
                preview=question.preview,
            )
            waiting = self._put(asked)
        answer = await self._wait(waiting, f"permission for {question.tool}")
        if answer is None and self.has_responder:
            raise TimeoutError
        return answer if isinstance(answer, Answer) else None

    async def clarify(self, asked: Clarification, agent_id: str = "") -> list[str | None] | None:
        """Ask the user an agent's questions; None without a responder or an answer in time: defaults apply then."""
        key = (agent_id, asked.call_id, "")
        waiting = self._find_restored(key)
        if waiting is None:
            given = self._given.pop(key, NOTHING)
            if given is None or (isinstance(given, list) and given):
                return given
            if not self.has_responder:
                return None
            question = ClarificationQuestion(
                **self._journal.head(agent_id),
                question_id=asked.id,
                call_id=asked.call_id,
                context=asked.context,
                questions=asked.questions,
                deadline=self.deadline(),
            )
            waiting = self._put(question)
        answers = await self._wait(waiting, "an answer of the user")
        return answers if isinstance(answers, list) else None

    def _put(self, asked: Asked) -> Waiting:
        """Record and publish a question."""
        waiting = self._open[asked.question_id] = Waiting(asked)
        try:
            self._journal.record(asked)
        except BaseException:
            del self._open[asked.question_id]  # it was not published
            raise
        return waiting

    def deadline(self) -> str | None:
        """The deadline of a clarification asked now."""
        if self._timeout_s is None:
            return None
        return (datetime.now(UTC) + timedelta(seconds=self._timeout_s)).isoformat(timespec="milliseconds")

    @property
    def waited_s(self) -> float:
        """How long a question was pending, in seconds; several at once count once."""
        return self._waited_s + (time.monotonic() - self._waiting_since if self._waits else 0.0)

    async def _wait(self, waiting: Waiting, what: str) -> Given:
        """Wait for the answer to a pending question; without one it is withdrawn."""
        asked = waiting.asked
        assert asked is not None
        self._status(asked.agent_id, "blocked", f"waiting for {what}")
        if not self._waits:
            self._waiting_since = time.monotonic()
        self._waits += 1
        try:
            with anyio.move_on_after(seconds_until(asked.deadline)):
                await waiting.answered.wait()
        finally:
            self._waits -= 1
            self._waited_s += 0.0 if self._waits else time.monotonic() - self._waiting_since
            self._open.pop(asked.question_id, None)
            self._status(asked.agent_id, "active", None)
            if waiting.answer is None:
                self._journal.record(resolution(self._journal.head(asked.agent_id), asked, None))
        return waiting.answer

    def _status(self, agent_id: str, status: Any, reason: str | None) -> None:
        self._journal.show(AgentStatusChanged(**self._journal.shown(agent_id), status=status, reason=reason))

    def respond(self, question_id: str, answer: Answer | list[str | None], by: str = "") -> bool:
        """Answer an open question; False when it is not open (answered, withdrawn, too late or never asked). Raises
        `StoreError`, `SessionBusy` when the program ends, and `InvalidArguments` for edited arguments that the tool cannot
        be called with; it is open then as before."""
        if self._journal.frozen:
            raise SessionBusy("The server is going down; answer when it is there again.")
        self.expire()
        waiting = self._open.get(question_id)
        if waiting is None or waiting.asked is None or waiting.answered.is_set():
            return False
        if isinstance(answer, Answer) != isinstance(waiting.asked, PermissionRequested):
            return False
        match waiting.asked, answer:
            case PermissionRequested(tool=tool), Answer(answer=word, arguments=dict(arguments)) if is_edit(
                word
            ):
                self._check_edit(tool, arguments)
        if waiting.earlier:
            self._settle_early(waiting.asked, answer, by)
            self.early()
            return True
        head = self._journal.head(waiting.asked.agent_id)
        self._journal.record(resolution(head, waiting.asked, answer, by))
        waiting.answer = answer
        waiting.answered.set()
        return True

    def settle(self, key: Key, permission: Permission) -> bool:
        """Settle the open question about a call as the mode or a rule has decided; False when there is none. Raises
        `StoreError`."""
        for waiting in self._open.values():
            asked = waiting.asked
            if (
                not isinstance(asked, PermissionRequested)
                or waiting.answered.is_set()
                or key_of(asked) != key
            ):
                continue
            by = DECIDERS.get(permission.method, "the rules")
            answer = Answer(answer="y" if permission.decision == "allowed" else "n", by=by)
            resolved = resolution(self._journal.head(asked.agent_id), asked, answer)
            self._journal.record(msgspec.structs.replace(resolved, permission=permission))
            waiting.answer = answer
            waiting.answered.set()
            return True
        return False


def seconds_until(deadline: str | None) -> float | None:
    """Seconds from now to a moment in ISO 8601; None for no deadline."""
    if deadline is None:
        return None
    return max(0.0, (datetime.fromisoformat(deadline) - datetime.now(UTC)).total_seconds())
