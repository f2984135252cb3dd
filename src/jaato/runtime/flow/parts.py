"""What a flow is made of beside its course: where tools come from, who thinks and acts, and the notes that are taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from jaato.protocol.messages import Problem, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.runtime.flow.records import (
    AnyRecord,
    Called,
    Described,
    Kind,
    Offered,
    Planned,
    Replied,
    StepBegun,
    StepEnded,
    StepStatus,
)
from jaato.runtime.flow.words import Ask, Said


class Performed(NamedTuple):
    """A call as it was made, and what came of it."""

    arguments: dict[str, Any]
    result: ToolResult


class Tools(Protocol):
    """Where tools come from."""

    async def offered(self, instruction: str) -> Offered:
        """The tools there are, the likeliest first where there are many; never raises."""
        ...

    async def described(self, name: str) -> ToolSpec:
        """A tool, whole. Raises `ToolError`."""
        ...


class Hands(Protocol):
    """Who thinks and acts. What they raise ends the flow."""

    async def ask(self, ask: Ask) -> Said:
        """What the model replies."""
        ...

    async def call(self, step_id: str, tool: ToolSpec, asked: ToolCall) -> Performed:
        """Call a tool, if its arguments are valid and it is permitted; a failure is a result."""
        ...


class Notes:
    """Takes down what happens in a flow, with the times it took."""

    def __init__(self, note: Callable[[AnyRecord], object]) -> None:
        self.note = note
        self._began: dict[str, float] = {}

    async def ask(self, hands: Hands, ask: Ask) -> Said:
        """Ask the model."""
        begun = time.perf_counter()
        said = await hands.ask(ask)
        self.note(
            Replied(
                step_id=ask.step_id,
                attempt=ask.attempt,
                asked=ask.digest,
                text=said.text,
                call=said.call,
                finish_reason=said.finish_reason,
                usage=said.usage,
                cost_usd=said.cost_usd,
                duration_s=since(begun),
            )
        )
        return said

    async def call(self, hands: Hands, ask: Ask, tool: ToolSpec, asked: ToolCall) -> Performed:
        """Call a tool."""
        begun = time.perf_counter()
        done = await hands.call(ask.step_id, tool, asked)
        self.note(
            Called(
                step_id=ask.step_id,
                attempt=ask.attempt,
                arguments=done.arguments,
                result=done.result,
                duration_s=since(begun),
            )
        )
        return done

    def describe(self, step_id: str, tool: ToolSpec) -> None:
        """A tool was described."""
        self.note(Described(step_id=step_id, description=tool.description, parameters=tool.parameters))

    def begin(self, step_id: str, kind: Kind, planned: Planned | None = None, registry: str = "") -> None:
        """A step begins."""
        self._began[step_id] = time.perf_counter()
        tool, purpose = (planned.tool, planned.purpose) if planned is not None else ("", "")
        self.note(StepBegun(step_id=step_id, kind=kind, tool=tool, registry=registry, purpose=purpose))

    def end(self, step_id: str, status: StepStatus, problem: Problem | None = None) -> None:
        """A step has ended."""
        spent_s = since(self._began[step_id])
        self.note(StepEnded(step_id=step_id, status=status, error=problem, duration_s=spent_s))


def since(begun: float) -> float:
    """The seconds since a moment of the performance counter."""
    return round(time.perf_counter() - begun, 6)
