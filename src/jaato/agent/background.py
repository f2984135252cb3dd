"""Calls that go on beside the turn: moved there when slow, or begun there."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import anyio

from jaato.abc.background import TaskStatus
from jaato.agent.output import OutputSink
from jaato.agent.touched import files_changed
from jaato.errors import StoreError, ToolTimeout
from jaato.protocol.events import BackgroundUpdated
from jaato.protocol.ids import new_id
from jaato.protocol.messages import ToolCall, ToolResult
from jaato.tools.background import Task, promise
from jaato.tools.call import Call, Outcome
from jaato.tools.pipeline import Reraised, failed, interrupted, run, succeeded
from jaato.tools.tool import Tool

if TYPE_CHECKING:
    from jaato.agent.calls import SessionSteps
    from jaato.agent.session import Session


class Background:
    """The background tasks of a session: they outlive the turn, not the session."""

    def __init__(self, session: Session, steps: SessionSteps, loop: asyncio.AbstractEventLoop) -> None:
        self._session = session
        self._steps = steps
        self._loop = loop
        self._refused: list[tuple[Task, Call, Outcome]] = []

    async def start(
        self, parent: Call, tool_name: str, arguments: dict[str, Any], timeout_s: float | None = None
    ) -> Task:
        """Run another tool in the background from the start, through the whole pipeline."""
        call = self._steps.call(ToolCall(new_id("c"), tool_name, arguments), parent.turn_id, "background")
        scope = anyio.CancelScope()
        task = Task(tool_name, "", lambda: self._loop.call_soon_threadsafe(scope.cancel), call_id=call.id)
        found = self._steps.find(tool_name)
        if found is not None:
            refusal = self._steps.refuse(found.tool, parent)
            if refusal is not None:
                raise refusal
            task.tool, task.plugin = found.tool.name, found.tool.plugin
        if isinstance(call.output, OutputSink):
            call.output.also = task.output.write

        async def body() -> None:
            outcome = interrupted(time.perf_counter())
            try:
                with scope, anyio.fail_after(timeout_s):
                    outcome = await run(call, self._steps)
            except TimeoutError:
                outcome = failed(
                    ToolTimeout(f"{tool_name} did not finish within {timeout_s:g} s and was stopped.")
                )
            finally:
                self._finish(task, call, outcome)

        self._session.tasks.add(task)
        self._session.journal.record(self._event(task))
        await self._session.background(body)
        return task

    async def run_movable(self, call: Call, tool: Tool, threshold_s: float) -> Any:
        """Run in the session's background group; after the threshold the caller goes on with a promise."""
        scope, over = anyio.CancelScope(), anyio.Event()
        task = Task(
            tool.name, tool.plugin, lambda: self._loop.call_soon_threadsafe(scope.cancel), call_id=call.id
        )
        outcomes: list[Outcome] = []
        moved = False
        if isinstance(call.output, OutputSink):
            call.output.also = task.output.write

        async def body() -> None:
            begun = time.perf_counter()
            outcome = interrupted(begun)
            try:
                with scope:
                    outcome = await self._outcome(call, tool)
            finally:
                outcomes.append(outcome)
                over.set()
                if moved:
                    self._finish(task, call, outcome)

        await self._session.background(body)
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
            self._session.tasks.add(task)
            self._session.journal.record(self._event(task))
            return promise(task.id, tool.plugin, tool.name, threshold_s)
        outcome = outcomes[0]
        if not outcome.ok:
            raise Reraised(outcome)
        return outcome.value

    async def _outcome(self, call: Call, tool: Tool) -> Outcome:
        try:
            return succeeded(await self._steps.run_tool(call, tool), None)
        except BaseException as error:
            if self._steps.interrupts(error):
                raise
            return failed(error)

    def _finish(self, task: Task, call: Call, outcome: Outcome) -> None:
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

    def make_good(self) -> None:
        """Record the ends of tasks that the store has refused. Raises `StoreError` when it still does."""
        while self._refused:
            self._record(*self._refused[0])
            del self._refused[0]

    def _record(self, task: Task, call: Call, outcome: Outcome) -> None:
        """The end of a task, in one commit with the message about it; and of its call, if nobody could record that."""
        state, changed = self._session.state, call.changed[:]
        try:
            if call.id in state.started and call.id not in state.open_calls:
                self._steps.ended(call, outcome)
            self._session.notice(
                f"Background task {task.id} ({task.tool}): {task.status.value}. "
                f"get_background_output shows its result.",
                "system",
                *files_changed(self._session.journal, call),
                self._event(task, self._steps.results.of(call, outcome)),
            )
        except StoreError:
            call.changed[:] = changed
            raise

    def _event(self, task: Task, result: ToolResult | None = None) -> BackgroundUpdated:
        status: Any = task.status.value
        return BackgroundUpdated(
            **self._session.journal.head(),
            task_id=task.id,
            tool=task.tool,
            plugin=task.plugin,
            status=status,
            call_id=task.call_id,
            result=result,
        )
