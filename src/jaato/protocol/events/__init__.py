"""The closed union of session events, which logs, connections and every client's state are made of.

Durable events have a `seq` of their own, dense per session, and are committed before anyone sees them. Ephemeral
ones are never stored and carry the last durable `seq`.
"""

from __future__ import annotations

from jaato.protocol.events.session import (
    AgentCompleted,
    AgentCreated,
    AgentOutput,
    AgentStatusChanged,
    CommandList,
    ErrorRaised,
    InitProgress,
    MemoryList,
    PlanCleared,
    PlanUpdated,
    Retry,
    SessionCreated,
    SessionInfo,
    SessionUpdated,
    SharedUpdated,
    SystemMessage,
    WaypointUpdated,
)
from jaato.protocol.events.turn import (
    BackgroundUpdated,
    BudgetUpdated,
    ClarificationQuestion,
    ClarificationResolved,
    ContextPinned,
    ContextUpdated,
    Ephemeral,
    EventBase,
    GcCompleted,
    MessageModel,
    MessageUser,
    MidTurnInjected,
    MidTurnQueued,
    Permission,
    PermissionGranted,
    PermissionRequested,
    PermissionResolved,
    PermissionRevoked,
    Placed,
    ToolActivated,
    ToolCallEnd,
    ToolCallStart,
    ToolOutput,
    ToolsStatus,
    TurnCompleted,
    TurnProgress,
    WorkspaceFilesChanged,
    now,
)

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
    | ContextPinned
    | GcCompleted
    | ToolCallStart
    | ToolOutput
    | ToolCallEnd
    | ToolActivated
    | ToolsStatus
    | BackgroundUpdated
    | WorkspaceFilesChanged
    | PermissionRequested
    | PermissionResolved
    | PermissionGranted
    | PermissionRevoked
    | ClarificationQuestion
    | ClarificationResolved
    | BudgetUpdated
    | PlanUpdated
    | PlanCleared
    | SharedUpdated
    | WaypointUpdated
    | CommandList
    | MemoryList
    | ErrorRaised
    | Retry
    | InitProgress
    | SystemMessage
)

__all__ = [
    "AgentCompleted",
    "AgentCreated",
    "AgentOutput",
    "AgentStatusChanged",
    "BackgroundUpdated",
    "BudgetUpdated",
    "ClarificationQuestion",
    "ClarificationResolved",
    "CommandList",
    "ContextPinned",
    "ContextUpdated",
    "Ephemeral",
    "ErrorRaised",
    "Event",
    "EventBase",
    "GcCompleted",
    "InitProgress",
    "MemoryList",
    "MessageModel",
    "MessageUser",
    "MidTurnInjected",
    "MidTurnQueued",
    "Permission",
    "PermissionGranted",
    "PermissionRequested",
    "PermissionResolved",
    "PermissionRevoked",
    "Placed",
    "PlanCleared",
    "PlanUpdated",
    "Retry",
    "SessionCreated",
    "SessionInfo",
    "SessionUpdated",
    "SharedUpdated",
    "SystemMessage",
    "ToolActivated",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolOutput",
    "ToolsStatus",
    "TurnCompleted",
    "TurnProgress",
    "WaypointUpdated",
    "WorkspaceFilesChanged",
    "now",
]
