"""State of a session: the fold of its events, per agent, and the values that the agents share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from jaato.agent.compaction.chars import ContextChars
from jaato.agent.limits.repetition import NUDGE_KEY, RepetitionFold, is_continued
from jaato.agent.limits.spending import SPENDING_EVENTS, Spending
from jaato.protocol.codec import encode
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    BackgroundUpdated,
    ClarificationQuestion,
    ClarificationResolved,
    ContextPinned,
    Event,
    GcCompleted,
    MessageModel,
    MessageUser,
    MidTurnInjected,
    MidTurnQueued,
    PermissionGranted,
    PermissionRequested,
    PermissionResolved,
    PermissionRevoked,
    PlanCleared,
    PlanUpdated,
    SessionCreated,
    SessionUpdated,
    SharedUpdated,
    ToolActivated,
    ToolCallEnd,
    ToolCallStart,
    ToolsStatus,
    TurnCompleted,
    WaypointUpdated,
)
from jaato.protocol.messages import (
    Message,
    Part,
    Problem,
    ToolCall,
    ToolResult,
    Usage,
)
from jaato.protocol.specs import ContextRecord, Grant, LimitSource, Mode, Plan
from jaato.tools.call import CURRENT
from jaato.tools.waypoints import Tree

Question = PermissionRequested | ClarificationQuestion
Resolved = PermissionResolved | ClarificationResolved


class State(msgspec.Struct):
    """The state of one agent. Only `apply` changes it; the history only grows, except for compaction."""

    session_id: str = ""
    seq: int = 0
    workspace: str = ""
    name: str | None = None
    description: str | None = None
    created_at: str = ""
    agent_id: str = ""
    provider: str = ""
    model: str = ""
    mode: Mode | None = None
    """The permission mode, if the user changed it in the session or began it with one."""
    is_mode_switched: bool = False
    """Whether the mode was switched in the session, so that also `read-only` can be left."""
    system_prompt: str = ""
    core_tools: list[str] = msgspec.field(default_factory=list)
    activated: list[str] = msgspec.field(default_factory=list)
    disabled: frozenset[str] = frozenset()
    messages: list[Message] = msgspec.field(default_factory=list)
    last_model_message: Message | None = None
    """The model's last message, whose calls are open or answered."""
    chars: ContextChars = msgspec.field(default_factory=ContextChars)
    counted_tokens: int = 0
    """Tokens of the context as last reported by the provider; `counted_chars` are its characters then."""
    counted_chars: int = 0
    context_limit: int | None = None
    limit_source: LimitSource | None = None
    """The limit of the context, and how it was known, when the model spoke last."""
    gc_note: str | None = None
    """The message that describes to the model what compaction removed."""
    repetition: RepetitionFold = msgspec.field(default_factory=RepetitionFold)
    record: ContextRecord = ContextRecord()
    """What the log says of the conversation up to `record_seq`."""
    record_seq: int = 0
    learned_limit: int | None = None
    """The limit of the model's context that a refusal has taught."""
    pins: dict[str, str] = msgspec.field(default_factory=dict)
    """Texts that every compaction keeps, by id."""
    replies: int = 0
    """How many messages the model has written."""
    open_turn: str | None = None
    open_calls: dict[str, ToolCall] = msgspec.field(default_factory=dict)
    started: dict[str, ToolCallStart] = msgspec.field(default_factory=dict)
    results: dict[str, ToolResult] = msgspec.field(default_factory=dict)
    queued: dict[str, Message] = msgspec.field(default_factory=dict)
    questions: dict[str, Question] = msgspec.field(default_factory=dict)
    answered: dict[str, tuple[Question, Resolved]] = msgspec.field(default_factory=dict)
    """By call, the last question that was resolved, until the call restarts or ends."""
    grants: dict[str, Grant] = msgspec.field(default_factory=dict)
    plans: dict[str, Plan] = msgspec.field(default_factory=dict)
    plan_id: str | None = None
    waypoints: Tree = msgspec.field(default_factory=Tree)
    tasks: dict[str, BackgroundUpdated] = msgspec.field(default_factory=dict)
    turns: int = 0
    usage: Usage = Usage()
    last_usage: Usage | None = None
    unpriced: bool = False
    cost_usd: float = 0.0

    @property
    def plan(self) -> Plan | None:
        """The current plan."""
        return self.plans.get(self.plan_id) if self.plan_id else None

    def apply(self, event: Event) -> None:
        """Apply one event."""
        self.seq = max(self.seq, event.seq)
        if type(event) is ToolCallEnd:
            return self._apply_call_end(event)  # fast path for the most frequent event
        match event:
            case MessageUser():
                self._close_lost_calls()
                self.open_turn = event.turn_id
                self._add(event.message)
                if event.message.source in ("user", "parent"):
                    self.repetition.reset()
            case MessageModel():
                self._apply_model_message(event)
            case ToolCallStart():
                self.started[event.call_id] = event
                self.answered.pop(event.call_id, None)
            case TurnCompleted():
                self.open_turn = None
                self.turns += 1
            case SessionCreated():
                self.session_id, self.workspace, self.name = event.session_id, event.workspace, event.name
                self.created_at = event.timestamp
                self.waypoints.begin(event.timestamp)
            case AgentCreated() if event.parent_agent_id is None or event.agent_id == self.agent_id:
                self.agent_id, self.provider, self.model = event.agent_id, event.provider, event.model
                self.system_prompt, self.core_tools = event.system_prompt, event.core_tools
                self.record_seq = self.record_seq if self.messages else event.seq
            case SessionUpdated():
                self.name = event.name if event.name is not None else self.name
                self.description = event.description if event.description is not None else self.description
                if event.model not in (None, self.model) or event.provider not in (None, self.provider):
                    self.learned_limit = None
                self.provider, self.model = event.provider or self.provider, event.model or self.model
                if event.mode is not None:
                    self.mode, self.is_mode_switched = event.mode, event.switched
            case ToolActivated():
                self.activated += [name for name in event.tools if name not in self.activated]
            case ToolsStatus():
                self.disabled = frozenset(event.disabled)
            case _:
                self._apply_rest(event)
        return None

    def _apply_rest(self, event: Event) -> None:
        match event:
            case MidTurnQueued():
                self.queued[event.message.id] = event.message
                self.repetition.nudged |= event.message.once == NUDGE_KEY
            case MidTurnInjected():
                self.queued.pop(event.message_id, None)
            case PermissionRequested() | ClarificationQuestion():
                self.questions[event.question_id] = event
                self.answered.pop(event.call_id, None)
            case PermissionResolved() | ClarificationResolved():
                self._apply_resolved(event)
            case PermissionGranted():
                self.grants[event.grant.id] = event.grant
            case PermissionRevoked():
                self.grants.pop(event.grant_id, None)
            case PlanUpdated():
                self.plans[event.plan.id] = event.plan
                self.plan_id = event.plan.id
            case PlanCleared():
                self.plans.pop(event.plan_id, None)
                self.plan_id = None if self.plan_id == event.plan_id else self.plan_id
            case WaypointUpdated():
                self.waypoints.apply(event.action, event.waypoint, event.current, event.mark, event.saved)
            case BackgroundUpdated():
                self.tasks[event.task_id] = event
            case GcCompleted():
                self._apply_compaction(event)
            case ContextPinned():
                self._apply_pin(event)

    def _apply_resolved(self, event: Resolved) -> None:
        question = self.questions.pop(event.question_id, None)
        if question is None:
            return
        if is_continued(question.call_id, event):
            self.repetition.reset()
        if question.call_id in self.open_calls:
            self.answered[question.call_id] = (question, event)

    def _add(self, message: Message) -> None:
        self.messages.append(message)
        self.chars.add(message)

    @property
    def written_chars(self) -> int:
        """The characters of the conversation."""
        return self.chars.total

    def _apply_pin(self, event: ContextPinned) -> None:
        if event.gone:
            self.pins.pop(event.pin_id, None)
        else:
            self.pins[event.pin_id] = event.text

    def _apply_compaction(self, event: GcCompleted) -> None:
        """Remove and insert the messages that the event names; a message whose place is lost comes first."""
        self._add_usage(event.usage, event.cost_usd)
        self.learned_limit = event.learned_limit or self.learned_limit
        if event.problem is not None:
            return
        gone = set(event.dropped)
        left = [message for message in self.messages if message.id not in gone]
        there = {"", *(message.id for message in left)}
        added: dict[str | None, list[Message]] = {}
        for placed in event.added:
            added.setdefault(placed.before if placed.before in there else None, []).append(placed.message)
        self.messages = added.get(None, [])
        for message in left:
            self.messages += [*added.get(message.id, []), message]
        self.messages += added.get("", [])
        self.chars = ContextChars()
        for message in self.messages:
            self.chars.add(message)
        self.counted_tokens, self.counted_chars = event.tokens_after, self.written_chars
        self.gc_note = event.note
        if event.record is not None:
            self.record, self.record_seq = event.record, event.seq

    def _apply_model_message(self, event: MessageModel) -> None:
        self._close_lost_calls()
        self._add(event.message)
        self.replies += 1
        self.context_limit, self.limit_source = event.context_limit, event.limit_source
        self.last_model_message = event.message
        calls = event.message.function_calls
        for call in calls:
            self.open_calls[call.call_id] = call
        if not calls:
            self.repetition.add_text(event.message.text)
        if event.usage is not None:
            self.last_usage = event.usage
            self.counted_tokens = event.usage.input_tokens + event.usage.output_tokens
            self.counted_chars = self.written_chars
            self._add_usage(event.usage, event.cost_usd)

    def _add_usage(self, usage: Usage | None, cost_usd: float | None) -> None:
        if usage is not None:
            self.usage = self.usage.plus(usage)
            self.unpriced = self.unpriced or cost_usd is None
            self.cost_usd += cost_usd or 0.0

    def _apply_call_end(self, event: ToolCallEnd) -> None:
        """Append the results as one message in call order once the last call of the model message has ended."""
        self.started.pop(event.call_id, None)
        self.answered.pop(event.call_id, None)
        if self.open_calls.pop(event.call_id, None) is None:
            return  # a user's or a background call: the model did not ask for it
        self.results[event.call_id] = event.result
        if not self.open_calls:
            self._append_results()

    def _close_lost_calls(self) -> None:
        """Give an error result to the open calls, whose ends are missing from a damaged log."""
        for call in self.open_calls.values():
            problem = Problem(
                code="lost", message="The result of this call was lost; look before you repeat it."
            )
            self.results[call.call_id] = ToolResult(call.call_id, call.name, False, error=problem)
            self.started.pop(call.call_id, None)
        if self.open_calls:
            self.open_calls.clear()
            self._append_results()

    def _append_results(self) -> None:
        """Append the results to the history as one tool message, in call order."""
        model_message = self.last_model_message
        assert model_message is not None
        calls = [call for call in model_message.function_calls if call.call_id in self.results]
        self.repetition.add_step(calls, self.results)
        parts: list[Part] = [self.results[call.call_id] for call in calls]
        self._add(Message("tool", parts, id=f"{model_message.id}-results"))
        self.results.clear()


