"""The documented home of the event protocol: what a server tells, and what clients ask."""

from __future__ import annotations

from jaato.protocol.codec import encode
from jaato.protocol.commands import ClarificationResponse as ClarificationResponseRequest
from jaato.protocol.commands import ClientConfig as ClientConfigRequest
from jaato.protocol.commands import Command
from jaato.protocol.commands import CommandExecute as CommandExecuteRequest
from jaato.protocol.commands import HistoryRequest as HistoryRequestRequest
from jaato.protocol.commands import MessageSend as MessageSendRequest
from jaato.protocol.commands import PermissionResponse as PermissionResponseRequest
from jaato.protocol.commands import SessionAttach as SessionAttachRequest
from jaato.protocol.commands import SessionCreate as SessionCreateRequest
from jaato.protocol.commands import SessionDelete as SessionDeleteRequest
from jaato.protocol.commands import SessionDetach as SessionDetachRequest
from jaato.protocol.commands import SessionFork as SessionForkRequest
from jaato.protocol.commands import SessionList as SessionListRequest
from jaato.protocol.commands import SessionSettle as SessionSettleRequest
from jaato.protocol.commands import SessionStop as SessionStopRequest
from jaato.protocol.commands import SessionUpdate as SessionUpdateRequest
from jaato.protocol.commands import TaskStop as TaskStopRequest
from jaato.protocol.commands import ToolsDisable as ToolsDisableRequest
from jaato.protocol.commands import TurnContinue as TurnContinueRequest
from jaato.protocol.events import AgentCompleted as AgentCompletedEvent
from jaato.protocol.events import AgentCreated as AgentCreatedEvent
from jaato.protocol.events import AgentOutput as AgentOutputEvent
from jaato.protocol.events import AgentStatusChanged as AgentStatusChangedEvent
from jaato.protocol.events import BackgroundUpdated as BackgroundUpdatedEvent
from jaato.protocol.events import ClarificationQuestion as ClarificationQuestionEvent
from jaato.protocol.events import ClarificationResolved as ClarificationResolvedEvent
from jaato.protocol.events import CommandList as CommandListEvent
from jaato.protocol.events import ContextPinned as ContextPinnedEvent
from jaato.protocol.events import ContextUpdated as ContextUpdatedEvent
from jaato.protocol.events import ErrorRaised as ErrorRaisedEvent
from jaato.protocol.events import Event
from jaato.protocol.events import GcCompleted as GcCompletedEvent
from jaato.protocol.events import InitProgress as InitProgressEvent
from jaato.protocol.events import MemoryList as MemoryListEvent
from jaato.protocol.events import MessageModel as MessageModelEvent
from jaato.protocol.events import MessageUser as MessageUserEvent
from jaato.protocol.events import MidTurnInjected as MidTurnInjectedEvent
from jaato.protocol.events import MidTurnQueued as MidTurnQueuedEvent
from jaato.protocol.events import PermissionGranted as PermissionGrantedEvent
from jaato.protocol.events import PermissionRequested as PermissionRequestedEvent
from jaato.protocol.events import PermissionResolved as PermissionResolvedEvent
from jaato.protocol.events import PermissionRevoked as PermissionRevokedEvent
from jaato.protocol.events import PlanCleared as PlanClearedEvent
from jaato.protocol.events import PlanUpdated as PlanUpdatedEvent
from jaato.protocol.events import Retry as RetryEvent
from jaato.protocol.events import SessionCreated as SessionCreatedEvent
from jaato.protocol.events import SessionInfo as SessionInfoEvent
from jaato.protocol.events import SessionUpdated as SessionUpdatedEvent
from jaato.protocol.events import SharedUpdated as SharedUpdatedEvent
from jaato.protocol.events import SystemMessage as SystemMessageEvent
from jaato.protocol.events import ToolActivated as ToolActivatedEvent
from jaato.protocol.events import ToolCallEnd as ToolCallEndEvent
from jaato.protocol.events import ToolCallStart as ToolCallStartEvent
from jaato.protocol.events import ToolOutput as ToolOutputEvent
from jaato.protocol.events import ToolsStatus as ToolsStatusEvent
from jaato.protocol.events import TurnCompleted as TurnCompletedEvent
from jaato.protocol.events import TurnProgress as TurnProgressEvent
from jaato.protocol.events import WaypointUpdated as WaypointUpdatedEvent
from jaato.protocol.events import WorkspaceFilesChanged as WorkspaceFilesChangedEvent
from jaato.protocol.frames import Sessions as SessionListEvent

__all__ = [
    "AgentCompletedEvent",
    "AgentCreatedEvent",
    "AgentOutputEvent",
    "AgentStatusChangedEvent",
    "BackgroundUpdatedEvent",
    "ClarificationQuestionEvent",
    "ClarificationResolvedEvent",
    "ClarificationResponseRequest",
    "ClientConfigRequest",
    "Command",
    "CommandExecuteRequest",
    "CommandListEvent",
    "ContextPinnedEvent",
    "ContextUpdatedEvent",
    "ErrorRaisedEvent",
    "Event",
    "GcCompletedEvent",
    "HistoryRequestRequest",
    "InitProgressEvent",
    "MemoryListEvent",
    "MessageModelEvent",
    "MessageSendRequest",
    "MessageUserEvent",
    "MidTurnInjectedEvent",
    "MidTurnQueuedEvent",
    "PermissionGrantedEvent",
    "PermissionRequestedEvent",
    "PermissionResolvedEvent",
    "PermissionResponseRequest",
    "PermissionRevokedEvent",
    "PlanClearedEvent",
    "PlanUpdatedEvent",
    "RetryEvent",
    "SessionAttachRequest",
    "SessionCreateRequest",
    "SessionCreatedEvent",
    "SessionDeleteRequest",
    "SessionDetachRequest",
    "SessionForkRequest",
    "SessionInfoEvent",
    "SessionListEvent",
    "SessionListRequest",
    "SessionSettleRequest",
    "SessionStopRequest",
    "SessionUpdateRequest",
    "SessionUpdatedEvent",
    "SharedUpdatedEvent",
    "SystemMessageEvent",
    "TaskStopRequest",
    "ToolActivatedEvent",
    "ToolCallEndEvent",
    "ToolCallStartEvent",
    "ToolOutputEvent",
    "ToolsDisableRequest",
    "ToolsStatusEvent",
    "TurnCompletedEvent",
    "TurnContinueRequest",
    "TurnProgressEvent",
    "WaypointUpdatedEvent",
    "WorkspaceFilesChangedEvent",
    "encode",
]
