"""Events of a turn: messages, tool calls, permission and clarification questions; and the fields that every event has."""

# Annotations are not postponed here: msgspec would compile each one as text.

import time
from typing import Any, ClassVar, Literal

from msgspec import Struct, field

from jaato.protocol.messages import FinishReason, Message, Problem, ToolResult, Usage
from jaato.protocol.specs import (
    ContextBlock,
    ContextRecord,
    FileChange,
    Grant,
    LimitSource,
    SandboxAccess,
)


def now() -> str:
    """The present moment as ISO 8601 in UTC, to the millisecond; its text is made once a millisecond."""
    global MOMENT
    milliseconds = time.time_ns() // 1_000_000
    known, text = MOMENT
    if milliseconds != known:
        second, rest = divmod(milliseconds, 1000)
        if second != known // 1000:
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        text = f"{text[:19]}.{rest:03d}Z"
        MOMENT = (milliseconds, text)
    return text


MOMENT = (-1, "")


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


class MessageUser(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="message.user"):
    """A message to the agent; outside a turn it starts one."""

    message: Message
    turn_id: str


class MessageModel(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="message.model"):
    """The model has spoken: one whole reply and what it cost."""

    message: Message
    turn_id: str
    finish_reason: FinishReason
    usage: Usage | None = None
    cost_usd: float | None = None
    context_tokens: int = 0
    """Tokens of the context with this reply: reported by the provider, else estimated."""
    context_limit: int | None = None
    limit_source: LimitSource | None = None


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
    """Tokens of the context and its limit: reported by the provider, else estimated."""

    total_tokens: int
    context_limit: int | None
    percent_used: float | None
    limit_source: LimitSource | None = None
    threshold_percent: float | None = None
    """How full it is when it is compacted; None without compaction."""
    blocks: list[ContextBlock] = []
    """What it consists of; the tokens add up to `total_tokens`."""


class ContextPinned(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="context.pinned"):
    """The user pinned a text, which every compaction keeps; with `gone` the pin was removed."""

    pin_id: str
    text: str = ""
    gone: bool = False


class Placed(Struct, frozen=True, gc=False, omit_defaults=True):
    """A new message of a shortened history, and the id of the message it stands before; empty for the end."""

    message: Message
    before: str = ""


class GcCompleted(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="gc.completed"):
    """The context was compacted: messages are removed from what the model is sent, new ones are added. With a
    `problem` nothing has changed. Token counts are estimates."""

    strategy: str
    reason: str
    tokens_before: int
    tokens_after: int
    dropped: list[str] = []
    added: list[Placed] = []
    note: str | None = None
    """The id of the message that describes to the model what was removed."""
    notification: str | None = None
    problem: str | None = None
    usage: Usage | None = None
    """The usage of the model that wrote a summary; None without one, or where it was not reported."""
    cost_usd: float | None = None
    cleared: int = 0
    """How many tool results were replaced by a stub with their handle."""
    learned_limit: int | None = None
    """The limit that a provider's refusal has taught; it holds with a `problem` too."""
    record: ContextRecord | None = None
    """What the log says of the conversation up to this event."""


class BudgetUpdated(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="budget.updated"):
    """A budget is used up (`reached`), or the user has allowed more (`extended`, with the limit that holds now). `limit` and
    `used` are in `unit`; `step` is by how much it is extended at a time."""

    status: Literal["reached", "extended"]
    scope: Literal["turn", "session", "day"]
    unit: Literal["tokens", "usd", "s"]
    limit: float
    used: float
    step: float


class Permission(Struct, frozen=True, gc=False, omit_defaults=True):
    """How a call came to be allowed or denied."""

    decision: Literal["allowed", "denied"]
    reason: str
    method: str
    access: SandboxAccess | None = None
    """What the sandbox of the call's process opens; None for a call that starts none."""


class PermissionRequested(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="permission.requested"
):
    """May this call run? An answer is bound to the digest of tool, arguments and directory; at the deadline, `default`
    counts."""

    question_id: str
    call_id: str
    tool: str
    arguments: dict[str, Any]
    digest: str
    reason: str
    options: list[str]
    shape: str | None = None
    deadline: str | None = None
    default: str = "n"
    access: SandboxAccess | None = None
    """What a yes opens to the call's process."""
    preview: str = ""
    """A unified diff of what the call would change in files, where its tool makes one; a long one is cut and says so."""


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
    """The model or the server asks the user; at the deadline, the `default` of each question counts."""

    question_id: str
    call_id: str
    context: str
    questions: list[dict[str, Any]]
    deadline: str | None = None
    outcome: bool = False
    """Whether it asks for the outcome of a call that a crash interrupted; that call is never repeated."""


class ClarificationResolved(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="clarification.resolved"
):
    """The user has answered, each question with its answer (None: left open)."""

    question_id: str
    qa_pairs: list[tuple[str, str | None]]
    by: str = ""


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
    origin: dict[str, str] | None = None
    """Where a call over HTTP comes from: `request_id`, `trace_id`, `flow_id`, `step_id`, as far as it says."""


class ToolOutput(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tool.output"):
    """Output of a running call; `offset` counts the characters before it."""

    call_id: str
    text: str
    offset: int = 0


class ToolCallEnd(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tool.call_end"):
    """A call has its result; durable before the model sees it. Its duration does not include the wait for a permission."""

    call_id: str
    tool: str
    result: ToolResult
    duration_s: float
    permission: Permission | None = None
    continuation_id: str | None = None
    show_output: bool = True
    show_popup: bool = True
    origin: dict[str, str] | None = None
    """Where a call comes from of which there is no start."""
    arguments: dict[str, Any] | None = None
    """What a call was made with that has run and of which there is no start: it could only read, and was over at once."""
    edited: dict[str, Any] | None = None
    """The arguments that a call has run with, if they are not those that the model gave it."""


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


class WorkspaceFilesChanged(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="workspace.files_changed"
):
    """Files that a call or a user command has changed, each once, reported at its end: by the file tools, patches, templates,
    notebooks' own files, archives, databases, and by going back to a waypoint or undoing. What a shell command or code of
    a notebook changes is not known here. After a crash the changes of a call are reported, also those it was about to make. `more` were
    left out."""

    files: list[FileChange]
    call_id: str = ""
    """The call that changed them; empty: a user command."""
    more: int = 0