def is_own_call(state: State, *, of_a_subagent: bool) -> bool:
    """Whether the running call belongs to this session or to this subagent: waiting for it would deadlock."""
    running = CURRENT.get()
    if running is None or running.session_id != state.session_id:
        return False
    return not of_a_subagent or running.agent_id == state.agent_id


SESSION_WIDE_EVENTS = frozenset((SessionCreated, AgentCreated, SharedUpdated, ToolsStatus))
"""Events of the root agent that change more than its own state."""
ROOT_EVENTS = (SessionUpdated, PermissionGranted, PermissionRevoked, WaypointUpdated)
"""Events of a subagent that change the session itself, not the subagent."""


class SharedValue(NamedTuple):
    """A value that the agents share; `version` is the `seq` of the event that set it, `by` the agent."""

    value: Any
    version: int
    by: str
    size_bytes: int


class SubagentRecord(msgspec.Struct, eq=False):
    """A subagent as the log records it; `created` is None if that event is lost, `completed` the end of its last
    task, None while it works."""

    state: State
    created: AgentCreated | None = None
    completed: AgentCompleted | None = None
    last_turn: TurnCompleted | None = None
    assigning_calls: set[str] = msgspec.field(default_factory=set)
    """The calls of its ancestors that assigned its current task."""
    has_new_task: bool = False
    """Whether an ancestor has assigned a task that has not started."""

    @property
    def is_closed(self) -> bool:
        """Whether it was closed and cannot be resumed."""
        return self.completed is not None and self.completed.reason == "closed"


