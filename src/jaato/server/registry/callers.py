"""Who calls: a session for each key, whose calls take the pipeline and are answered when their result is in the log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from jaato.agent.session import Session
from jaato.errors import Overloaded, StoreError
from jaato.protocol.arp import Invocation
from jaato.protocol.events import Event, ToolCallEnd
from jaato.protocol.ids import new_id
from jaato.protocol.messages import ToolCall
from jaato.runtime.registry import PluginRegistry
from jaato.runtime.runtime import Plan, Runtime
from jaato.server.mcp.offer import Offer
from jaato.server.mcp.visit import Visit
from jaato.server.registry.course import (
    NOT_BEGUN,
    UNKNOWN,
    Done,
    How,
    OutcomeUnknown,
    Running,
    had_begun,
)
from jaato.server.registry.keeping import Weight
from jaato.server.registry.repeats import Repeats
from jaato.server.registry.rolling import Rolling
from jaato.server.registry.values import Read, value_of
from jaato.tools.call import Outcome
from jaato.tools.others import INVOCATION
from jaato.tools.pipeline import run
from jaato.tools.policy import Policy
from jaato.tools.tool import Tool

MAX_AT_ONCE = 256
"""Calls of one caller that may be under way."""
ENDING_S = 5.0
"""How long calls may take to end that were told to."""


class Caller(Visit):
    """One caller's session, and the calls it has under way."""

    def __init__(self, session: Session, client: str) -> None:
        self._running: dict[str, Running] = {}
        self._loop = asyncio.get_running_loop()
        super().__init__(session, client)
        self.weight = Weight(session)
        self.before: Caller | None = None
        """The one whose place it took, while that still has calls under way."""

    @property
    def busy(self) -> bool:
        """Whether a call is under way, or goes on in the background."""
        mine = bool(self._running) or bool(self.session.tasks.running()) or super().busy
        return mine or (self.before is not None and self.before.busy)

    async def call(
        self,
        tool: Tool,
        invocation: Invocation,
        origin: Mapping[str, str],
        within_s: float | None = None,
        how: How | None = None,
    ) -> Done:
        """Run a call of this very tool to its end, which is durable then; for `within_s` at most.

        Raises `Overloaded` when too many are under way, `OutcomeUnknown` when it may have been carried out and its end could
        not be recorded, `TooLarge` for a result that is, `StoreError` when the log cannot be kept and nothing was done.
        """
        if len(self._running) >= MAX_AT_ONCE:
            raise Overloaded(f"{MAX_AT_ONCE} calls of this caller are under way; try again later.")
        steps, id_ = self.session.tools, new_id("c")
        call = steps.new_call(ToolCall(id_, tool.name, invocation.args), "", "registry")
        call.origin = dict(origin)
        call.within_s = within_s
        call.waits_for_end = True
        call.services = {**call.services, INVOCATION: invocation}
        outcome: Outcome | None = None
        stopped = False
        one = self._running[id_] = Running(asyncio.current_task(self._loop), call)
        try:
            outcome = await (run(call, steps, tool) if how is None else self._as(how, one, tool))
        except asyncio.CancelledError:
            if not one.stopped or one.task is None or one.task.uncancel():
                raise
            stopped = True
        except StoreError as error:
            if one.stopped and one.task is not None:
                one.task.uncancel()
            self._refused(error, id_, tool)
        finally:
            del self._running[id_]
        if one.end is None:
            return self._unended(id_, tool, stopped=stopped)
        text = outcome is not None and isinstance(outcome.value, str)
        if how is not None:
            how.heard.text = text
        return done_by(one.end, steps.results.read, text=text)

    async def _as(self, how: How, one: Running, tool: Tool) -> Outcome:
        """Run it so."""
        call = one.call
        one.heard = how.heard
        places = how.places if how.places is not None and how.places.counted(tool.name) else None
        if places is not None:
            before = self._loop.time()
            await places.take(tool.name, call.within_s)
            if call.within_s is not None:
                call.within_s = max(0.0, call.within_s - self._loop.time() + before)
        try:
            if how.claim is not None:
                how.claim(call.session_id, call.id, self.session.state.seq)
            return await run(call, self.session.tools, tool)
        finally:
            if places is not None:
                places.give_back(tool.name)

    def _refused(self, error: StoreError, id_: str, tool: Tool) -> NoReturn:
        """The log has not taken something: what is said depends on whether the tool was run."""
        if id_ in self.session.state.started and tool.spec.access != "read":
            raise OutcomeUnknown(UNKNOWN) from error
        raise error

    def _unended(self, id_: str, tool: Tool, *, stopped: bool) -> Done:
        """How a call ended of which the log has no end."""
        if stopped and id_ not in self.session.state.started:
            return Done(None, NOT_BEGUN, 0.0, begun=False)
        return self._refused(StoreError("The end of the call could not be recorded."), id_, tool)

    def cancel(self, request_id: str) -> int:
        """Cancel the calls of a request; gives how many there are."""
        asked = {id_: one.call.origin or {} for id_, one in self._running.items()}
        found = [id_ for id_, origin in asked.items() if origin.get("request_id") == request_id]
        for id_ in found:
            self._stop(id_)
        return len(found) + (0 if self.before is None else self.before.cancel(request_id))

    def stop(self) -> None:
        """Cancel every call that is under way; each is answered so."""
        for id_ in list(self._running):
            self._stop(id_)
        if self.before is not None:
            self.before.stop()

    def _stop(self, id_: str) -> None:
        one = self._running[id_]
        if one.task is not None and not one.stopped:
            one.stopped = True
            one.task.cancel()

    async def ended(self) -> None:
        """Wait until no call is under way, if that does not take long."""
        mine = asyncio.current_task()
        tasks = [one.task for one in self._running.values() if one.task is not None and one.task is not mine]
        if tasks:
            await asyncio.wait(tasks, timeout=ENDING_S)
        if self.before is not None:
            await self.before.ended()

    def _heard(self, event: Event) -> None:
        if self._calls:
            super()._heard(event)  # of calls over MCP
        one = self._running.get(getattr(event, "call_id", None) or "")
        if one is None:
            return  # most have been answered before
        if isinstance(event, ToolCallEnd):
            one.end = event
        if one.heard is not None:
            one.heard.hear(event)


