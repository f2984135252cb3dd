"""The agents of one log: the root's state, that of each subagent, and what they share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaato.agent.state import State
from jaato.protocol.codec import encode
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    Event,
    MessageUser,
    MidTurnQueued,
    PermissionGranted,
    PermissionRevoked,
    SessionCreated,
    SessionUpdated,
    SharedUpdated,
    ToolsStatus,
    TurnCompleted,
    WaypointUpdated,
)
from jaato.protocol.messages import Usage

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


@dataclass(eq=False, slots=True)
class Member:
    """A subagent as the log tells it; without `created` its beginning is lost. `completed` is how its last task ended,
    None while it works."""

    state: State
    created: AgentCreated | None = None
    completed: AgentCompleted | None = None
    last_turn: TurnCompleted | None = None
    given_by: set[str] = field(default_factory=set)
    """The calls of agents above that gave it what it does now."""
    tasked: bool = False
    """Whether an agent above has given it a task that it has not begun."""

    @property
    def closed(self) -> bool:
        """Whether it is gone for good."""
        return self.completed is not None and self.completed.reason == "closed"


class Family:
    """Folds a log, giving each event to the agent it is about; a conversation never sees another's messages."""

    def __init__(self, root: State) -> None:
        self.root = root
        self.members: dict[str, Member] = {}
        self.shared: dict[str, Shared] = {}
        self.usage = Usage()
        """What all finished turns of subagents have used."""
        self.cost_usd: float | None = 0.0
        self._own = {root.agent_id}

    def apply(self, event: Event) -> None:
        """Take one event in."""
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
