"""Maps a session's events to spans in the names of OpenTelemetry's GenAI conventions: the same spans from a stored log as
from a session at work."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

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
from jaato.protocol.ids import span_id, trace_id
from jaato.protocol.messages import Message
from jaato.runtime.tracing.attributes import (
    Attributes,
    arguments_json,
    message_json,
    permission_attributes,
    result_text,
    tool_attributes,
    usage_attributes,
)
from jaato.version import __version__

FAILED = ("error", "limit", "interrupted")
"""Endings of a turn that are errors; one that the user stopped is none."""
MAX_NS = 2**63 - 1
SCOPE = InstrumentationScope("jaato", __version__)
SAMPLED = TraceFlags(TraceFlags.SAMPLED)
NO_RESOURCE = Resource({})
PROVIDERS = {"google_genai": "gcp.gemini", "vertex": "gcp.vertex_ai"}
"""Our names of providers, where the conventions have another one."""
IN_PROCESS = ("local", "scripted")
"""Providers that answer within this process."""
FINISH_REASONS = {"tool_calls": "tool_call", "refusal": "content_filter"}


@dataclass(slots=True)
class Agent:
    """An agent, as spans name it."""

    name: str = "main"
    provider: str = ""
    model: str = ""
    parent_id: str | None = None


@dataclass(slots=True)
class OpenSpan:
    """Work that has begun and not ended."""

    name: str
    context: SpanContext
    parent: SpanContext | None
    start_ns: int
    turn_id: str
    attributes: Attributes
    kind: SpanKind = SpanKind.INTERNAL


@dataclass(slots=True)
class Turn(OpenSpan):
    """A turn of an agent. `mark_ns` is since when the model may have been asked, `asked` whether it is what the turn
    waits for; `answered_ns` is when the question about a call was answered."""

    mark_ns: int = 0
    asked: bool = True
    finish_reason: str = ""
    partial: MessageModel | None = None
    pending: set[str] = field(default_factory=set)
    answered_ns: dict[str, int] = field(default_factory=dict)


class SpanFold:
    """Applies a session's durable events in order and returns the spans that end with each. No log makes it raise; it
    keeps only what is open. `content` includes texts, arguments and results, truncated."""

    def __init__(self, resource: Resource = NO_RESOURCE, *, content: bool = False) -> None:
        self.agents: dict[str, Agent] = {}
        self.turns: dict[str, Turn] = {}
        self._resource = resource
        self._content = content
        self._turn_of: dict[str, Turn] = {}
        self._calls: dict[str, OpenSpan] = {}
        self._questions: dict[str, OpenSpan] = {}
        self._tasks: dict[str, OpenSpan] = {}
        self._given_by: dict[str, SpanContext] = {}
        self._last_ns = 0

    def resume(self, now_ns: int) -> None:
        """Continue open turns in another process: the time between counts for no model call."""
        for turn in self.turns.values():
            turn.mark_ns = max(turn.mark_ns, now_ns)

    def apply(self, event: Event) -> list[ReadableSpan]:
        """Apply one event; returns the spans that ended with it, a parent after its children."""
        if not event.durable:
            return []
        at_ns = nanoseconds(event.timestamp) or self._last_ns
        end_ns = at_ns
        if is_recovered(event):  # its process died unrecorded, at the last event before at the earliest
            end_ns = self._last_ns or at_ns
        else:
            self._last_ns = at_ns
        match event:
            case AgentCreated() | SessionUpdated() | AgentCompleted():
                self._agent_changed(event)
            case MessageUser():
                self._user_message(event, at_ns)
            case MessageModel():
                return self._reply(event, at_ns)
            case ToolCallStart():
                self._call_started(event, at_ns)
            case ToolCallEnd():
                return [self._call_ended(event, end_ns, at_ns)]
            case PermissionRequested() | ClarificationQuestion():
                self._open_question(event, at_ns)
            case PermissionResolved() | ClarificationResolved():
                return self._resolve(event, end_ns)
            case GcCompleted():
                return [self._close_compaction(event, at_ns)]
            case BackgroundUpdated():
                return self._task_updated(event, end_ns)
            case TurnCompleted():
                return self._turn_ended(event, end_ns)
        return []

    def _agent_changed(self, event: AgentCreated | SessionUpdated | AgentCompleted) -> None:
        match event:
            case AgentCreated():
                self.agents[event.agent_id] = Agent(
                    event.name, event.provider, event.model, event.parent_agent_id
                )
                if event.call_id in self._calls:
                    self._given_by[event.agent_id] = self._calls[event.call_id].context
            case SessionUpdated():
                agent = self._agent(event.agent_id)
                agent.provider, agent.model = event.provider or agent.provider, event.model or agent.model
            case AgentCompleted(reason="closed"):
                self.agents.pop(event.agent_id, None)

    def _agent(self, agent_id: str) -> Agent:
        return self.agents.setdefault(agent_id, Agent())

    def _agent_attributes(
        self, event: Event, operation: str = "", reply: Message | None = None
    ) -> Attributes:
        """Whose work a span is; of an operation also the provider and the model, which a reply names itself."""
        agent = self._agent(event.agent_id)
        found = {
            "gen_ai.conversation.id": event.session_id,
            "gen_ai.agent.id": event.agent_id,
            "gen_ai.agent.name": agent.name,
        }
        if operation:
            provider = (reply.provider if reply is not None else None) or agent.provider
            found["gen_ai.operation.name"] = operation
            found["gen_ai.provider.name"] = PROVIDERS.get(provider, provider) or "unknown"
            found["gen_ai.request.model"] = (reply.model if reply is not None else None) or agent.model
        return found

    # --- turns and model calls ---------------------------------------------------------------------------------

    def _turn(self, event: Event, turn_id: str, at_ns: int) -> Turn:
        """The turn of an event; one whose beginning is lost begins here."""
        if turn_id in self.turns:
            return self.turns[turn_id]
        agent = self._agent(event.agent_id)
        parent = self._given_by.pop(event.agent_id, None)
        if parent is None and agent.parent_id in self._turn_of:
            parent = self._turn_of[agent.parent_id].context
        turn = Turn(
            f"invoke_agent {agent.name}",
            context_of(event, parent, "turn", turn_id, trace_id(event.session_id, turn_id)),
            parent,
            at_ns,
            turn_id,
            {**self._agent_attributes(event, "invoke_agent"), "jaato.turn.id": turn_id},
            mark_ns=at_ns,
        )
        self.turns[turn_id] = self._turn_of[event.agent_id] = turn
        return turn

    def _user_message(self, event: MessageUser, at_ns: int) -> None:
        is_new = event.turn_id not in self.turns
        turn = self._turn(event, event.turn_id, at_ns)
        turn.mark_ns, turn.asked = at_ns, True
        if self._content and is_new:
            turn.attributes["gen_ai.input.messages"] = message_json(event.message)

    def _reply(self, event: MessageModel, at_ns: int) -> list[ReadableSpan]:
        turn = self._turn(event, event.turn_id, at_ns)
        turn.finish_reason = event.finish_reason
        if event.finish_reason in ("error", "cancelled"):
            turn.partial = event  # the turn's end, which follows, says why
            return []
        chat = self._chat(event, turn, at_ns, event)
        turn.mark_ns, turn.partial, turn.asked = at_ns, None, False
        turn.pending = {call.call_id for call in event.message.function_calls}
        return [chat]

    def _chat(
        self, event: Event, turn: Turn, end_ns: int, reply: MessageModel | None = None, error: str = ""
    ) -> ReadableSpan:
        """The span of a model call, which ends with its reply or, without one, with the turn."""
        found = self._agent_attributes(event, "chat", reply.message if reply is not None else None)
        key = f"{turn.turn_id} end"
        if reply is not None:
            key = reply.message.id or str(reply.seq)
            found["gen_ai.response.finish_reasons"] = [reply.finish_reason]
            found |= usage_attributes(reply.usage, reply.cost_usd)
            if self._content:
                reason = FINISH_REASONS.get(reply.finish_reason, reply.finish_reason)
                found["gen_ai.output.messages"] = message_json(reply.message, reason)
        elif not error:
            found["gen_ai.response.finish_reasons"] = ["cancelled"]
        chat = self._open(event, "chat", found["gen_ai.request.model"], key, turn.mark_ns, found)
        if found["gen_ai.provider.name"] not in IN_PROCESS:
            chat.kind = SpanKind.CLIENT
        return self._end_span(chat, end_ns, {}, error)

    def _turn_ended(self, event: TurnCompleted, end_ns: int) -> list[ReadableSpan]:
        turn = self._turn(event, event.turn_id, end_ns)
        made: list[ReadableSpan] = []
        code = event.error.code if event.error is not None else event.reason
        if turn.partial is not None:
            error = code if turn.partial.finish_reason == "error" else ""
            made.append(self._chat(event, turn, end_ns, turn.partial, error))
        elif turn.asked and (
            event.reason == "error"
            or (event.reason in ("cancelled", "interrupted") and end_ns > turn.mark_ns)
        ):
            made.append(self._chat(event, turn, end_ns, error="" if event.reason == "cancelled" else code))
        for known in (self._calls, self._questions):
            left = [key for key, one in known.items() if one.turn_id == event.turn_id]
            made += [self._end_span(known.pop(key), end_ns, {}, "interrupted") for key in left]
        found = {
            "jaato.turn.reason": event.reason,
            "jaato.turn.model_calls": event.model_calls,
            "jaato.turn.tool_calls": event.tool_calls,
            "gen_ai.response.finish_reasons": [turn.finish_reason] if turn.finish_reason else None,
            **usage_attributes(event.usage, event.cost_usd),
        }
        made.append(self._end_span(turn, end_ns, found, code if event.reason in FAILED else ""))
        self.turns.pop(event.turn_id, None)
        if self._turn_of.get(event.agent_id) is turn:
            del self._turn_of[event.agent_id]
        return made

    # --- what happens in a turn --------------------------------------------------------------------------------

    def _around(self, event: Event) -> Turn | None:
        """The turn in which something happens: the one that is named, else the agent's own; None between turns."""
        return self.turns.get(getattr(event, "turn_id", "")) or self._turn_of.get(event.agent_id)

    def _call_started(self, event: ToolCallStart, at_ns: int) -> None:
        call = self._open_call(event, at_ns)
        call.attributes |= permission_attributes(event.permission)
        if self._content:
            call.attributes["gen_ai.tool.call.arguments"] = arguments_json(event.arguments)
        self._calls[event.call_id] = call
        if event.tool == "continue_subagent":
            named = event.arguments.get("agent_id")
            for agent_id, agent in self.agents.items():
                if named in (agent_id, agent.name) and agent.parent_id is not None:
                    self._given_by[agent_id] = call.context

    def _call_ended(self, event: ToolCallEnd, end_ns: int, at_ns: int) -> ReadableSpan:
        """A call has its result; one that never ran, because it was refused, took the time of its checks."""
        turn = self._around(event)
        answered_ns = turn.answered_ns.pop(event.call_id, 0) if turn is not None else 0
        call = self._calls.pop(event.call_id, None)
        if call is None:
            call = self._open_call(event, max(answered_ns, end_ns - length_ns(event.duration_s)))
        elif end_ns < call.start_ns:
            end_ns = call.start_ns + length_ns(event.duration_s)  # the clock was set back
        result = event.result
        more = permission_attributes(event.permission)
        if self._content:
            more["gen_ai.tool.call.result"] = result_text(result)
            if event.arguments is not None:
                more["gen_ai.tool.call.arguments"] = arguments_json(event.arguments)
        if turn is not None and event.call_id in turn.pending:
            turn.pending.discard(event.call_id)
            turn.mark_ns = at_ns
            stopped = result.error is not None and result.error.code == "cancelled"
            turn.asked = not turn.pending and not stopped
        code = result.error.code if result.error is not None else ""
        return self._end_span(call, end_ns, more, "" if result.ok else code or "_OTHER")

    def _open_call(self, event: ToolCallStart | ToolCallEnd, start_ns: int) -> OpenSpan:
        found = tool_attributes(event, event.tool, event.call_id)
        found |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function"}
        return self._open(event, "execute_tool", event.tool, event.call_id, start_ns, found)

    def _open_question(self, event: PermissionRequested | ClarificationQuestion, at_ns: int) -> None:
        """A question waits for a person: beside its call, so that the time a person takes is not the tool's."""
        kind, tool, above = "clarification", "", self._calls.get(event.call_id)
        if isinstance(event, PermissionRequested):
            kind, tool, above = "permission", event.tool, None
        found = tool_attributes(event, tool, event.call_id)
        question = self._open(event, kind, tool, event.question_id, at_ns, found, above)
        self._questions[event.question_id] = question

    def _resolve(self, event: PermissionResolved | ClarificationResolved, end_ns: int) -> list[ReadableSpan]:
        question = self._questions.pop(event.question_id, None)
        if question is None:
            return []
        if isinstance(event, ClarificationResolved):
            return [self._end_span(question, end_ns, {})]
        if question.turn_id in self.turns:
            self.turns[question.turn_id].answered_ns[event.call_id] = end_ns
        return [self._end_span(question, end_ns, permission_attributes(event.permission))]

    def _close_compaction(self, event: GcCompleted, at_ns: int) -> ReadableSpan:
        turn = self._around(event)
        start_ns = turn.mark_ns if turn is not None and turn.asked else at_ns
        found = self._agent_attributes(event) | {
            "jaato.compaction.strategy": event.strategy,
            "jaato.compaction.tokens_before": event.tokens_before,
            "jaato.compaction.tokens_after": event.tokens_after,
        }
        if event.usage is not None:
            found |= usage_attributes(event.usage, event.cost_usd)
        span = self._open(event, "compact", event.strategy, str(event.seq), start_ns, found)
        if turn is not None:
            turn.mark_ns = at_ns
        return self._end_span(span, at_ns, {}, "_OTHER" if event.problem else "")

    def _task_updated(self, event: BackgroundUpdated, at_ns: int) -> list[ReadableSpan]:
        """A background task has begun or ended."""
        if event.status == "running":
            found = tool_attributes(event, event.tool, event.call_id) | {"jaato.task.id": event.task_id}
            call = self._calls.get(event.call_id or "")
            task = self._open(event, "background", event.tool, event.task_id, at_ns, found, call)
            self._tasks[event.task_id] = task
            return []
        ended = self._tasks.pop(event.task_id, None)
        if ended is None:
            return []
        problem = event.result.error if event.result is not None else None
        code = problem.code if problem is not None else event.status
        error = code if event.status in ("failed", "interrupted") else ""
        return [self._end_span(ended, at_ns, {"jaato.task.status": event.status}, error)]

    # --- spans -------------------------------------------------------------------------------------------------

    def _open(
        self,
        event: Event,
        kind: str,
        subject: str,
        key: str,
        start_ns: int,
        attributes: Attributes,
        above: OpenSpan | None = None,
    ) -> OpenSpan:
        """Begin a span below another or a turn; without either it has a trace of its own."""
        turn = self._around(event)
        over = above or turn
        parent = over.context if over is not None else None
        context = context_of(event, parent, kind, key, trace_id(event.session_id, "apart", key))
        turn_id = turn.turn_id if turn is not None else ""
        return OpenSpan(f"{kind} {subject}".strip(), context, parent, start_ns, turn_id, attributes)

    def _end_span(self, span: OpenSpan, end_ns: int, more: Attributes, error: str = "") -> ReadableSpan:
        attributes = {**span.attributes, **more, "error.type": error}
        return ReadableSpan(
            span.name,
            span.context,
            span.parent,
            self._resource,
            {name: value for name, value in attributes.items() if value is not None and value != ""},
            kind=span.kind,
            status=Status(StatusCode.ERROR) if error else Status(),
            start_time=span.start_ns,
            end_time=max(end_ns, span.start_ns),
            instrumentation_scope=SCOPE,
        )


