"""Turns that outlive their process: left as they are when it ends, and gone on with when somebody says so.

What had begun is not repeated, unless its tool says that it goes on where it was. What came of a begun call with side
effects is asked, and nobody's guess. What had not begun is begun then, after its question, which keeps its id
however many processes it waits through, has been answered. Subagents at any depth go on as the root does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaato.abc.asker import Clarification
from jaato.agent.earlier import Asked, answers_of
from jaato.agent.recovery import close_turn, unanswered
from jaato.agent.turn import continue_turn, interrupted, run_turn
from jaato.errors import ConfigError, JaatoError
from jaato.protocol.events import ClarificationQuestion, PermissionRequested, TurnCompleted
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, ToolCall

if TYPE_CHECKING:
    from jaato.agent.session import Session

NOBODY_KNOWS = "nobody knows"
OUTCOMES = ["it was done", "it was not done", NOBODY_KNOWS]


def keep_open(session: Session) -> None:
    """After a process that died: this agent's turn stays open, and its questions for which a call still waits. Of calls
    that had begun, those that only read are interrupted, and about the others it is asked. Raises `StoreError`."""
    state, journal = session.state, session.journal
    kept: list[Asked] = []
    for question in list(state.questions.values()):
        if waits(session, question):
            kept.append(question)
        else:
            journal.record(unanswered(question, session))
    session.desk.restore(kept, answers_of(state))
    ask_what_came(session)
    session.desk.expire()


def ask_what_came(session: Session) -> None:
    """Ask about every call that was cut off; those that only read are interrupted. Raises `StoreError`."""
    for call in cut_off(session):
        if session.state.started[call.call_id].digest is None:
            close_begun(session, call)
        else:
            asked = question_about(session, call)
            session.journal.record(asked)
            session.desk.restore([session.state.questions[asked.question_id]], {})


def cut_off(session: Session) -> list[ToolCall]:
    """The calls that have begun, do not go on where they were, and that nobody was asked about."""
    state = session.state
    asked = [*state.questions.values(), *(question for question, _ in state.answered.values())]
    known = {question.call_id for question in asked if is_outcome(question)}
    return [
        call
        for call in state.open_calls.values()
        if call.call_id not in known
        and (begun := state.started.get(call.call_id)) is not None
        and not resumes(session, begun.tool)
    ]


def waits(session: Session, question: Asked) -> bool:
    """Whether a call of this agent goes on with the answer to a question of an earlier process."""
    state = session.state
    if question.call_id not in state.open_calls:
        return False
    begun = state.started.get(question.call_id)
    if begun is None:
        return isinstance(question, PermissionRequested)
    return is_outcome(question) or (not_permission(question) and resumes(session, begun.tool))


def is_outcome(question: Asked) -> bool:
    """Whether it is asked what came of a call."""
    return isinstance(question, ClarificationQuestion) and question.outcome


def not_permission(question: Asked) -> bool:
    """Whether an agent asks."""
    return isinstance(question, ClarificationQuestion)


def resumes(session: Session, tool: str) -> bool:
    """Whether a call of this tool can be made again, and goes on where it was."""
    found = session.catalog.find(tool)
    return found is not None and found.tool.resumes


def question_about(session: Session, call: ToolCall) -> ClarificationQuestion:
    """What only somebody who looks can know: what came of a call that was cut off."""
    tool = session.state.started[call.call_id].tool
    return ClarificationQuestion(
        **session.journal.head(),
        question_id=new_id("q"),
        call_id=call.call_id,
        context=(
            f"The program ended while {tool} ran: it may have done all, part or nothing of its work. It is not repeated."
        ),
        questions=[{"question": f"What came of {tool}?", "choices": OUTCOMES, "default": NOBODY_KNOWS}],
        deadline=session.desk.deadline(),
        outcome=True,
    )


async def learn(session: Session, call: ToolCall) -> None:
    """End a call that had begun, with what somebody knows of it; who cannot be asked knows nothing."""
    desk, agent_id = session.desk, session.state.agent_id
    if not desk.attended:
        desk.leave_open()
    asked = Clarification(id=new_id("q"), call_id=call.call_id, context="")
    said = await desk.clarify(asked, agent_id)
    words = (said or [None])[0]
    close_begun(session, call, words if words and words.strip() != NOBODY_KNOWS else "")


def close_begun(session: Session, call: ToolCall, said: str = "") -> None:
    """The result of a call that had begun when the program ended. Raises `StoreError`."""
    session.journal.record(interrupted(session, call.call_id, call.name, said))


def suspended(session: Session) -> bool:
    """Whether the turn of a root session, or the task of a subagent, waits to be gone on with."""
    return not session.busy and (session.state.open_turn is not None or bool(session.crew.suspended))


async def go_on(session: Session, *, patient: bool = False) -> TurnCompleted | None:
    """Go on with what was cut off; gives how the turn ended, None where only subagents were at work. Unless `patient`
    nobody is asked what came of calls: nobody knows. Raises `ConfigError` when there is nothing to go on with."""
    if not suspended(session):
        raise ConfigError("No turn was cut off here; say something to begin one.")
    if patient:
        ask_what_came(session)  # where not the process has failed but the store
    else:
        for call in cut_off(session):
            close_begun(session, call)
        session.desk.leave_open()
    if session.state.open_turn is None:
        await session.crew.take_up()
        return None

    async def work() -> TurnCompleted:
        await session.crew.take_up()
        return await continue_turn(session)

    return await session.occupied(work)


async def take_up(session: Session) -> TurnCompleted | None:
    """Go on with the task of a subagent: its open turn, or what waits in its inbox."""
    if session.state.open_turn is not None:
        return await session.occupied(lambda: continue_turn(session))
    return await session.heed()


async def begin(session: Session, message: Message) -> TurnCompleted:
    """Open a turn; one that was cut off is left behind."""
    if session.state.open_turn is not None or session.crew.children:
        await leave_behind(session)
    return await run_turn(session, message)


async def leave_behind(session: Session) -> None:
    """Something else is wanted now: the turn that was cut off ends, and what subagents did for it; others go on."""
    crew = session.crew
    if session.member_of is None:
        for child in reversed(crew.awaited_by_root()):
            crew.forsake(child, "interrupted", "The turn it worked for was given up.")
    if session.state.open_turn is not None:
        close_turn(session)  # or the store failed in it
    if session.member_of is None:
        await crew.take_up()


def give_up(session: Session) -> None:
    """End everything that was cut off. Raises `StoreError`."""
    for child in reversed(session.crew.suspended):
        session.crew.forsake(child, "cancelled", "It was stopped.")
    if session.state.open_turn is not None:
        close_turn(session)


def suspend(session: Session) -> None:
    """Write nothing from now on: the log stays as it is, as if the process had died now, and what runs is ended."""
    try:
        session.journal.flush()
    except JaatoError:
        pass  # it is as if the process had died before
    session.journal.freeze()
