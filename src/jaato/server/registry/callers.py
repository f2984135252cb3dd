"""Who calls: a session for each key, whose calls take the pipeline and are answered when their result is in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from jaato.agent.session import Session
from jaato.errors import Overloaded, StoreError
from jaato.protocol.arp import Invocation
from jaato.protocol.events import Event, ToolCallEnd
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Problem, Text, ToolCall, ToolResult
from jaato.server.mcp.door import Door
from jaato.server.mcp.visit import Visit
from jaato.tools.pipeline import run
from jaato.tools.tool import Tool

MAX_AT_ONCE = 256
"""Calls of one caller that may be under way."""
MAX_RESULT_BYTES = 8_000_000
INVOCATION = "invocation"
"""The service by which a tool finds the `context` and `trace` it was called with."""


class Done(NamedTuple):
    """How a call ended: its value, or the problem; in milliseconds."""

    value: Any
    problem: Problem | None
    latency_ms: float


class Caller(Visit):
    """One caller's session, and the calls it has under way."""

    def __init__(self, session: Session, client: str) -> None:
        self._results: dict[str, ToolResult | None] = {}
        self._running: dict[str, asyncio.Task[Any] | None] = {}
        super().__init__(session, client)

    @property
    def busy(self) -> bool:
        """Whether a call is under way."""
        return bool(self._running)

    async def call(self, tool: Tool, invocation: Invocation, origin: Mapping[str, str]) -> Done:
        """Run a call of this very tool to its end, which is durable then.

        Raises `Overloaded` when too many are under way, `StoreError` when the log cannot be kept.
        """
        if len(self._running) >= MAX_AT_ONCE:
            raise Overloaded(f"{MAX_AT_ONCE} calls of this caller are under way; try again later.")
        asked = ToolCall(new_id("c"), tool.name, invocation.args)
        steps = self.session.steps
        call = steps.call(asked, "", "registry")
        call.origin = dict(origin)
        call.services = {**call.services, INVOCATION: invocation}
        self._results[asked.call_id] = None
        self._running[asked.call_id] = asyncio.current_task()
        try:
            outcome = await run(call, steps, tool)
            if len(self._running) == 1:
                self.session.journal.flush()  # nobody is there to share the commit with
            elif self._results[asked.call_id] is None:
                await asyncio.sleep(0)  # what is held is committed before it is our turn again
            result = self._results[asked.call_id]
        finally:
            del self._results[asked.call_id], self._running[asked.call_id]
        if result is None:
            self.session.journal.flush()  # raises why
            raise StoreError("The result of the call could not be recorded; look before it is repeated.")
        value = None if result.error is not None else self._value(result, text=isinstance(outcome.value, str))
        return Done(value, result.error, round(outcome.duration_s * 1e3, 3))

    def _value(self, result: ToolResult, *, text: bool) -> Any:
        """What a call gave, whole: its data, else its text. Raises `StoreError` for one that is too large to be sent."""
        if result.structured is not None:
            return result.structured
        texts = [part.text for part in result.content if isinstance(part, Text)]
        if not texts:
            return [msgspec.to_builtins(part) for part in result.content] or None
        if result.handle is None:
            return "\n".join(texts)
        data = self.session.steps.results.read(result.handle, 0, MAX_RESULT_BYTES + 1)
        if len(data) > MAX_RESULT_BYTES:
            raise StoreError(f"The result has more than {MAX_RESULT_BYTES:,} bytes; ask for less at once.")
        try:
            return data.decode() if text else msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return data.decode("utf-8", "replace")

    def stop(self) -> None:
        """Cancel every call that is under way."""
        for task in list(self._running.values()):
            if task is not None:
                task.cancel()

    def _heard(self, event: Event) -> None:
        if isinstance(event, ToolCallEnd) and event.call_id in self._results:
            self._results[event.call_id] = event.result


class Callers(Door):
    """Lets callers in: the sessions of those with a key of their own, and the one that all others share."""

    called = "registry"
    visits = Caller

    @property
    def count(self) -> int:
        """How many callers have a session now."""
        return len(self._visits)

    async def caller(self, key: str, name: str) -> Caller:
        """The caller with this key. Raises `ConfigError` when there are too many, `StoreError`."""
        known = self.visiting(key)
        visit = known if known is not None else await self.visit(key, name)
        assert isinstance(visit, Caller)
        visit.last_used = asyncio.get_running_loop().time()
        return visit

    async def leave(self, key: str) -> None:
        """The caller has gone: its calls are stopped and its session is closed."""
        visit = self.visiting(key)
        if isinstance(visit, Caller):
            visit.stop()
        await super().leave(key)
