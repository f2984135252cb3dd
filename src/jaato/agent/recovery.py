"""Crash recovery of one agent from its log.

A call that had started is not repeated, unless its tool is resumable; the user is asked about the outcome of one with
side effects. A call that had not started runs when the turn is resumed; a pending permission question keeps its id.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from jaato.abc.asker import Clarification
from jaato.abc.plugin import TaskStatus
from jaato.agent.background_tasks import BackgroundTasks
from jaato.agent.inbox import Inbox
from jaato.agent.journal import Journal
from jaato.agent.questions import OF_TURN, Asked, Questions, answers_of
from jaato.agent.results import record_interrupted_changes
from jaato.protocol.events import (
    BackgroundUpdated,
    ClarificationQuestion,
    ClarificationResolved,
    Event,
    Permission,
    PermissionRequested,
    PermissionResolved,
    PermissionRevoked,
    ToolCallEnd,
    ToolCallStart,
    TurnCompleted,
)
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Problem, ToolCall, ToolResult, Usage
from jaato.tools.call import Outcome, Output
from jaato.tools.catalog import Catalog
from jaato.tools.task_records import BackgroundTask, TaskRecords

UNKNOWN_OUTCOME = "unknown"
OUTCOMES = ["it was done", "it was not done", UNKNOWN_OUTCOME]
LOST_TASK = "Interrupted: the program ended while this task ran. It was not begun again."
NOT_BEGUN = "Not run: the program ended before it began."
INTERRUPTED = (
    "Interrupted: the program ended while this call ran. It may have done all, part or nothing of its work; "
    "it was not repeated. Look at what is there before you do it again."
)
PASSING_SCOPES = ("turn", "idle", "once", "call")


class RecoveryContext(Struct, frozen=True):
    """The parts of the session that recovery uses. With `keep_interrupted_turns` an interrupted turn stays open."""

    journal: Journal
    catalog: Catalog
    questions: Questions
    inbox: Inbox
    tasks: TaskRecords
    background: BackgroundTasks
    keep_interrupted_turns: bool = False


class Recovery:
    """Completes one agent's log after a crash. Its methods raise `StoreError` when the log cannot be written."""

    def __init__(self, context: RecoveryContext) -> None:
        self._context = context
        self._journal = context.journal
        self._questions = context.questions

    def run(self) -> None:
        """Close what the previous process left open: questions as unanswered, calls and tasks as interrupted, temporary
        grants as revoked, and the turn."""
        journal, state = self._journal, self._journal.state
        if journal.store.read_only:
            return  # it can be looked at; nothing can go on in it
        asked = [*state.questions.values(), *(question for question, _ in state.answered.values())]
        asked_about = {question.call_id for question in asked if is_outcome(question)}
        record_interrupted_changes(
            journal, [start for key, start in state.started.items() if key not in asked_about]
        )
        if self._context.keep_interrupted_turns and state.open_turn is not None:
            self._keep_turn_open()
        else:
            for question in list(state.questions.values()):
                journal.record(make_unanswered_event(question, journal))
            self.close_turn()
        for grant in [grant for grant in state.grants.values() if grant.scope in PASSING_SCOPES]:
            journal.record(PermissionRevoked(**journal.head(), grant_id=grant.id))
        for start in [start for key, start in state.started.items() if key not in state.open_calls]:
            journal.record(
                make_interrupted_end(journal, start.call_id, start.tool)
            )  # not one the model asked for
        self._restore_tasks()

    def _restore_tasks(self) -> None:
        journal, tasks = self._journal, self._journal.state.tasks
        for task in list(tasks.values()):
            if task.status == "running":
                self._context.inbox.notify(
                    f"Background task {task.task_id} ({task.tool}) was interrupted: the program ended.",
                    "system",
                    msgspec.structs.replace(task, **journal.head(), status="interrupted"),
                )
        for task in tasks.values():
            self._context.tasks.add(restore_task(task))

    def record_refused(self) -> None:
        """Record what the store has refused before: resolutions of abandoned questions, and ends of background tasks."""
        for question in list(self._journal.state.questions.values()):
            if not self._questions.waits(question.question_id):
                self._journal.record(make_unanswered_event(question, self._journal))
        self._context.background.record_refused()

    def close_turn(self) -> None:
        """End an unfinished turn: a result for every call, a resolution for every question."""
        state, journal = self._journal.state, self._journal
        for question in self._questions.forget(state.agent_id):
            journal.record(make_unanswered_event(question, journal))
        close_calls(journal, NOT_BEGUN)
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

    # --- a turn that stays open ----------------------------------------------------------------------------------

    def _keep_turn_open(self) -> None:
        """Keep the turn open, with the questions that calls wait for. Of started calls, those that only read are interrupted;
        the user is asked about the outcome of the others."""
        kept: list[Asked] = []
        for question in list(self._journal.state.questions.values()):
            if self._is_waited_for(question):
                kept.append(question)
            else:
                self._journal.record(make_unanswered_event(question, self._journal))
        self._questions.restore(kept, answers_of(self._journal.state))
        self.ask_outcomes()
        self._questions.expire()

    def ask_outcomes(self) -> None:
        """Ask about the outcome of every interrupted call; those that only read are closed."""
        state = self._journal.state
        for call in self._find_interrupted_calls():
            if state.started[call.call_id].digest is None:
                self._end_begun(call)
            else:
                asked = self._question_about(call)
                self._journal.record(asked)
                self._questions.restore([state.questions[asked.question_id]], {})

    def close_interrupted_calls(self) -> None:
        """Close interrupted calls without asking about their outcome."""
        for call in self._find_interrupted_calls():
            self._end_begun(call)

    def _find_interrupted_calls(self) -> list[ToolCall]:
        """The started calls that are not resumable and have no question about their outcome."""
        state = self._journal.state
        asked = [*state.questions.values(), *(question for question, _ in state.answered.values())]
        known = {question.call_id for question in asked if is_outcome(question)}
        return [
            call
            for call in state.open_calls.values()
            if call.call_id not in known
            and (begun := state.started.get(call.call_id)) is not None
            and not self._is_resumable(begun.tool)
        ]

    def _is_waited_for(self, question: Asked) -> bool:
        """Whether a call of this agent, or its turn, still waits for the answer to a restored question."""
        state = self._journal.state
        if question.call_id not in state.open_calls:
            return question.call_id.startswith(OF_TURN)
        begun = state.started.get(question.call_id)
        if begun is None:
            return isinstance(question, PermissionRequested)
        by_agent = isinstance(question, ClarificationQuestion)
        return is_outcome(question) or (by_agent and self._is_resumable(begun.tool))

    def _is_resumable(self, tool: str) -> bool:
        """Whether a call of this tool can be resumed."""
        found = self._context.catalog.find(tool)
        return found is not None and found.tool.resumes

    def _question_about(self, call: ToolCall) -> ClarificationQuestion:
        """The question about the outcome of an interrupted call."""
        tool = self._journal.state.started[call.call_id].tool
        return ClarificationQuestion(
            **self._journal.head(),
            question_id=new_id("q"),
            call_id=call.call_id,
            context=(
                f"The program ended while {tool} ran: it may have done all, part or nothing of its work. It is not repeated."
            ),
            questions=[
                {"question": f"What came of {tool}?", "choices": OUTCOMES, "default": UNKNOWN_OUTCOME}
            ],
            deadline=self._questions.deadline(),
            outcome=True,
        )

    async def resume_call(self, call: ToolCall, begun: ToolCallStart) -> bool:
        """Close a call that an earlier process started, with the user's answer about its outcome. False where its tool is
        resumable, so that it is called again instead."""
        if self._is_resumable(begun.tool):
            return False
        if not self._questions.has_responder:
            self._questions.leave_open()
        asked = Clarification(id=new_id("q"), call_id=call.call_id, context="")
        answers = await self._questions.clarify(asked, self._journal.state.agent_id)
        words = (answers or [None])[0]
        self._end_begun(call, words if words and words.strip() != UNKNOWN_OUTCOME else "")
        return True

    def _end_begun(self, call: ToolCall, answer: str = "") -> None:
        """The result of a call that had begun when the program ended."""
        self._journal.record(make_interrupted_end(self._journal, call.call_id, call.name, answer))


