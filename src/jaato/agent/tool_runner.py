"""The pipeline as an agent runs it: on the loop, tools in tasks and worker threads, every step in the log."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from pathlib import Path
from traceback import format_exception
from types import CoroutineType
from typing import Any

import anyio
import anyio.lowlevel
from msgspec import Struct

from jaato.agent.active_tools import ActiveTools
from jaato.agent.background_tasks import BackgroundContext, BackgroundGroup, BackgroundTasks
from jaato.agent.inbox import Inbox
from jaato.agent.journal import Journal
from jaato.agent.results import OutputSink, Results, take_file_changes
from jaato.agent.tool_threads import ToolThreads
from jaato.errors import CancelledException, ToolDisabled, ToolError, ToolInactive, ToolTimeout
from jaato.log import logger
from jaato.protocol.events import Event, Permission, ToolCallEnd, ToolCallStart
from jaato.protocol.messages import ToolCall
from jaato.tools.call import CURRENT, Call, CallerKind, Outcome, problem_of, replace_surrogates, safe_text
from jaato.tools.catalog import Catalog, ToolMatch
from jaato.tools.permissions.gate import Decision, Gate, digest_of
from jaato.tools.pipeline import run
from jaato.tools.task_records import TaskRecords
from jaato.tools.tool import Tool

GRACE_S = 2.0
"""How long a cancelled coroutine may go on awaiting things outside a shield before it is closed."""
LOG = logger("tool")


def display_fields(metadata: dict[str, Any]) -> dict[str, Any]:
    """How clients display a call, from the metadata of its tool's result."""
    continuation = metadata.get("continuation_id")
    return {
        "continuation_id": None if continuation is None else replace_surrogates(safe_text(continuation, str)),
        "show_output": metadata.get("show_output") is not False,
        "show_popup": metadata.get("show_popup") is not False,
    }


def timeout_message(tool: Tool, limit_s: float) -> str:
    """The message for a call that exceeded its timeout."""
    end = "and was stopped" if tool.is_async else "and was told to stop; it may still be at work"
    return f"{tool.name} did not finish within {limit_s:g} s {end}."


def first_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure of a group, as a single call would have raised it."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def copy_arguments(value: Any) -> Any:
    """Deep-copy arguments, so that a tool that changes them changes neither the history nor an event."""
    match value:
        case dict():
            return {
                key: item if item.__class__ is str else copy_arguments(item) for key, item in value.items()
            }
        case list():
            return [copy_arguments(item) for item in value]
    return value


class EscapedError(ToolError):
    """An exception of a tool that would end more than its call, as an error of the tool."""

    def __init__(self, error: BaseException) -> None:
        self.problem = problem_of(error, "".join(format_exception(error, limit=-12)))
        super().__init__(self.problem.message)


def run_contained(tool: Tool, call: Call) -> Any:
    """Run a synchronous tool in a worker thread; what would end the thread is an error of the tool."""
    try:
        return tool.run(call.arguments, call)
    except Exception:
        raise
    except BaseException as error:
        raise EscapedError(error) from error


class CancellableCall:
    """Awaits a coroutine as `await` does. One that continues after its cancellation is closed at its deadline; inside a
    shield there is no deadline. Its own time limits, by which it cancels itself and continues, stay its own.

    A coroutine that resists even that is left where it is, and never resumed.
    """

    __slots__ = ("_name", "_runner", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], name: str, runner: asyncio.Task[Any] | None) -> None:
        self._work = work
        self._name = name
        self._runner = runner

    def __await__(self) -> Generator[Any, Any, Any]:
        work = self._work
        runner = self._runner
        before = runner.cancelling() if runner is not None else 0
        until: float | None = None
        step, thing = work.send, None
        while True:
            try:
                awaited = step(thing)
            except StopIteration as done:
                return done.value
            if runner is not None and runner.cancelling() <= before:
                until = None  # a scope of its own, which has ended
            try:
                thing = yield awaited
                step = work.send
            except GeneratorExit:
                work.close()
                raise
            except (
                asyncio.CancelledError
            ) as error:  # thrown in again and again, unless a shield keeps it away
                now = time.monotonic()
                until = now + GRACE_S if until is None else until
                if now > until:
                    self._close()
                    raise
                step, thing = work.throw, error
            except BaseException as error:  # noqa: BLE001 whatever is thrown in is the coroutine's to handle
                step, thing = work.throw, error

    def _close(self) -> None:
        LOG.warning("The tool %s did not heed its cancellation and was closed", self._name)
        try:
            self._work.close()
        except RuntimeError:
            pass  # it is still suspended and cannot be resumed


def make_cancellable(value: Any, name: str, runner: asyncio.Task[Any] | None) -> Awaitable[Any]:
    """An awaitable a tool gave, as one that a cancellation of the task ends that awaits it."""
    return CancellableCall(value, name, runner) if isinstance(value, CoroutineType) else value