def context_of(event: Event, parent: SpanContext | None, kind: str, key: str, own_trace: str) -> SpanContext:
    """The ids of a span: hashes of what it is for, so that the log gives the same ones at any time."""
    trace = parent.trace_id if parent is not None else int(own_trace, 16)
    return SpanContext(trace, int(span_id(event.session_id, kind, key), 16), False, SAMPLED)


def is_recovered(event: Event) -> bool:
    """Whether an event was written by recovery, because the process had died before it could."""
    match event:
        case ToolCallEnd(duration_s=0.0):
            return event.result.error is not None and event.result.error.code == "interrupted"
        case TurnCompleted(duration_s=0.0, reason="interrupted") | BackgroundUpdated(status="interrupted"):
            return True
        case PermissionResolved():
            return event.permission.method == "interrupted"
    return False


def nanoseconds(timestamp: str) -> int | None:
    """An event's time in nanoseconds since 1970; None for what is no time of that range."""
    try:
        moment = datetime.datetime.fromisoformat(timestamp)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        found = round(moment.timestamp() * 1_000_000) * 1_000
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found <= MAX_NS else None


def length_ns(seconds: float) -> int:
    """A duration in nanoseconds, of a day at most."""
    return int(max(0.0, min(seconds, 86_400.0)) * 1e9) if seconds == seconds else 0  # noqa: PLR0124 it is no number
