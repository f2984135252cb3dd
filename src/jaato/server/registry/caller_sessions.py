"""Sessions of callers: one for each key, in which its calls run; full sessions are replaced, and old ones are removed."""

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
from jaato.server.mcp.sessions import ToolSession
from jaato.server.registry.audit import audit_sessions
from jaato.server.registry.idempotency import IdempotencyStore
from jaato.server.registry.running_call import (
    NOT_BEGUN,
    UNKNOWN,
    CallOptions,
    CallOutcome,
    OutcomeUnknown,
    RunningCall,
    outcome_of,
)
from jaato.server.tool_sessions import Offer, ToolSessions
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
"""The size of a call beside its arguments and result."""


class SessionSize:
    """The number and estimated size of the calls of a session. While a call waits, only its arguments are encoded."""

    def __init__(self, session: Session) -> None:
        self.reset()
        session.journal.bus.listen(self.record)

    def reset(self) -> None:
        """Start counting again."""
        self.calls = self.size_bytes = 0

    @property
    def full(self) -> bool:
        """Whether the caller needs a new session."""
        return self.calls >= MAX_CALLS or self.size_bytes >= MAX_SIZE_BYTES

    def record(self, event: Event) -> None:
        """Count an event of the session."""
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
class LogRetention:
    """How much of the call log is kept; None: all of it."""

    days: float | None = None
    size_bytes: float | None = None


def log_retention_of(settings: Settings) -> LogRetention:
    """The retention of the settings. Raises `ConfigError` for a negative or infinite number."""
    for name in ("tool_registry_log_days", "tool_registry_log_mb"):
        if not 0 <= settings[name] < math.inf:
            raise ConfigError(f"{name} = {settings[name]}: take a number from zero up; 0 keeps all of it.")
    days, size_mb = settings["tool_registry_log_days"], settings["tool_registry_log_mb"]
    return LogRetention(days or None, size_mb * 1e6 or None)


def remove_old(
    store: Store, retention: LogRetention, sizes: dict[str, int], goes_on: Callable[[], bool]
) -> int:
    """Remove caller sessions beyond the retention, the oldest first; the number removed. Slow, so it runs in a thread.
    `sizes` caches the sizes of sessions that are not in use; `goes_on` is asked before each session."""
    if (retention.days is None and retention.size_bytes is None) or store.read_only:
        return 0
    until = ""
    if retention.days is not None:
        days = min(retention.days, 36_500.0)
        until = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)).strftime(
            "%Y-%m-%dT%H:%M:%S"
        )
    total, removed, known = 0, 0, {}
    for row in list(audit_sessions(store)):
        if not goes_on():
            break
        in_use = store.holder(row.id) is not None
        if retention.size_bytes is not None:
            size = None if in_use else sizes.get(row.id)
            known[row.id] = size = store.size_bytes(row.id) if size is None else size
            total += size
        too_old = row.updated_at < until or (
            retention.size_bytes is not None and total > retention.size_bytes
        )
        if in_use or not too_old:
            continue
        try:
            store.delete(row.id)
            removed += 1
        except JaatoError as error:
            LOG.info("The calls of session %s stay: %s", row.id, error)
    sizes.clear()
    sizes.update(known)
    return removed


MAX_CONCURRENT = 256
"""Running calls of one caller."""
STOP_WITHIN_S = 5.0
"""How long cancelled calls may take to end."""


