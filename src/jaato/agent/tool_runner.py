"""The pipeline as an agent runs it: on the loop, tools in tasks and worker threads, every step in the log."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct

from jaato.agent.active_tools import ActiveTools
from jaato.agent.background import BackgroundContext, BackgroundGroup, BackgroundTasks
from jaato.agent.inbox import Inbox
from jaato.agent.journal import Journal
from jaato.agent.results import OutputSink, Results, files_changed
from jaato.agent.tool_execution import (
    EscapedError,
    cancellable,
    copied,
    display_fields,
    first_failure,
    run_contained,
    timeout_message,
)
from jaato.agent.tool_threads import ToolThreads
from jaato.errors import CancelledException, ToolDisabled, ToolError, ToolInactive, ToolTimeout
from jaato.protocol.events import Permission, ToolCallEnd, ToolCallStart
from jaato.protocol.messages import ToolCall
from jaato.tools.background import TaskRecords
from jaato.tools.call import CURRENT, Call, Door, Outcome
from jaato.tools.catalog import Catalog, ToolMatch
from jaato.tools.permissions.gate import Decision, Gate, digest_of
from jaato.tools.pipeline import run
from jaato.tools.tool import Tool

MAX_CALLS_AT_ONCE = 8
ResumeCall = Callable[[ToolCall, ToolCallStart], Awaitable[bool]]
"""Ends a call that an earlier process has begun; False where it is to be made again, as its tool goes on where it was."""


class ToolContext(Struct, frozen=True):
    """What running tools uses of its session; `services` are what calls find there."""

    journal: Journal
    catalog: Catalog
    active_tools: ActiveTools
    gate: Gate
    inbox: Inbox
    group: BackgroundGroup
    tasks: TaskRecords
    workspace: Path
    services: dict[str, Any]
    enrich_result: Callable[[Call, Any], Awaitable[Any]] | None = None
    max_parallel_calls: int = MAX_CALLS_AT_ONCE


class ToolRunner:
    """Runs the calls of one agent: the `Steps` of its pipeline, and the doors to it. Made on the loop."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._journal = context.journal
        self.results = Results(context.journal)
        self.threads = ToolThreads(MAX_CALLS_AT_ONCE)
        self._slots = anyio.Semaphore(max(1, context.max_parallel_calls))
        self._loop = asyncio.get_running_loop()
        self.background = BackgroundTasks(
            BackgroundContext(
                journal=context.journal,
                inbox=context.inbox,
                group=context.group,
                tasks=context.tasks,
                results=self.results,
                steps=self,
                new_call=self.new_call,
                execute=self.execute,
            ),
            self._loop,
        )

    # --- the steps ---------------------------------------------------------------------------------------------

    def find(self, name: str) -> ToolMatch | None:
        """The runtime's catalogue."""
        return self._context.catalog.find(name)

    def refuse(self, tool: Tool, call: Call) -> ToolError | None:
        """A disabled tool, or one the model (ours or a client's) has not activated."""
        if call.again:
            return None
        if tool.name in self._journal.state.disabled:
            return ToolDisabled(f"{tool.name} is switched off in this session; do without it.")
        asks = call.door in ("model", "mcp") and not call.stands_for
        if asks and tool.name not in self._context.active_tools:
            return ToolInactive(
                f'{tool.name} is not active. Call get_tool_schemas with names ["{tool.name}"] first, then call it.'
            )
        return None

    def permit(self, call: Call, tool: Tool) -> Coroutine[Any, Any, Decision | None]:
        """The session's gate; a call that had begun has passed it."""
        return self._permitted(call) if call.again else self._context.gate.check(call, tool)

    async def _permitted(self, call: Call) -> Decision | None:
        begun = self._journal.state.started[call.id].permission
        return None if begun is None else Decision(allowed=True, permission=begun)

    def started(self, call: Call, tool: Tool, permission: Permission | None) -> None:
        """Durable before the tool does anything."""
        journal = self._journal
        if journal.frozen:
            raise CancelledException("The program ends; what has not begun begins in the next one.")
        if call.again:
            return
        start = ToolCallStart(
            **journal.head(),
            call_id=call.id,
            tool=call.name,
            arguments=call.arguments,
            turn_id=call.turn_id or None,
            permission=permission,
            digest=digest_of(call) if tool.spec.access != "read" else None,
            origin=call.origin,
        )
        journal.record(start)

    def invoke(self, call: Call, tool: Tool) -> Coroutine[Any, Any, Any]:
        """Run the tool; a slow one that may go on in the background is moved there, unless who called waits for its end."""
        threshold_s = tool.background_after_s
        asked_for = call.arguments.get("background") is True
        if threshold_s is None or call.door == "background" or (call.waits_for_end and not asked_for):
            bounded = tool.timeout_s is not None or call.within_s is not None
            return (self.execute if bounded else self._run_plain)(call, tool)
        if asked_for:
            threshold_s = 0.0
        return self.background.run_movable(call, tool, threshold_s)

    async def enrich(self, call: Call, tool: Tool, outcome: Outcome) -> Outcome:
        """What plugins add to the result of a call that succeeded."""
        if outcome.ok and self._context.enrich_result is not None:
            outcome.value = await self._context.enrich_result(call, outcome.value)
        return outcome

    def ended(self, call: Call, outcome: Outcome) -> None:
        """Durable before the model sees it."""
        journal = self._journal
        result = self.results.of(call, outcome)
        metadata = outcome.metadata
        if isinstance(call.output, OutputSink):
            call.output.end()
        told = files_changed(journal, call) if call.changed else []  # numbered in the order they are recorded
        end = ToolCallEnd(
            **journal.head(),
            call_id=call.id,
            tool=call.name,
            result=result,
            duration_s=int(outcome.duration_s * 1e6 + 0.5) / 1e6,
            permission=outcome.permission,
            **(display_fields(metadata) if metadata else {}),
            origin=None if call.id in journal.state.started else call.origin,
        )
        journal.record(*told, end)

    def interrupts(self, error: BaseException) -> bool:
        """Cancellation ends more than the call."""
        return isinstance(error, (asyncio.CancelledError, GeneratorExit))

    def close(self) -> None:
        """There are no more calls: what is held of the last ones is written, and the threads end."""
        self._journal.let_go()
        self.threads.close()

    # --- running -----------------------------------------------------------------------------------------------

    async def execute(self, call: Call, tool: Tool) -> Any:
        """The value of a tool, within its time; raises what it raised."""
        limit_s = tool.timeout_s
        if call.within_s is not None:
            limit_s = call.within_s if limit_s is None else min(limit_s, call.within_s)
        if limit_s is None:
            return await self._run_plain(call, tool)
        with anyio.move_on_after(limit_s) as scope:
            return await self._run_plain(call, tool)
        if scope.cancelled_caught:
            raise ToolTimeout(timeout_message(tool, limit_s))
        return None

    async def _run_plain(self, call: Call, tool: Tool) -> Any:
        call.arguments = copied(call.arguments)
        runner = asyncio.current_task(self._loop)
        before = CURRENT.set(call)
        try:
            if tool.is_async:
                return await cancellable(tool.run(call.arguments, call), tool.name, runner)
            value = await self.threads.run(lambda: run_contained(tool, call))
            return await cancellable(value, tool.name, runner) if inspect.isawaitable(value) else value
        except asyncio.CancelledError as error:
            if (
                runner is not None and not runner.cancelling()
            ):  # nobody cancelled this call: the tool's own fault
                raise EscapedError(error) from error
            call.token.cancel()
            raise
        except GeneratorExit as error:
            if (
                asyncio.current_task(self._loop) is runner
            ):  # the coroutine is not being thrown away: the tool's own fault
                raise ToolError(f"{tool.name} raised GeneratorExit.") from error
            raise
        finally:
            CURRENT.reset(before)

    # --- doors -------------------------------------------------------------------------------------------------

    async def run_calls(
        self, calls: Sequence[ToolCall], turn_id: str, resume: ResumeCall | None = None
    ) -> None:
        """Run the calls of one reply, up to eight at once; their results join the conversation in call order. `resume`
        ends those that an earlier process has begun."""
        if len(calls) == 1:
            await self._run(calls[0], turn_id, resume)
            return
        try:
            async with anyio.create_task_group() as group:
                for asked in calls:
                    group.start_soon(self._run_slotted, asked, turn_id, resume)
        except BaseExceptionGroup as failures:
            raise first_failure(failures) from failures

    async def _run_slotted(self, asked: ToolCall, turn_id: str, resume: ResumeCall | None) -> None:
        async with self._slots:
            await self._run(asked, turn_id, resume)

    async def _run(self, asked: ToolCall, turn_id: str, resume: ResumeCall | None) -> None:
        call = self.new_call(asked, turn_id)
        begun = self._journal.state.started.get(asked.call_id) if resume is not None else None
        if begun is not None and resume is not None:
            if await resume(asked, begun):
                return
            call.again, call.name, call.arguments = True, begun.tool, begun.arguments
        await run(call, self)

    def new_call(self, asked: ToolCall, turn_id: str, door: Door = "model") -> Call:
        """What the tools are told about a call."""
        state = self._journal.state
        return Call(
            id=asked.call_id,
            name=asked.name,
            arguments=asked.arguments,
            door=door,
            session_id=state.session_id,
            agent_id=state.agent_id,
            turn_id=turn_id,
            output=OutputSink(self._journal, asked.call_id, self._loop),
            keep=self.results.keep,
            read_handle=self.results.read,
            services=self._context.services,
            malformed=asked.malformed,
            workspace=self._context.workspace,
        )
