"""What a session does about a process that died: nothing is repeated, and nothing stays open that nobody works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jaato.abc.background import TaskStatus
from jaato.agent.touched import left_behind
from jaato.agent.turn import close_calls, interrupted
from jaato.protocol.events import (
    BackgroundUpdated,
    ClarificationQuestion,
    ClarificationResolved,
    Event,
    Permission,
    PermissionRequested,
    PermissionResolved,
    PermissionRevoked,
    TurnCompleted,
)
from jaato.protocol.messages import Problem, Text, Usage
from jaato.tools.background import Task
from jaato.tools.call import Outcome, Output

if TYPE_CHECKING:
    from jaato.agent.session import Session
    from jaato.agent.state import Question

LOST_TASK = "Interrupted: the program ended while this task ran. It was not begun again."
PASSING = ("turn", "idle", "once", "call")


def recover(session: Session) -> None:
    """Close what the process before left open: questions as unanswered, calls and tasks as interrupted, passing
    grants as over, the turn. Raises `StoreError`."""
    state, journal = session.state, session.journal
    if journal.store.read_only:
        return  # it can be looked at; nothing can go on in it
    asked = [*state.questions.values(), *(question for question, _ in state.answered.values())]
    told = {
        one.call_id for one in asked if isinstance(one, ClarificationQuestion) and one.outcome
    }  # by who has asked
    left_behind(journal, [start for key, start in state.started.items() if key not in told])
    if session.resumable and state.open_turn is not None:
        from jaato.agent.suspension import keep_open

        keep_open(session)
    else:
        for question in list(state.questions.values()):
            journal.record(unanswered(question, session))
        close_turn(session)
    for grant in [grant for grant in state.grants.values() if grant.scope in PASSING]:
        journal.record(PermissionRevoked(**journal.head(), grant_id=grant.id))
    for start in [start for key, start in state.started.items() if key not in state.open_calls]:
        journal.record(interrupted(session, start.call_id, start.tool))  # not one the model asked for
    for task in list(state.tasks.values()):
        if task.status == "running":
            session.notice(
                f"Background task {task.task_id} ({task.tool}) was interrupted: the program ended.",
                "system",
                msgspec.structs.replace(task, **journal.head(), status="interrupted"),
            )
    for task in state.tasks.values():
        session.tasks.add(remembered(task))


def make_good(session: Session) -> None:
    """Record what a store that failed has refused: the ends of questions nobody waits for, and of background tasks.
    Raises `StoreError` when it still does."""
    for question in list(session.state.questions.values()):
        if not session.desk.waits(question.question_id):
            session.journal.record(unanswered(question, session))
    session.steps.background.make_good()


def unanswered(question: Question, session: Session) -> Event:
    """The end of a question that nobody can answer any more."""
    head = session.journal.head()
    if isinstance(question, PermissionRequested):
        return PermissionResolved(
            **head,
            question_id=question.question_id,
            call_id=question.call_id,
            answer="unanswered",
            permission=Permission("denied", "the program ended before it was answered", "interrupted"),
        )
    pairs: list[tuple[str, str | None]] = [
        (str(asked.get("question", "")), None) for asked in question.questions
    ]
    return ClarificationResolved(**head, question_id=question.question_id, qa_pairs=pairs)


def close_turn(session: Session) -> None:
    """Give every call of an unfinished turn its result, its questions and the turn their end. Raises `StoreError`."""
    state, journal = session.state, session.journal
    for question in session.desk.forget(state.agent_id):
        journal.record(unanswered(question, session))
    close_calls(session, "Not run: the program ended before it began.")
    if state.open_turn is not None:
        journal.record(
            TurnCompleted(
                **journal.head(),
                turn_id=state.open_turn,
                reason="interrupted",
                usage=Usage(),
                model_calls=0,
                tool_calls=0,
                duration_s=0.0,
            )
        )


def remembered(event: BackgroundUpdated) -> Task:
    """A task of an earlier process as the background tools show it: its end and its result, not what it printed."""
    task = Task(event.tool, event.plugin, lambda: None, id=event.task_id, call_id=event.call_id or "")
    task.started_at = event.timestamp
    result = event.result
    if result is None:
        outcome = Outcome(False, problem=Problem(code="interrupted", message=LOST_TASK))
    else:
        text = "".join(part.text for part in result.content if isinstance(part, Text))
        outcome = Outcome(result.ok, Output(text, result.structured), result.error)
    task.finish(outcome, TaskStatus.CANCELLED if event.status == "cancelled" else None)
    task.ended_at = event.timestamp
    return task
