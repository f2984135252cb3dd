"""The state of a session as clients show it: the fold of its events in `jaato.client.state`, and what a snapshot carries."""

# Annotations are not postponed here: msgspec would compile each one as text.

from typing import Any, Literal

from msgspec import Struct, field

from jaato.protocol.events.turn import (
    BackgroundUpdated,
    ClarificationQuestion,
    GcCompleted,
    MessageModel,
    MessageUser,
    PermissionRequested,
    ToolCallEnd,
    TurnCompleted,
)
from jaato.protocol.messages import Message, Problem, Usage
from jaato.protocol.specs import CommandEntry, FileChange, MemoryEntry, Mode, Plan, Waypoint

Entry = MessageUser | MessageModel | ToolCallEnd | TurnCompleted | GcCompleted
"""An event that is part of the conversation as it is shown."""


class AgentView(Struct, omit_defaults=True):
    """One agent of a session. `streaming` is what it is just saying, by kind of text."""

    id: str
    name: str = ""
    provider: str = ""
    model: str = ""
    parent_agent_id: str | None = None
    status: Literal["active", "idle", "blocked", "done", "error"] = "idle"
    reason: str | None = None
    streaming: dict[str, str] = field(default_factory=dict)
    queued: dict[str, Message] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    plan_id: str | None = None
    context_tokens: int = 0
    context_limit: int | None = None
    summary: str | None = None
    working: bool = False
    """Whether a subagent has an open task, running or interrupted."""


class CallView(Struct, omit_defaults=True):
    """A call that runs. `output` is the newest of what it has printed, `output_start` the characters before that."""

    call_id: str
    agent_id: str
    tool: str
    arguments: dict[str, Any]
    started_at: str
    output: str = ""
    output_start: int = 0


class State(Struct, kw_only=True, omit_defaults=True):
    """A session. Only `jaato.client.state.apply` changes it."""

    session_id: str = ""
    seq: int = 0
    """The last durable event it has taken in."""
    workspace: str = ""
    name: str | None = None
    description: str | None = None
    created_at: str = ""
    updated_at: str = ""
    provider: str = ""
    model: str = ""
    mode: Mode | None = None
    """The permission mode, where the user has changed it in the session."""
    root_agent_id: str = ""
    agents: dict[str, AgentView] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    """The newest of the conversation."""
    earlier: int = 0
    """How many entries came before these; `history.request` gives them."""
    chars: int = 0
    """About how many characters the entries have."""
    calls: dict[str, CallView] = field(default_factory=dict)
    questions: dict[str, PermissionRequested | ClarificationQuestion] = field(default_factory=dict)
    tasks: dict[str, BackgroundUpdated] = field(default_factory=dict)
    """Background tasks that run."""
    background_calls: dict[str, CallView] = field(default_factory=dict)
    """The calls of those tasks that have their result already, with what they print."""
    shared: dict[str, Any] = field(default_factory=dict)
    """What the agents of the session share."""
    waypoints: dict[str, Waypoint] = field(default_factory=dict)
    waypoint: str = ""
    """The one the session stands at; empty: its start."""
    files: dict[str, FileChange] = field(default_factory=dict)
    """What tools have changed, by path, the latest last: each file once, with all that happened to it."""
    files_left_out: int = 0
    """How many changes of files are not among them, because there were too many."""
    commands: list[CommandEntry] = field(default_factory=list)
    """What can be typed after `/`, while the session is at hand; beside the client's own."""
    memories: list[MemoryEntry] = field(default_factory=list)
    """The newest notes about the workspace, newest first, while the session is at hand."""
    memory_count: int = 0
    activated: list[str] = field(default_factory=list)
    disabled: list[str] = field(default_factory=list)
    open_turn: str | None = None
    turns: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0
    unpriced: bool = False
    problem: Problem | None = None
    """The last error outside of calls, until the next turn."""


class LiveAgent(Struct, frozen=True, gc=False, omit_defaults=True):
    """What of an agent no log holds."""

    status: Literal["active", "idle", "blocked", "done", "error"] = "idle"
    reason: str | None = None
    streaming: dict[str, str] = field(default_factory=dict)
    context_tokens: int = 0
    context_limit: int | None = None


class Live(Struct, frozen=True, gc=False, omit_defaults=True):
    """The live state of a session that is in no log, for a client that was just sent the events it missed."""

    agents: dict[str, LiveAgent] = field(default_factory=dict)
    outputs: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By call that runs, also in the background: how many characters it had printed before, and the newest ones."""
    commands: list[CommandEntry] = field(default_factory=list)
    memories: list[MemoryEntry] = field(default_factory=list)
    memory_count: int = 0
