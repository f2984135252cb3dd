"""State of a session: the fold of its events, per agent, and the values the agents share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from jaato.protocol.codec import encode
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    BackgroundUpdated,
    ClarificationQuestion,
    ClarificationResolved,
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
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from jaato.protocol.specs import Grant, Mode, Plan
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
    """The permission mode, if the user changed it in the session."""
    system_prompt: str = ""
    core_tools: list[str] = msgspec.field(default_factory=list)
    activated: list[str] = msgspec.field(default_factory=list)
    disabled: frozenset[str] = frozenset()
    messages: list[Message] = msgspec.field(default_factory=list)
    asked: Message | None = None
    """The model's last message, whose calls are open or answered."""
    written_chars: int = 0
    counted_tokens: int = 0
    """Tokens of the context as last reported by the provider; `counted_chars` are its characters then."""
    counted_chars: int = 0
    gc_note: str | None = None
    """The message that tells the model what it must know of what was left out."""
    open_turn: str | None = None
    open_calls: dict[str, ToolCall] = msgspec.field(default_factory=dict)
    started: dict[str, ToolCallStart] = msgspec.field(default_factory=dict)
    results: dict[str, ToolResult] = msgspec.field(default_factory=dict)
    queued: dict[str, Message] = msgspec.field(default_factory=dict)
    questions: dict[str, Question] = msgspec.field(default_factory=dict)
    answered: dict[str, tuple[Question, Resolved]] = msgspec.field(default_factory=dict)
    """By call, the last question that was settled, until the call has gone on with the answer."""
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
        """The plan in work."""
        return self.plans.get(self.plan_id) if self.plan_id else None

    def apply(self, event: Event) -> None:
        """Apply one event."""
        self.seq = max(self.seq, event.seq)
        if type(event) is ToolCallEnd:
            return self._call_ended(event)  # fast path for the most frequent event
        match event:
            case MessageUser():
                self._settle()
                self.open_turn = event.turn_id
                self._add(event.message)
            case MessageModel():
                self._model_spoke(event)
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
            case SessionUpdated():
                self.name = event.name if event.name is not None else self.name
                self.description = event.description if event.description is not None else self.description
                self.provider, self.model = event.provider or self.provider, event.model or self.model
                self.mode = event.mode or self.mode
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
            case MidTurnInjected():
                self.queued.pop(event.message_id, None)
            case PermissionRequested() | ClarificationQuestion():
                self.questions[event.question_id] = event
                self.answered.pop(event.call_id, None)
            case PermissionResolved() | ClarificationResolved():
                question = self.questions.pop(event.question_id, None)
                if question is not None and question.call_id in self.open_calls:
                    self.answered[question.call_id] = (question, event)
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
                self._pay(event.usage, event.cost_usd)
                if event.problem is None:
                    self._made_room(event)

    def _add(self, message: Message) -> None:
        self.messages.append(message)
        self.written_chars += chars_of(message)

    def _made_room(self, event: GcCompleted) -> None:
        """Leave out and put in what the event says. Where the message a new one stands before is lost, it stands first."""
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
        self.written_chars = sum(map(chars_of, self.messages))
        self.counted_tokens, self.counted_chars = event.tokens_after, self.written_chars
        self.gc_note = event.note

    def _model_spoke(self, event: MessageModel) -> None:
        self._settle()
        self._add(event.message)
        self.asked = event.message
        for call in event.message.function_calls:
            self.open_calls[call.call_id] = call
        if event.usage is not None:
            self.last_usage = event.usage
            self.counted_tokens = event.usage.input_tokens + event.usage.output_tokens
            self.counted_chars = self.written_chars
            self._pay(event.usage, event.cost_usd)

    def _pay(self, usage: Usage | None, cost_usd: float | None) -> None:
        if usage is not None:
            self.usage = self.usage.plus(usage)
            self.unpriced = self.unpriced or cost_usd is None
            self.cost_usd += cost_usd or 0.0

    def _call_ended(self, event: ToolCallEnd) -> None:
        """Results join the conversation as one message, in call order, once the last of them is there."""
        self.started.pop(event.call_id, None)
        self.answered.pop(event.call_id, None)
        if self.open_calls.pop(event.call_id, None) is None:
            return  # a user's or a background call: the model did not ask for it
        self.results[event.call_id] = event.result
        if not self.open_calls:
            self._answer()

    def _settle(self) -> None:
        """The conversation goes on while calls have no result: their ends are missing from a damaged log."""
        for call in self.open_calls.values():
            problem = Problem(
                code="lost", message="The result of this call was lost; look before you repeat it."
            )
            self.results[call.call_id] = ToolResult(call.call_id, call.name, False, error=problem)
            self.started.pop(call.call_id, None)
        if self.open_calls:
            self.open_calls.clear()
            self._answer()

    def _answer(self) -> None:
        """Let the results join the conversation, in call order."""
        asked = self.asked
        assert asked is not None
        parts: list[Part] = [
            self.results[call.call_id] for call in asked.function_calls if call.call_id in self.results
        ]
        self._add(Message("tool", parts, id=f"{asked.id}-results"))
        self.results.clear()