MAX_CALLS_AT_ONCE = 8
ResumeCall = Callable[[ToolCall, ToolCallStart], Awaitable[bool]]
"""Ends a call that an earlier process has begun; False where it is to be made again, as its tool resumes where it was."""


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
        self._running: dict[str, Call] = {}
        """The calls whose tools run, by id."""
        self._slots = anyio.Semaphore(max(1, context.max_parallel_calls))
        self._loop = asyncio.get_running_loop()
        self._recorder: asyncio.Task[Any] | None = None
        """The task that has recorded a call alone in this iteration of the event loop."""
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
        asks = call.caller in ("model", "mcp") and not call.stands_for
        if asks and tool.name not in self._context.active_tools:
            return ToolInactive(
                f'{tool.name} is not active. Call get_tool_schemas with names ["{tool.name}"] first, then call it.'
            )
        return None

    def permit(self, call: Call, tool: Tool) -> Coroutine[Any, Any, Decision | None]:
        """The session's gate; a call that had begun has passed it."""
        return self._earlier_decision(call) if call.again else self._context.gate.check(call, tool)

    async def _earlier_decision(self, call: Call) -> Decision | None:
        begun = self._journal.state.started[call.id].permission
        return None if begun is None else Decision(allowed=True, permission=begun)

    async def record_start(self, call: Call, tool: Tool, permission: Permission | None) -> None:
        """Durable before the tool does anything."""
        journal = self._journal
        self._check_not_frozen()
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
        if not self._runs_alone(call):
            await journal.share(start)
            self._check_not_frozen()
        else:
            journal.record(start)

    def _check_not_frozen(self) -> None:
        if self._journal.frozen:
            raise CancelledException("The program ends; what has not begun begins in the next one.")

    def _runs_alone(self, call: Call) -> bool:
        """Whether no other call could share a commit with this one: none is running, and no other task has recorded one in
        this iteration of the event loop."""
        started = self._journal.state.started
        if self._journal.is_sharing or len(started) > (call.id in started):
            return False
        task = asyncio.current_task(self._loop)
        if self._recorder is None:
            self._recorder = task
            self._loop.call_soon(self._forget_recorder)
        return self._recorder is task

    def _forget_recorder(self) -> None:
        self._recorder = None

    def invoke(self, call: Call, tool: Tool) -> Coroutine[Any, Any, Any]:
        """Run the tool; a slow one that may go on in the background is moved there, unless who called waits for its end."""
        threshold_s = tool.background_after_s
        asked_for = call.arguments.get("background") is True
        if threshold_s is None or call.caller == "background" or (call.waits_for_end and not asked_for):
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

    async def record_end(self, call: Call, outcome: Outcome) -> None:
        """Record the end of a call durably before the model sees its result."""
        if self._runs_alone(call):
            self.record_end_now(call, outcome)
        else:
            await self._journal.share(*self._end_events(call, outcome))

    def record_end_now(self, call: Call, outcome: Outcome) -> None:
        """The same without waiting for others."""
        self._journal.record(*self._end_events(call, outcome))

    def _end_events(self, call: Call, outcome: Outcome) -> list[Event]:
        journal = self._journal
        result = self.results.of(call, outcome)
        metadata = outcome.metadata
        if isinstance(call.output, OutputSink):
            call.output.end()
        started = journal.state.started.get(call.id)
        events: list[Event] = []
        if call.changed:  # numbered in the order they are recorded
            events += take_file_changes(journal, call)
        end = ToolCallEnd(
            **journal.head(),
            call_id=call.id,
            tool=call.name,
            result=result,
            duration_s=int(outcome.duration_s * 1e6 + 0.5) / 1e6,
            permission=outcome.permission,
            **(display_fields(metadata) if metadata else {}),
            origin=None if started is not None else call.origin,
            edited=started.arguments if started is not None and call.edited else None,
        )
        events.append(end)
        return events

    def interrupts(self, error: BaseException) -> bool:
        """Cancellation ends more than the call."""
        return isinstance(error, (asyncio.CancelledError, GeneratorExit))

    def stop_call(self, call_id: str) -> bool:
        """Stop what a running call waits for; whether there is such a call."""
        call = self._running.get(call_id)
        if call is not None:
            call.token.cancel()
        return call is not None

    def close(self) -> None:
        """Flush held events and end the threads; there are no more calls."""
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
        call.arguments = copy_arguments(call.arguments)
        runner = asyncio.current_task(self._loop)
        before = CURRENT.set(call)
        self._running[call.id] = call
        try:
            if tool.is_async:
                return await make_cancellable(tool.run(call.arguments, call), tool.name, runner)
            value = await self.threads.run(lambda: run_contained(tool, call))
            return await make_cancellable(value, tool.name, runner) if inspect.isawaitable(value) else value
        except asyncio.CancelledError as error:
            if (
                runner is not None and not runner.cancelling()
            ):  # this call was not cancelled: an error of the tool
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
            self._running.pop(call.id, None)
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
            # a call that has not begun when the turn is stopped never begins
            await anyio.lowlevel.checkpoint_if_cancelled()
            await self._run(asked, turn_id, resume)

    async def _run(self, asked: ToolCall, turn_id: str, resume: ResumeCall | None) -> None:
        call = self.new_call(asked, turn_id)
        begun = self._journal.state.started.get(asked.call_id) if resume is not None else None
        if begun is not None and resume is not None:
            if await resume(asked, begun):
                return
            call.again, call.name, call.arguments = True, begun.tool, begun.arguments
            call.edited = begun.arguments != asked.arguments
        await run(call, self)

    def new_call(self, asked: ToolCall, turn_id: str, caller: CallerKind = "model") -> Call:
        """The `Call` that is passed to the tool."""
        state = self._journal.state
        return Call(
            id=asked.call_id,
            name=asked.name,
            arguments=asked.arguments,
            caller=caller,
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
