"""Spans of calls, of questions about them and of what goes on in the background."""

from __future__ import annotations

from typing import Any

from jaato.protocol.events import (
    BackgroundUpdated,
    ClarificationQuestion,
    ClarificationResolved,
    Event,
    PermissionRequested,
    PermissionResolved,
    ToolCallEnd,
    ToolCallStart,
)
from jaato.protocol.ids import span_id, trace_id
from jaato.runtime.tracing import attributes as say
from jaato.runtime.tracing.lineage import Lineage
from jaato.runtime.tracing.spans import Span
from jaato.runtime.tracing.work import Open, Turn


class Calls:
    """The calls and questions of a session that are open. A question is a span beside its call's, so that the time a
    person takes is not the tool's."""

    def __init__(self, lineage: Lineage, *, content: bool) -> None:
        self._lineage = lineage
        self._content = content
        self._running: dict[str, Open] = {}
        self._asking: dict[str, Open] = {}
        self._tasks: dict[str, Open] = {}
        self._answered: dict[str, tuple[str, int]] = {}

    def open(self) -> list[Open]:
        """Everything that goes on."""
        return [*self._running.values(), *self._asking.values(), *self._tasks.values()]

    def began(self, event: ToolCallStart, turn: Turn | None, at_ns: int) -> None:
        """A call runs."""
        begun = self._below(event, turn, "execute_tool", event.tool, event.call_id, at_ns)
        begun.attributes |= say.of_permission(event.permission)
        if self._content:
            begun.attributes["gen_ai.tool.call.arguments"] = say.cut(say.json(event.arguments))
        self._running[event.call_id] = begun
        self._lineage.begun(event, begun.trace_id, begun.span_id)

    def ended(self, event: ToolCallEnd, turn: Turn | None, end_ns: int) -> Span:
        """A call has its result; one that never ran, because it was refused, took no time but that of its checks."""
        _, answered_ns = self._answered.pop(event.call_id, ("", 0))
        begun = self._running.pop(event.call_id, None)
        if begun is None:
            start_ns = max(answered_ns, end_ns - length_ns(event.duration_s))
            begun = self._below(event, turn, "execute_tool", event.tool, event.call_id, start_ns)
        elif end_ns < begun.start_ns:
            end_ns = begun.start_ns + length_ns(event.duration_s)  # the clock was set back
        result = event.result
        more = say.of_permission(event.permission)
        if self._content:
            more["gen_ai.tool.call.result"] = say.result(result)
            if event.arguments is not None:
                more["gen_ai.tool.call.arguments"] = say.cut(say.json(event.arguments))
        failed = "" if result.ok else "_OTHER" if result.error is None else result.error.code or "_OTHER"
        return begun.span(end_ns, more, failed)

    def asks(self, event: PermissionRequested | ClarificationQuestion, turn: Turn | None, at_ns: int) -> None:
        """A question waits for a person."""
        if isinstance(event, PermissionRequested):
            asked = self._below(event, turn, "permission", event.tool, event.question_id, at_ns)
        else:
            asked = self._below(event, turn, "clarification", "", event.question_id, at_ns)
            call = self._running.get(event.call_id)
            if call is not None:
                asked.trace_id, asked.parent_id = call.trace_id, call.span_id
        asked.attributes["gen_ai.tool.call.id"] = event.call_id
        self._asking[event.question_id] = asked

    def answered(self, event: PermissionResolved | ClarificationResolved, end_ns: int) -> list[Span]:
        """A question is settled."""
        asked = self._asking.pop(event.question_id, None)
        more: dict[str, Any] = {}
        if isinstance(event, PermissionResolved):
            more = say.of_permission(event.permission)
            if asked is not None:
                self._answered[event.call_id] = (asked.turn_id, end_ns)
        return [asked.span(end_ns, more)] if asked is not None else []

    def task(self, event: BackgroundUpdated, turn: Turn | None, at_ns: int) -> list[Span]:
        """Something goes on in the background, or has ended there."""
        if event.status == "running":
            begun = self._below(event, turn, "background", event.tool, event.task_id, at_ns)
            call = self._running.get(event.call_id or "")
            if call is not None:
                begun.trace_id, begun.parent_id = call.trace_id, call.span_id
            begun.attributes |= {"jaato.task.id": event.task_id, "gen_ai.tool.call.id": event.call_id}
            self._tasks[event.task_id] = begun
            return []
        task = self._tasks.pop(event.task_id, None)
        if task is None:
            return []
        error = event.result.error if event.result is not None else None
        failed = event.status in ("failed", "interrupted")
        problem = (error.code if error is not None else event.status) if failed else ""
        return [task.span(at_ns, {"jaato.task.status": event.status}, problem)]

    def turn_over(self, turn_id: str, end_ns: int) -> list[Span]:
        """What the log does not end of a turn ends with it."""
        left = [
            known.pop(key)
            for known in (self._running, self._asking)
            for key in [key for key, one in known.items() if one.turn_id == turn_id]
        ]
        for call_id in [call_id for call_id, (its, _) in self._answered.items() if its == turn_id]:
            del self._answered[call_id]
        return [one.span(end_ns, {}, "interrupted") for one in left]

    def _below(self, event: Event, turn: Turn | None, kind: str, tool: str, key: str, start_ns: int) -> Open:
        """A piece of work in a turn; what no turn asked for has a trace of its own."""
        call = kind == "execute_tool"
        return Open(
            trace_id=turn.trace_id if turn is not None else trace_id(event.session_id, "apart", key),
            span_id=span_id(event.session_id, kind, key),
            parent_id=turn.span_id if turn is not None else "",
            name=f"{kind} {tool}".strip(),
            start_ns=start_ns,
            turn_id=turn.turn_id if turn is not None else "",
            attributes={
                "gen_ai.operation.name": kind if call else None,
                "gen_ai.tool.name": tool,
                "gen_ai.tool.call.id": key if call else None,
                "gen_ai.tool.type": "function" if call else None,
                "gen_ai.conversation.id": event.session_id,
            },
        )


def length_ns(seconds: float) -> int:
    """A duration in nanoseconds, of a day at most."""
    return int(max(0.0, min(seconds, 86_400.0)) * 1e9) if seconds == seconds else 0  # noqa: PLR0124 it is no number