def chars_of(message: Message) -> int:
    """How many characters a message brings into the context."""
    chars = 0
    for part in message.parts:
        match part:
            case ToolResult():
                chars += sum(len(item.text) for item in part.content if isinstance(item, Text))
            case ToolCall():
                chars += len(part.name) + sum(len(str(v)) for v in part.arguments.values())
            case Text() | Thinking() | Refusal():
                chars += len(part.text)
    return chars


def own_call(state: State, *, of_a_subagent: bool) -> bool:
    """Whether the call that runs now is one of this session, or of this very subagent: it cannot be waited for."""
    running = CURRENT.get()
    if running is None or running.session_id != state.session_id:
        return False
    return not of_a_subagent or running.agent_id == state.agent_id


OF_ALL = frozenset((SessionCreated, AgentCreated, SharedUpdated, ToolsStatus))
"""Events of the root that concern more than its own state."""
OF_THE_ROOT = (SessionUpdated, PermissionGranted, PermissionRevoked, WaypointUpdated)
"""Events of a subagent that change the session itself, not the subagent."""


class Shared(NamedTuple):
    """A value the agents share; `version` is the event that set it, by this agent."""

    value: Any
    version: int
    by: str
    size_bytes: int


class Member(msgspec.Struct, eq=False):
    """A subagent in the log; `created` is None if that event is lost. `completed` is how its last task ended,
    None while it works."""

    state: State
    created: AgentCreated | None = None
    completed: AgentCompleted | None = None
    last_turn: TurnCompleted | None = None
    given_by: set[str] = msgspec.field(default_factory=set)
    """The calls of agents above that gave it what it does now."""
    tasked: bool = False
    """Whether an agent above has given it a task that it has not begun."""

    @property
    def closed(self) -> bool:
        """Whether it is gone for good."""
        return self.completed is not None and self.completed.reason == "closed"


class Family:
    """Folds a log: applies each event to the state of its agent."""

    def __init__(self, root: State) -> None:
        self.root = root
        self.members: dict[str, Member] = {}
        self.shared: dict[str, Shared] = {}
        self.usage = Usage()
        """What all finished turns of subagents have used."""
        self.cost_usd: float | None = 0.0
        self._own = {root.agent_id}

    def apply(self, event: Event) -> None:
        """Apply one event."""
        root = self.root
        if event.agent_id in self._own:
            root.apply(event)
            if type(event) in OF_ALL:
                self._of_all(event)
            return
        match event:
            case SessionCreated() | AgentCreated(parent_agent_id=None):
                self._own.add(event.agent_id)
                root.apply(event)
            case SharedUpdated():
                self._share(event)
            case _ if isinstance(event, OF_THE_ROOT):
                root.apply(event)
            case _:
                self._of_member(event)
        root.seq = max(root.seq, event.seq)

    def _of_all(self, event: Event) -> None:
        match event:
            case SharedUpdated():
                self._share(event)
            case ToolsStatus():
                for member in self.members.values():
                    member.state.apply(event)
            case _:
                self._own.add(event.agent_id)

    def _share(self, event: SharedUpdated) -> None:
        if event.gone:
            self.shared.pop(event.key, None)
        else:
            self.shared[event.key] = Shared(event.value, event.seq, event.agent_id, len(encode(event.value)))

    def _of_member(self, event: Event) -> None:
        member = self.members.get(event.agent_id)
        if member is None:
            root = self.root
            state = State(session_id=root.session_id, workspace=root.workspace, agent_id=event.agent_id)
            state.created_at, state.disabled = event.timestamp, root.disabled
            member = self.members[event.agent_id] = Member(state)
        match event:
            case AgentCreated():
                member.created = event
                member.given_by.add(event.call_id)
            case MessageUser():
                member.completed = None
                member.given_by.add(event.message.once)
                member.tasked = False
            case MidTurnQueued():
                member.given_by.add(event.message.once)
                member.tasked = member.tasked or (
                    member.completed is not None and event.message.source == "parent"
                )
            case AgentCompleted():
                member.completed = event
                member.given_by.clear()
                if event.reason == "closed":
                    member.state.messages = []  # the log has them; nobody will ask the model again
            case TurnCompleted():
                member.last_turn = event
                self.usage = self.usage.plus(event.usage)
                unpriced = event.cost_usd is None or self.cost_usd is None
                self.cost_usd = None if unpriced else (self.cost_usd or 0.0) + (event.cost_usd or 0.0)
        member.state.apply(event)

    @property
    def unfinished(self) -> bool:
        """Whether an agent has something to do, be it that nobody goes on with it at the moment."""
        return self.root.open_turn is not None or any(
            not member.closed and (member.completed is None or member.tasked)
            for member in self.members.values()
        )

    def parent_of(self, agent_id: str) -> str | None:
        """Whose subagent this is; None for the root and for one whose beginning is lost."""
        member = self.members.get(agent_id)
        return member.created.parent_agent_id if member is not None and member.created is not None else None

    def above(self, agent_id: str) -> Iterator[str]:
        """The agents above one, its parent first, the root last."""
        seen: set[str] = set()
        above = self.parent_of(agent_id)
        while above is not None and above not in seen:
            seen.add(above)
            yield above
            above = self.parent_of(above)
