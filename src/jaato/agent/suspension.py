"""Turns that outlive their process: left as they are when it ends, and gone on with when somebody says so.

What had begun is not repeated: such a call has the result `interrupted`. What had not begun is begun then, after its
question, which keeps its id however many processes it waits through, has been answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaato.agent.recovery import unanswered
from jaato.agent.turn import continue_turn, interrupted
from jaato.errors import ConfigError, JaatoError
from jaato.protocol.events import ClarificationQuestion, TurnCompleted

if TYPE_CHECKING:
    from jaato.agent.session import Session


def keep_open(session: Session) -> None:
    """After a process that died: calls that had begun are interrupted, but for those that only asked; questions of the
    root stay open, its turn too. Raises `StoreError`."""
    state, journal = session.state, session.journal
    mine = {
        question.question_id: question
        for question in state.questions.values()
        if question.agent_id == state.agent_id and question.call_id in state.open_calls
    }
    for question in list(state.questions.values()):
        if question.question_id not in mine:
            journal.record(unanswered(question, session))
    session.desk.restore(list(mine.values()))
    close_begun(session)


def close_begun(session: Session) -> None:
    """Calls that have begun and are not at work are interrupted, but for those that only asked. Raises `StoreError`."""
    state = session.state
    asking = {one.call_id for one in session.desk.restored if isinstance(one, ClarificationQuestion)}
    for call in list(state.open_calls.values()):
        if call.call_id in state.started and call.call_id not in asking:
            session.journal.record(interrupted(session, call.call_id, call.name))


def suspended(session: Session) -> bool:
    """Whether a turn waits to be gone on with."""
    return session.state.open_turn is not None and not session.busy


async def go_on(session: Session) -> TurnCompleted:
    """Go on with the turn that was cut off, to its end. Raises `ConfigError` when there is none."""
    if not suspended(session):
        raise ConfigError("No turn was cut off here; say something to begin one.")
    close_begun(session)  # where not the process has failed but the store
    return await session.occupied(lambda: continue_turn(session))


def suspend(session: Session) -> None:
    """Write nothing from now on: the log stays as it is, as if the process had died now, and what runs is ended."""
    try:
        session.journal.flush()
    except JaatoError:
        pass  # it is as if the process had died before
    session.journal.freeze()
