"""One step that calls a tool: described, asked for its arguments, called; once more where they were refused."""

from __future__ import annotations

from typing import Any

from jaato.errors import PermissionDenied, ToolError
from jaato.protocol.messages import Problem, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.runtime.flow import words
from jaato.runtime.flow.parts import Hands, Notes, Tools
from jaato.runtime.flow.records import Planned, StepStatus
from jaato.runtime.flow.words import Ask, Exchange, Told
from jaato.tools.call import problem_of

ATTEMPTS = 2
INVALID, MISTAKEN = "arguments_invalid", "tool_mistaken"
REFUSED = frozenset((INVALID, MISTAKEN, "tool.invalid_args", "request.invalid_shape"))
"""What a call fails with whose arguments are wrong, as we found or as its registry did."""


class Calling:
    """One such step."""

    def __init__(self, notes: Notes, tools: Tools, hands: Hands, step_id: str, planned: Planned) -> None:
        self._notes = notes
        self._tools = tools
        self._hands = hands
        self._step_id = step_id
        self._planned = planned
        self._arguments: dict[str, Any] = {}
        self._known: tuple[str, dict[str, Any]] | None = None

    async def run(self, prompt: str) -> Told:
        """The step to its end: what it gave, or why it gave nothing. Raises what the model fails with."""
        ask = Ask(self._step_id, 0, words.CALLER, prompt)
        result: ToolResult | None = None
        for attempt in range(1, ATTEMPTS + 1):
            try:
                tool = await self._described()
            except ToolError as error:
                return self._ended(None, problem_of(error))
            ask = ask._replace(attempt=attempt, tool=tool)
            exchange = await self._attempt(ask, tool)
            if not isinstance(exchange.told, str):
                result = exchange.told
                if result.error is None or result.error.code not in REFUSED:
                    return self._ended(result, result.error)
            ask = ask._replace(before=(exchange,))
        told = exchange.told
        return self._ended(
            result, Problem(code="no_call", message=told) if isinstance(told, str) else told.error
        )

    async def _described(self) -> ToolSpec:
        """The tool as it is now; noted where it is another than it was."""
        tool = await self._tools.described(self._planned.tool)
        known = (tool.description, tool.parameters)
        if known != self._known:
            self._known = known
            self._notes.describe(self._step_id, tool)
        return tool

    async def _attempt(self, ask: Ask, tool: ToolSpec) -> Exchange:
        """What the model says, and what came of it."""
        said = await self._notes.ask(self._hands, ask)
        if said.call is None:
            return Exchange(said, words.no_call(tool.name, "it names no arguments"))
        self._arguments, result = await self._notes.call(self._hands, ask, tool, said.call)
        return Exchange(said, result)

    def _ended(self, result: ToolResult | None, problem: Problem | None) -> Told:
        status: StepStatus = "ok"
        if problem is not None:
            status = "denied" if problem.code == PermissionDenied.code else "failed"
        self._notes.end(self._step_id, status, problem)
        return Told(self._step_id, self._planned, self._arguments, result, problem)
