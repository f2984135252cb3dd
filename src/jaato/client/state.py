"""The fold of a session's events that every view shows, and the server makes its snapshots of.

It depends on nothing but the events: whoever applies the same ones, from the first or from a snapshot on, has the same
state to the byte, however the streamed text was cut into pieces on its way. Its size is bounded, whatever the log's.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    AgentOutput,
    AgentStatusChanged,
    BackgroundUpdated,
    ClarificationQuestion,
    ClarificationResolved,
    CommandList,
    ContextUpdated,
    ErrorRaised,
    Event,
    GcCompleted,
    MemoryList,
    MessageModel,
    MessageUser,
    MidTurnInjected,
    MidTurnQueued,
    PermissionRequested,
    PermissionResolved,
    PlanCleared,
    PlanUpdated,
    Retry,
    SessionCreated,
    SessionInfo,
    SessionUpdated,
    SharedUpdated,
    ToolActivated,
    ToolCallEnd,
    ToolCallStart,
    ToolOutput,
    ToolsStatus,
    TurnCompleted,
    WaypointUpdated,
    WorkspaceFilesChanged,
)
from jaato.protocol.events.state import AgentView, CallView, Entry, Live, LiveAgent, State
from jaato.protocol.messages import Message, Refusal, Text, Thinking, ToolCall, ToolResult

WINDOW = 200
"""Entries a state keeps."""
WINDOW_CHARS = 400_000
"""About how many characters they may have; the newest entry is kept whatever it has."""
FILES = 200
"""Changed files a state keeps."""
OUTPUT_CHARS = 16_000
"""Characters kept of what a running call prints."""
BACKLOG = 10_000
"""Events a reader may be behind before it gets the state instead."""
PAGE = 400
"""Events of a page of the log: it has at most as many entries, which is fewer than a server sends at once."""


def apply(state: State, event: Event) -> State:
    """Take one event in; gives the same state, changed."""
    if event.durable:
        if event.seq <= state.seq:
            return state
        state.seq = event.seq
        state.updated_at = event.timestamp
    match event:
        case AgentOutput():
            add_output(agent_of(state, event), event)
        case ToolOutput():
            apply_tool_output(state, event)
        case MessageUser() | MessageModel() | ToolCallEnd() | TurnCompleted() | GcCompleted():
            apply_entry(state, event)
        case ToolCallStart():
            state.calls[event.call_id] = CallView(
                call_id=event.call_id,
                agent_id=event.agent_id,
                tool=event.tool,
                arguments=event.arguments,
                started_at=event.timestamp,
            )
        case PermissionRequested() | ClarificationQuestion():
            state.questions[event.question_id] = event
        case PermissionResolved() | ClarificationResolved():
            state.questions.pop(event.question_id, None)
        case _:
            apply_rest(state, event)
    return state


def apply_rest(state: State, event: Event) -> None:
    """Apply the less frequent events."""
    match event:
        case SessionCreated():
            state.session_id, state.workspace, state.name = event.session_id, event.workspace, event.name
            state.created_at = event.timestamp
        case SessionUpdated():
            state.name = event.name if event.name is not None else state.name
            state.description = event.description if event.description is not None else state.description
            state.provider, state.model = event.provider or state.provider, event.model or state.model
            state.mode = event.mode or state.mode
        case AgentCreated():
            apply_agent_created(state, event)
        case AgentStatusChanged():
            agent = agent_of(state, event)
            agent.status, agent.reason = event.status, event.reason
        case AgentCompleted():
            agent = agent_of(state, event)
            agent.status = "done" if event.success else "error"
            agent.reason, agent.summary, agent.working = None, event.summary, False
            agent.streaming.clear()
        case Retry():
            agent_of(state, event).streaming.clear()
        case ContextUpdated():
            agent = agent_of(state, event)
            agent.context_tokens, agent.context_limit = event.total_tokens, event.context_limit
        case ErrorRaised():
            state.problem = event.error
        case SessionInfo(live=Live() as live):
            apply_live(state, live)
        case _:
            apply_lists(state, event)


def apply_lists(state: State, event: Event) -> None:
    """What joins and leaves."""
    match event:
        case MidTurnQueued():
            agent = agent_of(state, event)
            agent.queued[event.message.id] = event.message
            if event.message.source == "parent" and event.agent_id != state.root_agent_id:
                agent.working = True
        case MidTurnInjected():
            agent_of(state, event).queued.pop(event.message_id, None)
        case PlanUpdated():
            agent = agent_of(state, event)
            agent.plans[event.plan.id] = event.plan
            agent.plan_id = event.plan.id
        case PlanCleared():
            agent = agent_of(state, event)
            agent.plans.pop(event.plan_id, None)
            agent.plan_id = None if agent.plan_id == event.plan_id else agent.plan_id
        case BackgroundUpdated() if event.status == "running":
            state.tasks[event.task_id] = event
        case BackgroundUpdated():
            state.tasks.pop(event.task_id, None)
            state.background_calls.pop(event.call_id or "", None)
        case ToolActivated():
            state.activated += [name for name in event.tools if name not in state.activated]
        case WaypointUpdated(action="deleted"):
            state.waypoints.pop(event.waypoint.id, None)
            state.waypoint = event.current
        case WaypointUpdated():
            state.waypoints[event.waypoint.id] = event.waypoint
            state.waypoint = event.current
        case SharedUpdated(gone=True):
            state.shared.pop(event.key, None)
        case SharedUpdated():
            state.shared[event.key] = event.value
        case ToolsStatus():
            state.disabled = list(event.disabled)
        case _:
            apply_surroundings(state, event)


def apply_surroundings(state: State, event: Event) -> None:
    """Apply events beside the conversation."""
    match event:
        case WorkspaceFilesChanged():
            apply_file_changes(state, event)
        case CommandList():
            state.commands = list(event.commands)
        case MemoryList():
            state.memories, state.memory_count = list(event.memories), event.total


def apply_file_changes(state: State, event: WorkspaceFilesChanged) -> None:
    """Files are no longer as they were."""
    state.files_left_out += event.more
    for change in event.files:
        before = state.files.pop(change.path, None)
        now = change if before is None else before.then(change)
        if now is not None:
            state.files[change.path] = now
    while len(state.files) > FILES:
        del state.files[next(iter(state.files))]
        state.files_left_out += 1


def is_unfinished(state: State) -> bool:
    """Whether its agents are at work, or were when they were cut off."""
    return state.open_turn is not None or any(agent.working for agent in state.agents.values())


def agent_of(state: State, event: Event) -> AgentView:
    """The agent an event is about, made known if it is not."""
    agent = state.agents.get(event.agent_id)
    if agent is None:
        agent = state.agents[event.agent_id] = AgentView(id=event.agent_id)
    return agent


def apply_agent_created(state: State, event: AgentCreated) -> None:
    """An agent begins."""
    agent = agent_of(state, event)
    agent.name, agent.provider, agent.model = event.name, event.provider, event.model
    agent.parent_agent_id = event.parent_agent_id
    agent.working = event.parent_agent_id is not None
    if event.parent_agent_id is None:
        state.root_agent_id = event.agent_id
        state.provider, state.model = event.provider, event.model


def add_output(agent: AgentView, event: AgentOutput) -> None:
    """Append streamed text; a repeated chunk changes nothing."""
    text = agent.streaming.get(event.source, "")
    agent.streaming[event.source] = ""  # leaves one reference to the text, so that += does not copy it
    if event.mode == "write" and event.offset == 0:
        text = event.text
    elif event.offset == len(text):
        text += event.text
    else:
        text = text[: event.offset] + event.text
    agent.streaming[event.source] = text


def apply_tool_output(state: State, event: ToolOutput) -> None:
    """Output of a call that runs, also in the background: the newest of it."""
    call = state.calls.get(event.call_id) or state.background_calls.get(event.call_id)
    if call is None:
        return
    held = call.output[: max(0, event.offset - call.output_start)] + event.text
    start = event.offset + len(event.text) - len(held)
    surplus = max(0, len(held) - OUTPUT_CHARS)
    call.output, call.output_start = held[surplus:], start + surplus


def live_of(state: State) -> Live:
    """What of a state no log holds."""
    agents = {
        agent.id: LiveAgent(
            agent.status, agent.reason, dict(agent.streaming), agent.context_tokens, agent.context_limit
        )
        for agent in state.agents.values()
    }
    running = (*state.calls.values(), *state.background_calls.values())
    outputs = {call.call_id: (call.output_start, call.output) for call in running}
    return Live(agents, outputs, list(state.commands), list(state.memories), state.memory_count)


def apply_live(state: State, live: Live) -> None:
    """Take in what no log holds."""
    for agent_id, known in live.agents.items():
        agent = state.agents.get(agent_id)
        if agent is not None:
            agent.status, agent.reason, agent.streaming = known.status, known.reason, dict(known.streaming)
            agent.context_tokens, agent.context_limit = known.context_tokens, known.context_limit
    for call_id, (start, text) in live.outputs.items():
        call = state.calls.get(call_id) or state.background_calls.get(call_id)
        if call is not None:
            call.output_start, call.output = start, text
    state.commands, state.memories = list(live.commands), list(live.memories)
    state.memory_count = live.memory_count


def apply_entry(state: State, event: Entry) -> None:
    """Apply an event of the conversation."""
    match event:
        case MessageUser():
            state.problem = None
            if event.agent_id == state.root_agent_id:
                state.open_turn = event.turn_id
            else:
                agent_of(state, event).working = True
        case MessageModel():
            agent = agent_of(state, event)
            agent.streaming.clear()
            if event.context_tokens:
                agent.context_tokens, agent.context_limit = event.context_tokens, event.context_limit
            add_usage(state, event)
        case ToolCallEnd():
            call = state.calls.pop(event.call_id, None)
            if call is not None and any(task.call_id == event.call_id for task in state.tasks.values()):
                state.background_calls[event.call_id] = call
        case GcCompleted():
            add_usage(state, event)
            if event.problem is None:
                agent_of(state, event).context_tokens = event.tokens_after
        case TurnCompleted():
            agent_of(state, event).streaming.clear()
            if event.agent_id == state.root_agent_id:
                state.open_turn = None
                state.turns += 1
    state.entries.append(event)
    state.chars += size_of(event)
    while len(state.entries) > 1 and (len(state.entries) > WINDOW or state.chars > WINDOW_CHARS):
        state.chars -= size_of(state.entries.pop(0))
        state.earlier += 1


def add_usage(state: State, event: MessageModel | GcCompleted) -> None:
    """Add what a model call has used: a reply, or a summary."""
    if event.usage is not None:
        state.usage = state.usage.plus(event.usage)
        state.unpriced = state.unpriced or event.cost_usd is None
        state.cost_usd += event.cost_usd or 0.0


def snapshot(info: SessionInfo, state: State) -> SessionInfo:
    """A session as it is now, for a reader whose events were dropped."""
    return msgspec.structs.replace(info, seq=state.seq, state=state, live=None)


def page_ends(after_seq: int, last_seq: int) -> Iterator[int]:
    """The `before_seq` of the pages with the entries after an event up to another, oldest first."""
    for end in range(after_seq + PAGE, last_seq + PAGE, PAGE):
        yield min(end, last_seq) + 1


def size_of(entry: Entry) -> int:
    """About how many characters an entry has."""
    match entry:
        case MessageUser() | MessageModel():
            return message_chars(entry.message)
        case ToolCallEnd():
            return result_chars(entry.result)
        case GcCompleted():
            return sum(message_chars(placed.message) for placed in entry.added)
    return 100


def message_chars(message: Message) -> int:
    """About how many characters a message has."""
    chars = 100
    for part in message.parts:
        match part:
            case Text() | Thinking() | Refusal():
                chars += len(part.text)
            case ToolCall():
                chars += 50 + value_chars(part.arguments)
            case ToolResult():
                chars += result_chars(part)
    return chars


def value_chars(value: object) -> int:
    """About how many characters a JSON value has; counted so that clients in other languages come to the same number."""
    match value:
        case str():
            return len(value)
        case dict():
            return sum(len(key) + value_chars(inner) for key, inner in value.items())
        case list() | tuple():
            return sum(map(value_chars, value))
    return 4


def result_chars(result: ToolResult) -> int:
    """About how many characters a result has."""
    return 100 + sum(len(item.text) for item in result.content if isinstance(item, Text))