def is_outcome(question: Asked) -> bool:
    """Whether a question is about the outcome of an interrupted call."""
    return isinstance(question, ClarificationQuestion) and question.outcome


def make_unanswered_event(question: Asked, journal: Journal) -> Event:
    """The event that resolves a question as unanswered."""
    head = journal.head()
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


def close_calls(journal: Journal, why: str) -> None:
    """Give every call without a result one, so that the conversation stays valid. Raises `StoreError`."""
    for call in list(journal.state.open_calls.values()):
        if call.call_id in journal.state.started:
            journal.record(make_interrupted_end(journal, call.call_id, call.name))
            continue
        result = ToolResult(call.call_id, call.name, False, error=Problem(code="cancelled", message=why))
        head = journal.head()
        journal.record(
            ToolCallEnd(**head, call_id=call.call_id, tool=call.name, result=result, duration_s=0.0)
        )


def make_interrupted_end(journal: Journal, call_id: str, tool: str, answer: str = "") -> ToolCallEnd:
    """The event that ends an interrupted call, with the user's answer about it."""
    words = f'{INTERRUPTED} The user says of it: "{answer}"' if answer else INTERRUPTED
    result = ToolResult(call_id, tool, False, error=Problem(code="interrupted", message=words))
    head = journal.head()
    return ToolCallEnd(**head, call_id=call_id, tool=tool, result=result, duration_s=0.0)


def restore_task(event: BackgroundUpdated) -> BackgroundTask:
    """A task of an earlier process as the background tools show it: its end and its result, not what it printed."""
    task = BackgroundTask(
        event.tool, event.plugin, lambda: None, id=event.task_id, call_id=event.call_id or ""
    )
    task.started_at = event.timestamp
    result = event.result
    if result is None:
        outcome = Outcome(False, problem=Problem(code="interrupted", message=LOST_TASK))
    else:
        text = "".join(result.texts)
        outcome = Outcome(result.ok, Output(text, result.structured), result.error)
    task.finish(outcome, TaskStatus.CANCELLED if event.status == "cancelled" else None)
    task.ended_at = event.timestamp
    return task