def done_by(end: ToolCallEnd, read: Read, *, text: bool) -> Done:
    """How a call ended that ended so; see `value_of`. Raises `TooLarge`, `StoreError`."""
    problem = end.result.error
    value = None if problem is not None else value_of(end.result, read, text=text)
    return Done(value, problem, int(end.duration_s * 1e6 + 0.5) / 1e3, had_begun(end))


class Callers(Rolling):
    """Lets callers in: the sessions of those with a key of their own, and the one that all others share."""

    called = "registry"
    stranger = "MCP client "
    visits = Caller

    def __init__(self, runtime: Runtime, plan: Plan, offer: Offer, state_dir: Path) -> None:
        super().__init__(runtime, plan, offer, state_dir)
        self.repeats = Repeats(state_dir, plan.workspace)

    @property
    def registry(self) -> PluginRegistry:
        """The plugins of all callers."""
        return self._runtime.registry

    @property
    def policy(self) -> Policy:
        """The rules all callers work under."""
        return self._plan.policy

    @property
    def count(self) -> int:
        """How many callers have a session now."""
        return len(self._visits)

    async def caller(self, key: str, name: str) -> Caller:
        """The caller with this key. Raises `ConfigError` when there are too many, `StoreError`."""
        known = self.visiting(key)
        visit = known if known is not None else await self.visit(key, name)
        assert isinstance(visit, Caller)
        visit.last_used = time.monotonic()  # the loop's clock; to ask which loop it is costs more
        if visit.weight.full:
            self.roll(key, visit)
        return visit

    def stop(self) -> None:
        """Cancel every call of everybody."""
        for visit in self._visits.values():
            if isinstance(visit, Caller):
                visit.stop()

    async def leave(self, key: str) -> None:
        """The caller has gone: its calls are stopped and its session is closed."""
        visit = self.visiting(key)
        if isinstance(visit, Caller):
            visit.stop()
            await visit.ended()
        await super().leave(key)

    async def close(self) -> None:
        """Close every visit, then the plugins, the store and the memory of what was done."""
        try:
            await super().close()
        finally:
            self.repeats.close()
