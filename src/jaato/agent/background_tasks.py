"""Background tasks: tool calls that run beside the turn, from the start or after a threshold, until the session ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.abc
from msgspec import Struct

from jaato.abc.plugin import TaskStatus
from jaato.agent.inbox import Inbox
from jaato.agent.journal import Journal
from jaato.agent.results import OutputSink, Results, take_file_changes
from jaato.errors import JaatoError, StoreError, ToolTimeout
from jaato.log import logger
from jaato.protocol.events import BackgroundUpdated
from jaato.protocol.ids import new_id
from jaato.protocol.messages import ToolCall, ToolResult
from jaato.tools.call import Call, CallerKind, Outcome
from jaato.tools.pipeline import (
    Reraised,
    Steps,
    failure_outcome,
    make_interrupted_outcome,
    run,
    success_outcome,
)
from jaato.tools.task_records import BackgroundTask, TaskRecords, promise_result
from jaato.tools.tool import Tool

LOG = logger("group")


class BackgroundContext(Struct, frozen=True):
    """What background tasks use of their session."""

    journal: Journal
    inbox: Inbox
    group: BackgroundGroup
    tasks: TaskRecords
    results: Results
    steps: Steps
    new_call: Callable[[ToolCall, str, CallerKind], Call]
    execute: Callable[[Call, Tool], Awaitable[Any]]


class BackgroundTasks:
    """The background tasks of a session: they outlive the turn, not the session."""

    def __init__(self, context: BackgroundContext, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._journal = context.journal
        self._steps = context.steps
        self._loop = loop
        self._refused: list[tuple[BackgroundTask, Call, Outcome]] = []

    async def start(
        self, parent: Call, tool_name: str, arguments: dict[str, Any], timeout_s: float | None = None
    ) -> BackgroundTask:
        """Run another tool in the background from the start, through the whole pipeline."""
        call = self._context.new_call(
            ToolCall(new_id("c"), tool_name, arguments), parent.turn_id, "background"
        )
        scope = anyio.CancelScope()
        task = BackgroundTask(
            tool_name, "", lambda: self._loop.call_soon_threadsafe(scope.cancel), call_id=call.id
        )
        found = self._steps.find(tool_name)
        if found is not None:
            refusal = self._steps.refuse(found.tool, parent)
            if refusal is not None:
                raise refusal
            task.tool, task.plugin = found.tool.name, found.tool.plugin
        if isinstance(call.output, OutputSink):
            call.output.also = task.output.write

        async def body() -> None:
            outcome = make_interrupted_outcome(time.perf_counter())
            try:
                with scope, anyio.fail_after(timeout_s):
                    outcome = await run(call, self._steps)
            except TimeoutError:
                outcome = failure_outcome(
                    ToolTimeout(f"{tool_name} did not finish within {timeout_s:g} s and was stopped.")
                )
            finally:
                self._finish(task, call, outcome)

        self._context.tasks.add(task)
        self._journal.record(self._event(task))
        await self._context.group.start(body)
        return task

    async def run_movable(self, call: Call, tool: Tool, threshold_s: float) -> Any:
        """Run a call; after the threshold it becomes a background task, and the caller gets a promise of its result."""
        scope, over = anyio.CancelScope(), anyio.Event()
        task = BackgroundTask(
            tool.name, tool.plugin, lambda: self._loop.call_soon_threadsafe(scope.cancel), call_id=call.id
        )
        outcomes: list[Outcome] = []
        moved = False
        if isinstance(call.output, OutputSink):
            call.output.also = task.output.write

        async def body() -> None:
            begun = time.perf_counter()
            outcome = make_interrupted_outcome(begun)
            try:
                with scope:
                    outcome = await self._outcome(call, tool)
            finally:
                outcomes.append(outcome)
                over.set()
                if moved:
                    self._finish(task, call, outcome)

        await self._context.group.start(body)
        try:
            with anyio.move_on_after(threshold_s):
                await over.wait()
        except BaseException:
            scope.cancel()
            with anyio.CancelScope(shield=True):
                await over.wait()
            raise
        if not over.is_set():
            moved = True
            if isinstance(call.output, OutputSink):
                call.output.outlives = True
            self._context.tasks.add(task)
            self._journal.record(self._event(task))
            return promise_result(task.id, tool.plugin, call.asked_name, threshold_s)
        outcome = outcomes[0]
        if not outcome.ok:
            raise Reraised(outcome)
        return outcome.value

    async def _outcome(self, call: Call, tool: Tool) -> Outcome:
        try:
            return success_outcome(await self._context.execute(call, tool), None)
        except BaseException as error:
            if self._steps.interrupts(error):
                raise
            return failure_outcome(error)

    def _finish(self, task: BackgroundTask, call: Call, outcome: Outcome) -> None:
        stopped = outcome.problem is not None and outcome.problem.code == "cancelled"
        task.finish(outcome, TaskStatus.CANCELLED if stopped else None)
        if isinstance(call.output, OutputSink):
            call.output.outlives = False
            call.output.end()
        try:
            self._record(task, call, outcome)
        except StoreError:
            self._refused.append((task, call, outcome))
            raise

    def record_refused(self) -> None:
        """Record the ends of tasks that the store has refused. Raises `StoreError` when it still does."""
        while self._refused:
            self._record(*self._refused[0])
            del self._refused[0]

    def _record(self, task: BackgroundTask, call: Call, outcome: Outcome) -> None:
        """Record the end of a task in one commit with the message about it, and of its call if that is not recorded yet."""
        state, changed = self._journal.state, call.changed[:]
        try:
            self._journal.flush()  # the end of the call may wait for others
            if call.id in state.started and call.id not in state.open_calls:
                self._steps.record_end_now(call, outcome)
            self._context.inbox.notify(
                f"Background task {task.id} ({task.tool}): {task.status.value}. "
                f"get_background_output shows its result.",
                "system",
                *take_file_changes(self._journal, call),
                self._event(task, self._context.results.of(call, outcome)),
            )
        except StoreError:
            call.changed[:] = changed
            raise

    def _event(self, task: BackgroundTask, result: ToolResult | None = None) -> BackgroundUpdated:
        status: Any = task.status.value
        return BackgroundUpdated(
            **self._journal.head(),
            task_id=task.id,
            tool=task.tool,
            plugin=task.plugin,
            status=status,
            call_id=task.call_id,
            result=result,
        )


class BackgroundGroup:
    """Runs coroutines beside the caller until `close`, which cancels them and waits for their end."""

    def __init__(self) -> None:
        self._keeper: asyncio.Task[None] | None = None
        self._group: anyio.abc.TaskGroup | None = None
        self._opened: anyio.Event | None = None
        self._closing: anyio.Event | None = None
        self._closed = False

    async def start(self, body: Callable[[], Awaitable[None]]) -> None:
        """Start a coroutine. An exception in it is logged and does not affect the others. Raises `JaatoError` once closed."""
        if self._closed:
            raise JaatoError("The session is closed; nothing new begins in it.")
        if self._opened is None:
            self._opened, self._closing = anyio.Event(), anyio.Event()
            self._keeper = asyncio.create_task(
                self._keep(self._opened, self._closing), name="jaato-background"
            )
        await self._opened.wait()
        assert self._group is not None
        if self._closing is not None and self._closing.is_set():
            raise JaatoError("The session is closed; nothing new begins in it.")
        self._group.start_soon(self._run_contained, body)

    async def _keep(self, opened: anyio.Event, closing: anyio.Event) -> None:
        async with anyio.create_task_group() as group:
            self._group = group
            opened.set()
            await closing.wait()
            group.cancel_scope.cancel()

    async def _run_contained(self, body: Callable[[], Awaitable[None]]) -> None:
        try:
            await body()
        except Exception:
            LOG.exception("A background task failed")

    async def close(self) -> None:
        """Cancel everything and wait until it has ended; a second time does nothing."""
        self._closed = True
        if self._keeper is None or self._closing is None:
            return
        self._closing.set()
        await asyncio.wait([self._keeper])
