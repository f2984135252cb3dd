"""A subagent: its session, its task, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import anyio
from msgspec import Struct

from jaato.agent.compaction.engine import CompactionEngine
from jaato.agent.inbox import NO_AUTHOR, Author, Inbox
from jaato.agent.journal import Journal
from jaato.agent.model import ModelClient
from jaato.agent.state import State, SubagentRecord
from jaato.agent.tool_runner import ToolRunner
from jaato.errors import ToolError
from jaato.protocol.events import AgentCreated, TurnCompleted
from jaato.protocol.messages import Media, Source
from jaato.protocol.specs import AgentBounds

if TYPE_CHECKING:
    from jaato.agent.limits.budget_account import BudgetAccount

Status = Literal["waiting", "running", "blocked", "completed", "failed", "cancelled", "interrupted", "closed"]
Ending = Literal["completed", "failed", "cancelled", "interrupted", "closed"]
REASONS: dict[str, str] = {
    "limit": "it reached the limit of its turn",
    "refusal": "the model refused to go on",
    "error": "the model could not be asked",
}


STOPPING_S = 10.0
"""How long one that is stopped may take to end."""


class SubagentLimits(Struct, frozen=True):
    """How deep subagents may nest, how many may work at once, and how many one session may have open."""

    depth: int = 3
    at_once: int = 8
    open: int = 32


class SubagentError(ToolError):
    """There is no such subagent, or it cannot do this now."""

    code = "no_subagent"


class AgentSession(Protocol):
    """What is needed of the session of an agent to run it as a subagent, or to be the one above."""

    @property
    def journal(self) -> Journal: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def tools(self) -> ToolRunner: ...
    @property
    def model(self) -> ModelClient: ...
    @property
    def compaction(self) -> CompactionEngine: ...
    @property
    def budget(self) -> BudgetAccount | None: ...
    @property
    def state(self) -> State: ...
    @property
    def is_busy(self) -> bool: ...

    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def post(
        self,
        text: str,
        attachments: Sequence[Media] = (),
        source: Source = "user",
        author: Author = NO_AUTHOR,
        *,
        queue: bool = False,
    ) -> TurnCompleted | None: ...

    async def run_queued(self) -> TurnCompleted | None: ...

    async def resume_task(self) -> TurnCompleted | None: ...

    def stop(self) -> None: ...

    def close_turn(self) -> None: ...


class Subagent:
    """A subagent that is not closed.

    `ended` is set while it has no task; `result_delivered`: its parent has its result; `has_slot`: it holds a slot for
    working agents; `waits` counts its calls that wait for other agents, `awaited` those that wait for it; `suspended`:
    its task was interrupted by the end of a process and is not resumed yet.
    """

    def __init__(
        self,
        record: SubagentRecord,
        created: AgentCreated,
        session: AgentSession,
        parent: AgentSession,
        parent_name: str,
        depth: int,
    ) -> None:
        self.record = record
        self.created = created
        self.session = session
        self.parent = parent
        self.parent_name = parent_name
        self.depth = depth
        self.ended = anyio.Event()
        self.ended.set()
        self.scope = anyio.CancelScope()
        self.has_slot = self.suspended = False
        self.waits = self.awaited = 0
        self.result_delivered = True

    @property
    def id(self) -> str:
        """The agent's id."""
        return self.created.agent_id

    @property
    def name(self) -> str:
        """The name it was given."""
        return self.created.name

    @property
    def bounds(self) -> AgentBounds:
        """How it is held."""
        return self.created.bounds or AgentBounds()

    @property
    def at_work(self) -> bool:
        """Whether it has a task."""
        return not self.ended.is_set()

    @property
    def status(self) -> Status:
        """What it does, or how its last task ended."""
        if self.suspended:
            return "interrupted"
        if self.at_work:
            if self.record.state.questions:
                return "blocked"
            return "running" if self.has_slot or self.waits else "waiting"
        completed = self.record.completed
        return completed.reason if completed is not None else "failed"

    def begin(self) -> None:
        """Mark the start of a task."""
        self.ended, self.scope, self.result_delivered = anyio.Event(), anyio.CancelScope(), False
        self.suspended = False

    def stop(self) -> None:
        """Stop its task."""
        if self.session.is_busy:
            self.session.stop()
        elif self.at_work:
            self.session.stop()
            self.scope.cancel()

    def last_text(self) -> str:
        """The text of its last reply."""
        for message in reversed(self.record.state.messages):
            if message.role == "assistant" and message.text:
                return message.text
            if message.role == "user":
                return ""
        return ""

    def row(self) -> dict[str, Any]:
        """A row of the list of subagents."""
        state, created = self.record.state, self.created
        row: dict[str, Any] = {"agent_id": self.id, "name": self.name, "status": self.status}
        row["parent"] = self.parent_name
        if created.profile is not None:
            row["profile"] = created.profile
        if state.questions:
            row["waiting_for"] = "; ".join(map(describe_question, state.questions.values()))
        if self.at_work and state.started:
            row["calling"] = [start.tool for start in state.started.values()][:8]
        row |= {"turns": state.turns, "input_tokens": state.usage.input_tokens}
        return row | {"output_tokens": state.usage.output_tokens}

    def report(self) -> dict[str, Any]:
        """The row and the result of its task."""
        row = self.row()
        if self.at_work:
            return row | ({"so_far": self.last_text()[-2_000:]} if self.last_text() else {})
        completed = self.record.completed
        if completed is not None and completed.reason == "completed":
            last = self.record.last_turn
            if last is not None and last.reason == "length":
                row["note"] = "Its answer was cut at the longest length of a reply."
            return row | {"result": self.last_text() or "(it ended without a word)"}
        row["error"] = completed.summary if completed is not None else "It has ended."
        return row | ({"result": self.last_text()} if self.last_text() else {})


def describe_question(question: Any) -> str:
    """For what an open question waits."""
    tool = getattr(question, "tool", None)
    return f"permission for {tool}" if tool else "an answer of the user"


def ending_of(turn: TurnCompleted | None) -> tuple[Ending, str]:
    """How a task ended whose last turn is this, and what went wrong."""
    match turn.reason if turn is not None else "cancelled":
        case "stop" | "length":
            return "completed", ""
        case "cancelled" | "interrupted":
            return "cancelled", "It was stopped."
        case reason:
            message = turn.error.message if turn is not None and turn.error is not None else ""
            return "failed", message or f"It ended early: {REASONS.get(reason, reason)}."
