"""Spans as a fold of a session's events: the same from a log as from a session at work."""

from __future__ import annotations

from typing import Any

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
    PermissionRequested,
    PermissionResolved,
    SessionUpdated,
    ToolCallEnd,
    ToolCallStart,
    TurnCompleted,
)
from jaato.runtime.tracing import attributes as say
from jaato.runtime.tracing.calls import Calls
from jaato.runtime.tracing.lineage import Lineage
from jaato.runtime.tracing.spans import Span, ns_of, span_id, trace_id
from jaato.runtime.tracing.work import Agent, Open, Turn

FAILED = ("error", "limit", "interrupted")
"""Endings of a turn that are errors; one that the user stopped is none."""


class Fold:
    """Takes a session's durable events in order and gives the spans that end with each. Nothing in a log makes it raise;
    it keeps only what is open. `content` puts in what was said and given, cut."""

    def __init__(self, *, content: bool = False) -> None:
        self.content = content
        self.agents: dict[str, Agent] = {}
        self.turns: dict[str, Turn] = {}
        self._turn_of: dict[str, Turn] = {}
        self._lineage = Lineage()
        self._calls = Calls(self._lineage, content=content)
        self._last_ns = 0

    def resumed(self, now_ns: int) -> None:
        """What is open goes on now, in another process: the time between is nobody's work."""
        for turn in self.turns.values():
            turn.mark_ns = max(turn.mark_ns, now_ns)

    def open_spans(self) -> list[Span]:
        """What has begun and not ended, the turns first."""
        return [one.span(None, {}) for one in (*self.turns.values(), *self._calls.open())]

    def take(self, event: Event) -> list[Span]:
        """Take one event in; gives the spans that have ended with it, a parent after its children."""
        if not event.durable:
            return []
        at_ns = ns_of(event.timestamp) or self._last_ns
        broken = cut_off(event)
        end_ns = (
            (self._last_ns or at_ns) if broken else at_ns
        )  # when it broke off, nobody wrote anything down
        if not broken:
            self._last_ns = at_ns
        match event:
            case AgentCreated() | SessionUpdated() | AgentCompleted():
                self._know(event)
            case MessageUser():
                self._heard(event, at_ns)
            case MessageModel():
                return self._replied(event, at_ns)
            case ToolCallStart():
                self._calls.began(event, self._around(event, event.turn_id or ""), at_ns)
            case ToolCallEnd():
                return self._call_ended(event, end_ns, at_ns)
            case PermissionRequested() | ClarificationQuestion():
                self._calls.asks(event, self._around(event), at_ns)
            case PermissionResolved() | ClarificationResolved():
                return self._calls.answered(event, end_ns)
            case GcCompleted():
                return self._made_room(event, at_ns)
            case BackgroundUpdated():
                return self._calls.task(event, self._around(event), end_ns)
            case TurnCompleted():
                return self._turn_ended(event, end_ns)
        return []

    def _know(self, event: AgentCreated | SessionUpdated | AgentCompleted) -> None:
        match event:
            case AgentCreated():
                self.agents[event.agent_id] = Agent(
                    event.name, event.provider, event.model, event.parent_agent_id
                )
                if event.parent_agent_id is not None:
                    self._lineage.made(event)
            case SessionUpdated():
                agent = self._agent(event.agent_id)
                agent.provider, agent.model = event.provider or agent.provider, event.model or agent.model
            case AgentCompleted(reason="closed"):
                self.agents.pop(event.agent_id, None)

    # --- turns -------------------------------------------------------------------------------------------------

    def _agent(self, agent_id: str) -> Agent:
        return self.agents.setdefault(agent_id, Agent())

    def _of_agent(self, event: Event) -> dict[str, Any]:
        agent = self._agent(event.agent_id)
        return {
            "gen_ai.conversation.id": event.session_id,
            "gen_ai.agent.id": event.agent_id,
            "gen_ai.agent.name": agent.name,
        }

    def _around(self, event: Event, turn_id: str = "") -> Turn | None:
        """The turn in which something happens: the one that is named, else the agent's own; None between turns."""
        return self.turns.get(turn_id) or self._turn_of.get(event.agent_id)

    def _turn(self, event: Event, turn_id: str, at_ns: int, text: str = "") -> Turn:
        """The turn an event belongs to; one whose beginning is lost begins here."""
        turn = self.turns.get(turn_id)
        if turn is not None:
            return turn
        agent = self._agent(event.agent_id)
        giver = above = None
        if agent.parent_id is not None:
            giver = self._lineage.giver(event.agent_id, agent.parent_id, text)
            above = giver or self._turn_of.get(agent.parent_id)
        turn = Turn(
            trace_id=above.trace_id if above is not None else trace_id(event.session_id, turn_id),
            span_id=span_id(event.session_id, "turn", turn_id),
            parent_id=above.span_id if above is not None else "",
            name=f"invoke_agent {agent.name}",
            start_ns=at_ns,
            turn_id=turn_id,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.provider.name": say.provider(agent.provider),
                "gen_ai.request.model": agent.model,
                **self._of_agent(event),
                "jaato.turn.id": turn_id,
            },
            agent_id=event.agent_id,
            mark_ns=at_ns,
        )
        self.turns[turn_id] = self._turn_of[event.agent_id] = turn
        return turn

    def _heard(self, event: MessageUser, at_ns: int) -> None:
        known = event.turn_id in self.turns
        turn = self._turn(event, event.turn_id, at_ns, event.message.text)
        turn.mark_ns, turn.asked = at_ns, True
        if self.content and not known:
            turn.attributes["gen_ai.input.messages"] = say.messages(event.message)

    def _replied(self, event: MessageModel, at_ns: int) -> list[Span]:
        turn = self._turn(event, event.turn_id, at_ns)
        turn.finish = event.finish_reason
        if event.finish_reason in ("error", "cancelled"):
            turn.partial = event  # the turn's end, which follows, says why
            return []
        spoken = self._chat(event, turn, at_ns, event.message.id, say.of_reply(event, content=self.content))
        turn.mark_ns, turn.partial = at_ns, None
        turn.pending = {call.call_id for call in event.message.function_calls}
        turn.asked = False
        return [spoken]

    def _chat(
        self,
        event: MessageModel | TurnCompleted,
        turn: Turn,
        at_ns: int,
        key: str,
        more: dict[str, Any],
        problem: str = "",
    ) -> Span:
        agent = self._agent(event.agent_id)
        message = event.message if isinstance(event, MessageModel) else None
        name = (message.provider if message is not None else None) or agent.provider
        model = (message.model if message is not None else None) or agent.model
        begun = Open(
            turn.trace_id,
            span_id(event.session_id, "chat", key or str(event.seq)),
            turn.span_id,
            f"chat {model}".strip(),
            turn.mark_ns,
            turn.turn_id,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": say.provider(name),
                "gen_ai.request.model": model,
                **self._of_agent(event),
            },
        )
        return begun.span(at_ns, more, problem, say.kind_of_call(name))

    def _turn_ended(self, event: TurnCompleted, end_ns: int) -> list[Span]:
        turn = self._turn(event, event.turn_id, end_ns)
        made: list[Span] = []
        code = event.error.code if event.error is not None else event.reason
        if turn.partial is not None:
            spoken = turn.partial
            fault = code if spoken.finish_reason == "error" else ""
            more = say.of_reply(spoken, content=self.content)
            made.append(self._chat(spoken, turn, end_ns, spoken.message.id, more, fault))
        elif turn.asked and (
            event.reason == "error"
            or (event.reason in ("cancelled", "interrupted") and end_ns > turn.mark_ns)
        ):
            fault = code if event.reason != "cancelled" else ""
            more = {} if fault else {"gen_ai.response.finish_reasons": ["cancelled"]}
            made.append(self._chat(event, turn, end_ns, f"{event.turn_id} end", more, fault))
        made += self._calls.turn_over(event.turn_id, end_ns)
        finish = {"gen_ai.response.finish_reasons": [turn.finish]} if turn.finish else {}
        problem = code if event.reason in FAILED else ""
        made.append(turn.span(end_ns, {**say.of_turn(event), **finish}, problem))
        self.turns.pop(event.turn_id, None)
        if self._turn_of.get(event.agent_id) is turn:
            del self._turn_of[event.agent_id]
        return made

    # --- what happens in a turn --------------------------------------------------------------------------------

    def _call_ended(self, event: ToolCallEnd, end_ns: int, at_ns: int) -> list[Span]:
        turn = self._around(event)
        made = self._calls.ended(event, turn, end_ns)
        if turn is not None and event.call_id in turn.pending:
            turn.pending.discard(event.call_id)
            turn.mark_ns = at_ns
            stopped = event.result.error is not None and event.result.error.code == "cancelled"
            turn.asked = not turn.pending and not stopped
        return [made]

    def _made_room(self, event: GcCompleted, at_ns: int) -> list[Span]:
        turn = self._around(event)
        key = str(event.seq)
        begun = Open(
            turn.trace_id if turn is not None else trace_id(event.session_id, "compact", key),
            span_id(event.session_id, "compact", key),
            turn.span_id if turn is not None else "",
            f"compact {event.strategy}",
            turn.mark_ns if turn is not None and turn.asked else at_ns,
            turn.turn_id if turn is not None else "",
            self._of_agent(event),
        )
        if turn is not None:
            turn.mark_ns = at_ns
        return [begun.span(at_ns, say.of_room_making(event), "_OTHER" if event.problem else "")]


def cut_off(event: Event) -> bool:
    """Whether an event only says that a process had died before: when, it cannot know."""
    match event:
        case ToolCallEnd(duration_s=0.0):
            return event.result.error is not None and event.result.error.code == "interrupted"
        case TurnCompleted(duration_s=0.0, reason="interrupted") | BackgroundUpdated(status="interrupted"):
            return True
        case PermissionResolved():
            return event.permission.method == "interrupted"
    return False