class Caller(ToolSession):
    """The session of one caller, and its running calls."""

    def __init__(self, session: Session, client: str) -> None:
        self._running: dict[str, RunningCall] = {}
        self._loop = asyncio.get_running_loop()
        super().__init__(session, client)
        self.size = SessionSize(session)
        self.before: Caller | None = None
        """The session that this one replaced, while that still has running calls."""

    @property
    def busy(self) -> bool:
        """Whether a call is running, also in the background."""
        mine = bool(self._running) or bool(self.session.tasks.running()) or super().busy
        return mine or (self.before is not None and self.before.busy)

    async def call(
        self,
        tool: Tool,
        invocation: Invocation,
        origin: Mapping[str, str],
        within_s: float | None = None,
        options: CallOptions | None = None,
    ) -> CallOutcome:
        """Run a call of this very tool until its end is durable, for at most `within_s`.

        Raises `Overloaded` if too many are running, `OutcomeUnknown` if it may have been executed and its end could not be
        recorded, `TooLarge` for too large a result, `StoreError` if the log cannot be written and nothing was done.
        """
        if len(self._running) >= MAX_CONCURRENT:
            raise Overloaded(f"{MAX_CONCURRENT} calls of this caller are under way; try again later.")
        steps, id_ = self.session.tools, new_id("c")
        call = steps.new_call(ToolCall(id_, tool.name, invocation.args), "", "registry")
        call.origin = dict(origin)
        call.within_s = within_s
        call.waits_for_end = True
        call.services = {**call.services, INVOCATION: invocation}
        outcome: Outcome | None = None
        cancelled = False
        one = self._running[id_] = RunningCall(asyncio.current_task(self._loop), call)
        try:
            outcome = await (run(call, steps, tool) if options is None else self._run(options, one, tool))
        except asyncio.CancelledError:
            if not one.stopped or one.task is None or one.task.uncancel():
                raise
            cancelled = True
        except StoreError as error:
            if one.stopped and one.task is not None:
                one.task.uncancel()
            self._raise_unrecorded(error, id_, tool)
        finally:
            del self._running[id_]
        if one.end is None:
            if cancelled and id_ not in self.session.state.started:
                return CallOutcome(None, NOT_BEGUN, 0.0, begun=False)
            self._raise_unrecorded(StoreError("The end of the call could not be recorded."), id_, tool)
        text = outcome is not None and isinstance(outcome.value, str)
        if options is not None:
            options.listener.is_text = text
        return outcome_of(one.end, steps.results.read, text=text)

    async def _run(self, options: CallOptions, one: RunningCall, tool: Tool) -> Outcome:
        """Run a call with options: queued by its concurrency limit, claimed before it starts."""
        call = one.call
        one.listener = options.listener
        limits = (
            options.limits if options.limits is not None and options.limits.applies_to(tool.name) else None
        )
        if limits is not None:
            before = self._loop.time()
            await limits.acquire(tool.name, call.within_s)
            if call.within_s is not None:
                call.within_s = max(0.0, call.within_s - self._loop.time() + before)
        try:
            if options.claim is not None:
                options.claim(call.session_id, call.id, self.session.state.seq)
            return await run(call, self.session.tools, tool)
        finally:
            if limits is not None:
                limits.release(tool.name)

    def _raise_unrecorded(self, error: StoreError, id_: str, tool: Tool) -> NoReturn:
        """Raise `OutcomeUnknown` if the call may have had an effect, else the error of the store."""
        if id_ in self.session.state.started and tool.spec.access != "read":
            raise OutcomeUnknown(UNKNOWN) from error
        raise error

    def cancel(self, request_id: str) -> int:
        """Cancel the calls of a request; their number."""
        found = [
            one
            for one in self._running.values()
            if one.call.origin is not None and one.call.origin.get("request_id") == request_id
        ]
        for one in found:
            cancel_call(one)
        return len(found) + (0 if self.before is None else self.before.cancel(request_id))

    def stop(self) -> None:
        """Cancel all running calls; each has a response that says so."""
        for one in self._running.values():
            cancel_call(one)
        if self.before is not None:
            self.before.stop()

    async def wait_stopped(self) -> None:
        """Wait until no call is running, for a limited time."""
        own = asyncio.current_task()
        tasks = [one.task for one in self._running.values() if one.task is not None and one.task is not own]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_WITHIN_S)
        if self.before is not None:
            await self.before.wait_stopped()

    def on_event(self, event: Event) -> None:
        """Handle an event of the session, of calls over either protocol."""
        if self._calls:
            super().on_event(event)  # of calls over MCP
        one = self._running.get(getattr(event, "call_id", None) or "")
        if one is None:
            return  # most have been answered before
        if isinstance(event, ToolCallEnd):
            one.end = event
        if one.listener is not None:
            one.listener.record(event)


def cancel_call(one: RunningCall) -> None:
    """Cancel a running call, once."""
    if one.task is not None and not one.stopped:
        one.stopped = True
        one.task.cancel()


POLL_S = 0.05
FIRST_CLEANUP_S = 60.0
CLEANUP_EVERY_S = 3_600.0
"""The interval at which old sessions are removed; also done when a session is full."""


