"""What happens in a session, as one closed union: the log, the wire and every view are made of these.

Durable events have a `seq` of their own, dense per session, and are committed before anyone sees them. Ephemeral
ones are never stored and carry the last durable `seq`.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar, Literal

from msgspec import Struct, field

from jaato.protocol.messages import FinishReason, Message, Problem, ToolResult, Usage
from jaato.protocol.specs import Grant, Plan


def now() -> str:
    """The present moment as ISO 8601 in UTC, to the millisecond; its text up to the second is made once a second."""
    global SECOND
    moment = time.time()
    second = int(moment)
    known, text = SECOND
    if second != known:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        SECOND = (second, text)
    return f"{text}.{int((moment - second) * 1000):03d}Z"


SECOND = (-1, "")


class EventBase(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    """What every event has."""

    durable: ClassVar[bool] = True

    session_id: str
    agent_id: str
    seq: int
    timestamp: str = field(default_factory=now)


class Ephemeral(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    """What is shown and not stored."""

    durable: ClassVar[bool] = False


# --- session and agents -------------------------------------------------------------------------------------------


class SessionCreated(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="session.created"
):
    """The first event of every log."""

    workspace: str
    name: str | None = None
    jaato_version: str = ""


class SessionUpdated(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="session.updated"
):
    """A name, description or model was changed; what is None stays."""

    name: str | None = None
    description: str | None = None
    provider: str | None = None
    model: str | None = None


class SessionInfo(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="session.info"):
    """What a client needs to draw the session from nothing."""

    session_name: str | None
    workspace: str
    model_provider: str
    model_name: str
    tools: list[dict[str, Any]]
    models: list[str]
    sessions: list[dict[str, Any]]


class AgentCreated(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="agent.created"):
    """An agent begins; its system prompt and core tools are fixed here, so that resume sends the same bytes."""

    name: str
    provider: str
    model: str
    system_prompt: str
    core_tools: list[str]
    profile: str | None = None
    parent_agent_id: str | None = None


class AgentOutput(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="agent.output"):
    """Text as it arrives; `offset` counts the characters of this message and source before it."""

    source: Literal["model", "thinking", "refusal"]
    text: str
    mode: Literal["write", "append"]
    offset: int = 0


class AgentStatusChanged(
    Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="agent.status_changed"
):
    """An agent starts or stops working; `reason` says on what it waits."""

    status: Literal["active", "idle", "blocked", "done", "error"]
    reason: str | None = None


class AgentCompleted(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="agent.completed"
):
    """An agent has finished its task."""

    success: bool
    summary: str | None = None


# --- messages and turns -------------------------------------------------------------------------------------------


class MessageUser(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="message.user"):
    """Someone speaks to the agent; outside a turn it opens one."""

    message: Message
    turn_id: str


class MessageModel(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="message.model"):
    """The model has spoken: one whole reply and what it cost."""

    message: Message
    turn_id: str
    finish_reason: FinishReason
    usage: Usage | None = None
    cost_usd: float | None = None


class MidTurnQueued(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="mid_turn.queued"
):
    """A message came while the model worked; it waits for the next pause."""

    message: Message


class MidTurnInjected(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="mid_turn.injected"
):
    """A waiting message has joined the conversation (its `message.user` stands beside this event)."""

    message_id: str


class TurnProgress(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="turn.progress"):
    """What the turn has used so far."""

    turn_id: str
    model_calls: int
    tool_calls: int
    usage: Usage


class TurnCompleted(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="turn.completed"):
    """A turn has ended; `reason` says how."""

    turn_id: str
    reason: Literal["stop", "cancelled", "limit", "length", "refusal", "error", "interrupted"]
    usage: Usage
    model_calls: int
    tool_calls: int
    duration_s: float
    cost_usd: float | None = None
    error: Problem | None = None


class ContextUpdated(
    Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="context.updated"
):
    """How full the model's context is; token counts are the provider's where it said, estimates elsewhere."""

    total_tokens: int
    context_limit: int | None
    percent_used: float | None


# --- tools --------------------------------------------------------------------------------------------------------


class Permission(Struct, frozen=True, gc=False, omit_defaults=True):
    """How a call came to be allowed or denied."""

    decision: Literal["allowed", "denied"]
    reason: str
    method: str


class ToolCallStart(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tool.call_start"
):
    """A permitted call is about to run; durable before the tool does anything."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    turn_id: str | None = None
    permission: Permission | None = None
    digest: str | None = None


