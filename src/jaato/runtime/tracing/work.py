"""Pieces of work that go on: what a span is made of when they end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jaato.protocol.events import MessageModel
from jaato.runtime.tracing.spans import INTERNAL, Span, Value, present


@dataclass(slots=True)
class Agent:
    """An agent, as spans name it."""

    name: str = "main"
    provider: str = ""
    model: str = ""
    parent_id: str | None = None


@dataclass(slots=True)
class Open:
    """A piece of work that goes on."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_ns: int
    turn_id: str
    attributes: dict[str, Any] = field(default_factory=dict)

    def span(self, end_ns: int | None, more: dict[str, Any], problem: str = "", kind: int = INTERNAL) -> Span:
        """The span it is, once it has ended."""
        end_ns = None if end_ns is None else max(end_ns, self.start_ns)
        found: dict[str, Value] = present({**self.attributes, **more})
        if problem:
            found["error.type"] = problem
        return Span(
            trace_id=self.trace_id,
            span_id=self.span_id,
            parent_id=self.parent_id,
            name=self.name,
            kind=kind,
            start_ns=self.start_ns,
            end_ns=end_ns,
            attributes=found,
            problem=problem,
        )


@dataclass(slots=True)
class Turn(Open):
    """A turn of an agent. `mark_ns` is since when the model may have been asked, `asked` whether it is what the turn
    waits for."""

    agent_id: str = ""
    mark_ns: int = 0
    asked: bool = True
    finish: str = ""
    partial: MessageModel | None = None
    pending: set[str] = field(default_factory=set)
