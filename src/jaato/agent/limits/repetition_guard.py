"""Acts on repeated steps: tells the model first, then asks the user, and ends the turn when no one can answer."""

from __future__ import annotations

from jaato.abc.asker import Clarification
from jaato.agent.inbox import Author, Inbox
from jaato.agent.journal import Journal
from jaato.agent.limits.repetition import (
    ASK_AFTER,
    CONTINUE,
    NUDGE_AFTER,
    NUDGE_KEY,
    QUESTION_CALL,
    STOP,
    Repetition,
)
from jaato.agent.questions import Questions
from jaato.errors import LimitReached
from jaato.protocol.ids import new_id

NUDGE = (
    "You are repeating yourself: {text}. Doing it again will not change the outcome. Read the last results again, say "
    "what you conclude from them, and take another approach; or end your turn and say what is missing."
)
QUESTION = "Continue, stop, or tell the agent what to do instead?"


class RepetitionGuard:
    """Checks one agent before each model call; the check costs the same for any length of the history."""

    def __init__(self, journal: Journal, inbox: Inbox, questions: Questions, *, enabled: bool = True) -> None:
        self._journal = journal
        self._inbox = inbox
        self._questions = questions
        self._enabled = enabled

    async def check(self) -> None:
        """Tell the model or ask the user, where steps are repeated. Raises `LimitReached` when the work is to end."""
        fold = self._journal.state.repetition
        if not self._enabled or (repetition := fold.find(NUDGE_AFTER)) is None:
            return
        if (lasting := fold.find(ASK_AFTER)) is not None:
            await self._ask(lasting)
        elif not fold.nudged:
            self._inbox.notify(NUDGE.format(text=repetition.text), author=Author(once=NUDGE_KEY))

    async def _ask(self, repetition: Repetition) -> None:
        text = repetition.text
        asked = Clarification(
            id=new_id("q"),
            call_id=QUESTION_CALL,
            context=f"The agent repeats itself: {text}.",
            questions=[{"question": QUESTION, "choices": [CONTINUE[0], STOP[0]], "default": STOP[0]}],
        )
        answers = await self._questions.clarify(asked, self._journal.state.agent_id)
        answer = ((answers or [None])[0] or "").strip()
        if not answer or answer.lower() in STOP:
            why = "the user stopped it" if answer else "no one was there to say whether it should go on"
            raise LimitReached(
                f"Stopped because of a repetition: {text}; {why}. Another message continues the session; "
                "loop_detection = false turns this check off."
            )
        if answer.lower() not in CONTINUE:
            self._inbox.notify(answer, "user")
