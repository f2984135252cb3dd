"""Events of sessions, agents, plans, waypoints and shared values; notices and errors for clients."""

# Annotations are not postponed here: msgspec would compile each one as text.

from typing import Any, Literal

from jaato.protocol.events.state import Live, State
from jaato.protocol.events.turn import Ephemeral, EventBase
from jaato.protocol.messages import Problem
from jaato.protocol.specs import (
    AgentBounds,
    ClientView,
    CommandEntry,
    MemoryEntry,
    Mode,
    ModelSettings,
    Plan,
    SandboxView,
    SessionEntry,
    Waypoint,
)


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
    """A name, description, model or mode was changed; what is None stays."""

    name: str | None = None
    description: str | None = None
    provider: str | None = None
    model: str | None = None
    mode: Mode | None = None
    """The permission mode from now on, as the user has set it."""
    switched: bool = False
    """Whether it was switched in the session, which the user may do again; a session that began `read-only` stays so."""


class SessionInfo(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="session.info"):
    """What a client needs to draw the session from nothing, or from what it has: `state` is the whole of it as of `seq`,
    `live` only what no log holds. Sent again when tools, models or sessions change, then without either."""

    session_name: str | None
    workspace: str
    model_provider: str
    model_name: str
    tools: list[dict[str, Any]]
    models: list[str]
    sessions: list[SessionEntry]
    clients: list[ClientView] = []
    """Who watches."""
    at_work: bool = False
    """Whether an agent works in the server: else an open turn works in another process, or was cut off by a crash."""
    state: State | None = None
    live: Live | None = None
    sandbox: SandboxView | None = None
    """How its commands are confined; None while the session rests."""


class AgentCreated(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="agent.created"):
    """An agent begins; its system prompt and core tools are fixed here, so that resume sends the same bytes."""

    name: str
    provider: str
    model: str
    system_prompt: str
    core_tools: list[str]
    profile: str | None = None
    parent_agent_id: str | None = None
    background: bool = False
    bounds: AgentBounds | None = None
    settings: ModelSettings | None = None
    call_id: str = ""
    """The call of its parent that made it."""
    task: str | None = None
    """What it is to do first."""


class AgentOutput(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="agent.output"):
    """Text as it arrives; `offset` counts the characters of this message and source before it."""

    source: Literal["model", "thinking", "refusal"]
    text: str
    mode: Literal["write", "append"]
    offset: int = 0


class AgentStatusChanged(
    Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="agent.status_changed"
):
    """An agent starts or stops working; `reason` says what it waits for."""

    status: Literal["active", "idle", "blocked", "done", "error"]
    reason: str | None = None


class AgentCompleted(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="agent.completed"
):
    """A subagent has completed a task, or is `closed`; `summary` is its last message, or the error."""

    success: bool
    summary: str | None = None
    reason: Literal["completed", "failed", "cancelled", "interrupted", "closed"] = "completed"


class SharedUpdated(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="shared.updated"):
    """A shared value of the agents of a session has changed; without a value it was removed."""

    key: str
    value: Any = None
    gone: bool = False


class PlanUpdated(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="plan.updated"):
    """A plan as it is now."""

    plan: Plan


class PlanCleared(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="plan.cleared"):
    """A plan was removed."""

    plan_id: str


class WaypointUpdated(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="waypoint.updated"
):
    """A waypoint was made, restored to or deleted; `current` is where the session stands now, and `saved` whether the
    files are as they are there. `mark` is that moment in the backups."""

    action: Literal["created", "restored", "deleted"]
    waypoint: Waypoint
    current: str
    mark: str = ""
    saved: bool = True


class CommandList(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="command.list"):
    """All commands of the session's plugins; sent when the session is loaded and when they change. A stored session has
    none. A client's own commands are not among them."""

    commands: list[CommandEntry]


class MemoryList(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="memory.list"):
    """The newest notes about the session's workspace, newest first, and their number; sent when the session is loaded and
    when any session has changed them."""

    memories: list[MemoryEntry]
    total: int = 0


class ErrorRaised(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="error"):
    """An error outside of calls."""

    error: Problem


class Retry(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="retry"):
    """A model call will be tried again; what it has streamed so far is void."""

    attempt: int
    max_attempts: int
    wait_s: float
    error: Problem


class InitProgress(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="init.progress"):
    """Something slow is being made ready (a download, or the reading of a prompt by the embedded model); counts in `unit`,
    such as `bytes` or `tokens`, `total` None while unknown."""

    step: str
    done: int
    total: int | None = None
    unit: str = ""


class SystemMessage(Ephemeral, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="system.message"):
    """A notice from the runtime to the people watching."""

    text: str
    level: Literal["info", "warning", "error"] = "info"
    is_deleted: bool = False
    """Whether the session was deleted, so that no event follows."""