class SessionState:
    """The state of a whole session: the fold of its log, which applies each event to the state of its agent."""

    def __init__(self, root: State) -> None:
        self.root = root
        self.subagents: dict[str, SubagentRecord] = {}
        self.shared: dict[str, SharedValue] = {}
        self.usage = Usage()
        """The usage of all completed turns of subagents."""
        self.cost_usd: float | None = 0.0
        self.spending = Spending()
        self._root_ids = {root.agent_id}

    def apply(self, event: Event) -> None:
        """Apply one event."""
        root = self.root
        if type(event) in SPENDING_EVENTS:
            self.spending.apply(event, is_root=event.agent_id in self._root_ids)
        if event.agent_id in self._root_ids:
            root.apply(event)
            if type(event) in SESSION_WIDE_EVENTS:
                self._apply_session_wide(event)
            return
        match event:
            case SessionCreated() | AgentCreated(parent_agent_id=None):
                self._root_ids.add(event.agent_id)
                root.apply(event)
            case SharedUpdated():
                self._set_shared(event)
            case _ if isinstance(event, ROOT_EVENTS):
                root.apply(event)
            case _:
                self._apply_to_subagent(event)
        root.seq = max(root.seq, event.seq)

    def _apply_session_wide(self, event: Event) -> None:
        match event:
            case SharedUpdated():
                self._set_shared(event)
            case ToolsStatus():
                for record in self.subagents.values():
                    record.state.apply(event)
            case _:
                self._root_ids.add(event.agent_id)

    def _set_shared(self, event: SharedUpdated) -> None:
        if event.gone:
            self.shared.pop(event.key, None)
        else:
            self.shared[event.key] = SharedValue(
                event.value, event.seq, event.agent_id, len(encode(event.value))
            )

    def _apply_to_subagent(self, event: Event) -> None:
        record = self.subagents.get(event.agent_id)
        if record is None:
            root = self.root
            state = State(session_id=root.session_id, workspace=root.workspace, agent_id=event.agent_id)
            state.created_at, state.disabled = event.timestamp, root.disabled
            record = self.subagents[event.agent_id] = SubagentRecord(state)
        match event:
            case AgentCreated():
                record.created = event
                record.assigning_calls.add(event.call_id)
            case MessageUser():
                record.completed = None
                record.assigning_calls.add(event.message.once)
                record.has_new_task = False
            case MidTurnQueued():
                record.assigning_calls.add(event.message.once)
                record.has_new_task = record.has_new_task or (
                    record.completed is not None and event.message.source == "parent"
                )
            case AgentCompleted():
                record.completed = event
                record.assigning_calls.clear()
                if event.reason == "closed":
                    record.state.messages = []  # they stay in the log; no request will need them
            case TurnCompleted():
                record.last_turn = event
                self.usage = self.usage.plus(event.usage)
                unpriced = event.cost_usd is None or self.cost_usd is None
                self.cost_usd = None if unpriced else (self.cost_usd or 0.0) + (event.cost_usd or 0.0)
        record.state.apply(event)

    @property
    def is_unfinished(self) -> bool:
        """Whether an agent has an open turn or an open task, running or interrupted."""
        return self.root.open_turn is not None or any(
            not record.is_closed and (record.completed is None or record.has_new_task)
            for record in self.subagents.values()
        )

    def parent_of(self, agent_id: str) -> str | None:
        """The parent of a subagent; None for the root and where its creation event is lost."""
        record = self.subagents.get(agent_id)
        return record.created.parent_agent_id if record is not None and record.created is not None else None

    def ancestors_of(self, agent_id: str) -> Iterator[str]:
        """Iterate over the ancestors of an agent, from its parent to the root."""
        seen: set[str] = set()
        above = self.parent_of(agent_id)
        while above is not None and above not in seen:
            seen.add(above)
            yield above
            above = self.parent_of(above)
