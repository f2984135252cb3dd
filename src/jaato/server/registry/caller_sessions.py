"""Sessions of callers: one for each key, whose calls take the pipeline; a session that has grown gives way, and old ones go."""

from __future__ import annotations

import asyncio
import datetime
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

import anyio
import anyio.to_thread

from jaato.abc.store import Store
from jaato.agent.session import Session
from jaato.errors import ConfigError, JaatoError, Overloaded, StoreError
from jaato.log import logger
from jaato.protocol.arp import Invocation
from jaato.protocol.codec import encode
from jaato.protocol.events import Event, ToolCallEnd, ToolCallStart
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Text, ToolCall
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.runtime import Plan, Runtime
from jaato.server.mcp.sessions import Visit
from jaato.server.registry.audit import audits
from jaato.server.registry.call_result import (
    NOT_BEGUN,
    UNKNOWN,
    Done,
    How,
    OutcomeUnknown,
    Read,
    Running,
    had_begun,
    value_of,
)
from jaato.server.registry.idempotency import Repeats
from jaato.server.tool_sessions import Door, Offer
from jaato.settings import Settings
from jaato.tools.call import Outcome
from jaato.tools.permissions.policy import Policy
from jaato.tools.pipeline import run
from jaato.tools.remote.refresh import INVOCATION
from jaato.tools.tool import Tool

LOG = logger("server.registry")
MAX_CALLS = 5_000
MAX_SIZE_BYTES = 16_000_000
CALL_BYTES = 600
"""What a call takes beside its arguments and its result."""


class Weight:
    """How much a session has of calls; nothing of it is measured while a call waits but the length of its arguments."""

    def __init__(self, session: Session) -> None:
        self.empty()
        session.journal.bus.listen(self.heard)

    def empty(self) -> None:
        """Begin to count."""
        self.calls = self.size_bytes = 0

    @property
    def full(self) -> bool:
        """Whether it is time for another."""
        return self.calls >= MAX_CALLS or self.size_bytes >= MAX_SIZE_BYTES

    def heard(self, event: Event) -> None:
        """An event of the session."""
        if type(event) is ToolCallEnd:
            self.calls += 1
            for one in event.result.content:
                if isinstance(one, Text):
                    self.size_bytes += len(one.text)
            if event.arguments is not None:
                self.size_bytes += CALL_BYTES + len(encode(event.arguments))
        elif type(event) is ToolCallStart:
            self.size_bytes += CALL_BYTES + len(encode(event.arguments))


@dataclass(frozen=True, slots=True)
class Kept:
    """How much of the log is kept; None: all of it."""

    days: float | None = None
    size_bytes: float | None = None


def kept_by(settings: Settings) -> Kept:
    """What the settings say. Raises `ConfigError` for what is no number from zero up."""
    for name in ("tool_registry_log_days", "tool_registry_log_mb"):
        if not 0 <= settings[name] < math.inf:
            raise ConfigError(f"{name} = {settings[name]}: take a number from zero up; 0 keeps all of it.")
    return Kept(settings["tool_registry_log_days"] or None, settings["tool_registry_log_mb"] * 1e6 or None)


def remove_old(store: Store, kept: Kept, sizes: dict[str, int], goes_on: Callable[[], bool]) -> int:
    """Remove the sessions of calls that are beyond what is kept, the oldest first to go; gives how many. Slow, so not for
    the loop. `sizes` remembers those of sessions that grow no more; it stops between two sessions when `goes_on` says no."""
    if (kept.days is None and kept.size_bytes is None) or store.read_only:
        return 0
    until = ""
    if kept.days is not None:
        days = min(kept.days, 36_500.0)
        until = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)).strftime(
            "%Y-%m-%dT%H:%M:%S"
        )
    total, removed, known = 0, 0, {}
    for row in list(audits(store)):
        if not goes_on():
            break
        at_work = store.holder(row.id) is not None
        if kept.size_bytes is not None:
            size = None if at_work else sizes.get(row.id)
            known[row.id] = size = store.size_bytes(row.id) if size is None else size
            total += size
        if at_work or not (
            row.updated_at < until or (kept.size_bytes is not None and total > kept.size_bytes)
        ):
            continue
        try:
            store.delete(row.id)
            removed += 1
        except JaatoError as error:
            LOG.info("The calls of session %s stay: %s", row.id, error)
    sizes.clear()
    sizes.update(known)
    return removed


LEFT_S = 0.05
FIRST_S = 60.0
REMOVE_S = 3_600.0
"""How often old calls are looked for; a session that grows full has it done too."""


class Rolling(Door):
    """Lets callers in, each of whose logs stays within bounds, and all of them together."""

    def __init__(self, runtime: Runtime, plan: Plan, offer: Offer, state_dir: Path) -> None:
        super().__init__(runtime, plan, offer, state_dir)
        self.kept = Kept()
        self._rolling: dict[str, asyncio.Task[None]] = {}
        self._sizes: dict[str, int] = {}
        self._look = asyncio.Event()
        self._removing = anyio.Lock()
        self._closing = False

    @property
    def store(self) -> Store:
        """Where the sessions of callers are."""
        return self._runtime.store

    def roll(self, key: str, full: Caller) -> None:
        """Begin another session for a caller whose has grown, once; nobody waits for it."""
        if key not in self._rolling:
            self._rolling[key] = rolling = asyncio.create_task(self._rolled(key, full))
            rolling.add_done_callback(lambda _over: self._rolling.pop(key, None))

    async def _rolled(self, key: str, full: Caller) -> None:
        """Take the new one; what is under way in that one ends there."""
        try:
            fresh = cast("Caller", await self._begun(full.client))
        except JaatoError as error:
            LOG.warning("The log of %s goes on in its session: %s", full.client, error)
            full.weight.empty()
            return
        if self.visiting(key) is not full:
            await self._close(fresh)  # it has left meanwhile
            return
        fresh.before, self._visits[key] = full, fresh
        while full.busy:  # noqa: ASYNC110 what goes on in the background tells nobody of its end
            await asyncio.sleep(LEFT_S)
        fresh.before = None
        await self._close(full)
        self._look.set()

    async def sweep(self) -> None:
        """Close, again and again, the sessions of those who have not called for long, and remove what is too old."""
        async with anyio.create_task_group() as group:
            group.start_soon(super().sweep)
            patience_s = FIRST_S
            while True:
                with anyio.move_on_after(patience_s):
                    await self._look.wait()
                patience_s = REMOVE_S
                self._look.clear()
                await self.remove_old()

    async def remove_old(self) -> None:
        """Remove the logs of calls that are beyond what is kept."""
        async with self._removing:
            try:
                await anyio.to_thread.run_sync(
                    remove_old, self.store, self.kept, self._sizes, lambda: not self._closing
                )
            except JaatoError as error:
                LOG.warning("The log of calls could not be looked after: %s", error)

    async def leave(self, key: str) -> None:
        """The caller has gone: its session is closed, and the one before it."""
        rolling = self._rolling.get(key)
        visit = cast("Caller | None", self.visiting(key))
        before = None if visit is None else visit.before
        await super().leave(key)
        with anyio.CancelScope(shield=True):
            if before is not None and rolling is not None:
                rolling.cancel()
            if rolling is not None:
                await asyncio.wait((rolling,))
            if before is not None:
                await self._close(before)

    async def close(self) -> None:
        """Close every session, then the plugins and the store, which another thread may still be looking after."""
        self._closing = True
        with anyio.CancelScope(shield=True):
            async with self._removing:
                pass
        await super().close()


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