class ToolOutput(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tool.output"):
    """Output of a running call; `offset` counts the characters before it."""

    call_id: str
    text: str
    offset: int = 0


class ToolCallEnd(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tool.call_end"):
    """A call has its result; durable before the model sees it."""

    call_id: str
    tool: str
    result: ToolResult
    duration_s: float
    permission: Permission | None = None
    continuation_id: str | None = None
    show_output: bool = True
    show_popup: bool = True


class ToolActivated(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tool.activated"):
    """Discoverable tools are declared to the model from now on, in this order, after those before them."""

    tools: list[str]


class ToolsStatus(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tools.status"):
    """The tools that are switched off now; declared ones stay declared and answer `tool_disabled`."""

    disabled: list[str]


class BackgroundUpdated(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="background.updated"
):
    """A background task began, ended or was stopped."""

    task_id: str
    tool: str
    plugin: str
    status: Literal["running", "completed", "failed", "cancelled", "interrupted"]
    call_id: str | None = None
    result: ToolResult | None = None


# --- questions ----------------------------------------------------------------------------------------------------


class PermissionRequested(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="permission.requested"
):
    """May this call run? An answer is bound to the digest of tool, arguments and directory."""

    question_id: str
    call_id: str
    tool: str
    arguments: dict[str, Any]
    digest: str
    reason: str
    options: list[str]
    shape: str | None = None
    deadline: str | None = None


class PermissionResolved(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="permission.resolved"
):
    """The question is settled: by whom, and how."""

    question_id: str
    call_id: str
    answer: str
    permission: Permission
    by: str = ""


class PermissionGranted(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="permission.granted"
):
    """A decision now holds for more than one question."""

    grant: Grant


class PermissionRevoked(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="permission.revoked"
):
    """A grant no longer holds."""

    grant_id: str
    reason: str = ""


class ClarificationQuestion(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="clarification.question"
):
    """The model asks the user."""

    question_id: str
    call_id: str
    context: str
    questions: list[dict[str, Any]]
    deadline: str | None = None


class ClarificationResolved(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="clarification.resolved"
):
    """The user has answered, each question with its answer (None: left open)."""

    question_id: str
    qa_pairs: list[tuple[str, str | None]]
    by: str = ""


# --- plan and the rest --------------------------------------------------------------------------------------------


class PlanUpdated(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="plan.updated"):
    """A plan as it is now."""

    plan: Plan


class PlanCleared(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="plan.cleared"):
    """A plan is gone."""

    plan_id: str


class ErrorRaised(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="error"):
    """Something failed that is nobody's call."""

    error: Problem


class Retry(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="retry"):
    """A model call will be tried again; what it has streamed so far is void."""

    attempt: int
    max_attempts: int
    wait_s: float
    error: Problem


class InitProgress(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="init.progress"):
    """Something slow is being made ready; counts in `unit`, `total` None while unknown."""

    step: str
    done: int
    total: int | None = None
    unit: str = ""


class SystemMessage(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="system.message"):
    """A notice from the runtime to the people watching."""

    text: str
    level: Literal["info", "warning", "error"] = "info"


Event = (
    SessionCreated
    | SessionUpdated
    | SessionInfo
    | AgentCreated
    | AgentOutput
    | AgentStatusChanged
    | AgentCompleted
    | MessageUser
    | MessageModel
    | MidTurnQueued
    | MidTurnInjected
    | TurnProgress
    | TurnCompleted
    | ContextUpdated
    | ToolCallStart
    | ToolOutput
    | ToolCallEnd
    | ToolActivated
    | ToolsStatus
    | BackgroundUpdated
    | PermissionRequested
    | PermissionResolved
    | PermissionGranted
    | PermissionRevoked
    | ClarificationQuestion
    | ClarificationResolved
    | PlanUpdated
    | PlanCleared
    | ErrorRaised
    | Retry
    | InitProgress
    | SystemMessage
)