class Callers(ToolSessions):
    """The sessions of all callers: of each key, and one that callers without a key share."""

    name_prefix = "registry"
    client_prefix = "MCP client "
    session_type = Caller

    def __init__(self, runtime: Runtime, plan: Plan, offer: Offer, state_dir: Path) -> None:
        super().__init__(runtime, plan, offer, state_dir)
        self.idempotency = IdempotencyStore(state_dir, plan.workspace)
        self.retention = LogRetention()
        self._replacing: dict[str, asyncio.Task[None]] = {}
        self._sizes: dict[str, int] = {}
        self._cleanup_due = asyncio.Event()
        self._removing = anyio.Lock()
        self._closing = False

    @property
    def store(self) -> Store:
        """The store of the sessions."""
        return self._runtime.store

    @property
    def registry(self) -> PluginRegistry:
        """The plugins of all sessions."""
        return self._runtime.registry

    @property
    def policy(self) -> Policy:
        """The permission rules of all sessions."""
        return self._plan.policy

    @property
    def count(self) -> int:
        """The number of sessions."""
        return len(self._sessions)

    async def caller(self, key: str, name: str) -> Caller:
        """The session of the caller with this key, created if needed. Raises `ConfigError` if there are too many,
        `StoreError`."""
        known = self.get(key)
        caller = known if known is not None else await self.open_session(key, name)
        assert isinstance(caller, Caller)
        caller.last_used = time.monotonic()  # the loop's clock; to ask which loop it is costs more
        if caller.size.full and key not in self._replacing:
            self._replacing[key] = task = asyncio.create_task(self._replace(key, caller))
            task.add_done_callback(lambda _task: self._replacing.pop(key, None))
        return caller

    async def _replace(self, key: str, full: Caller) -> None:
        """Start a new session in place of a full one, which is closed once its running calls have ended."""
        try:
            fresh = cast("Caller", await self._create(full.client))
        except JaatoError as error:
            LOG.warning("The log of %s continues in its session: %s", full.client, error)
            full.size.reset()
            return
        if self.get(key) is not full:
            await self._close(fresh)  # the caller has left meanwhile
            return
        fresh.before, self._sessions[key] = full, fresh
        while full.busy:  # noqa: ASYNC110 calls in the background report no end
            await asyncio.sleep(POLL_S)
        fresh.before = None
        await self._close(full)
        self._cleanup_due.set()

    async def sweep(self) -> None:
        """Close idle sessions and remove old ones, periodically."""
        async with anyio.create_task_group() as group:
            group.start_soon(super().sweep)
            interval_s = FIRST_CLEANUP_S
            while True:
                with anyio.move_on_after(interval_s):
                    await self._cleanup_due.wait()
                interval_s = CLEANUP_EVERY_S
                self._cleanup_due.clear()
                await self.remove_old()

    async def remove_old(self) -> None:
        """Remove the sessions beyond the retention."""
        async with self._removing:
            try:
                await anyio.to_thread.run_sync(
                    remove_old, self.store, self.retention, self._sizes, lambda: not self._closing
                )
            except JaatoError as error:
                LOG.warning("Old sessions of the call log could not be removed: %s", error)

    def stop(self) -> None:
        """Cancel the calls of all callers."""
        for caller in self._sessions.values():
            if isinstance(caller, Caller):
                caller.stop()

    async def leave(self, key: str) -> None:
        """Cancel the calls of a caller and close its session, and the one that this replaced."""
        caller = self.get(key)
        if not isinstance(caller, Caller):
            await super().leave(key)
            return
        caller.stop()
        await caller.wait_stopped()
        replacing, before = self._replacing.get(key), caller.before
        await super().leave(key)
        with anyio.CancelScope(shield=True):
            if replacing is not None:
                if before is not None:
                    replacing.cancel()
                await asyncio.wait((replacing,))
            if before is not None:
                await self._close(before)

    async def close(self) -> None:
        """Close all sessions, then the plugins, the store (which a cleanup may still be using) and the idempotency keys."""
        self._closing = True
        try:
            with anyio.CancelScope(shield=True):
                async with self._removing:
                    pass
            await super().close()
        finally:
            self.idempotency.close()
