"""The pipeline as a session runs it: on the loop, tools in tasks and worker threads, every step in the log."""

from __future__ import annotations

import asyncio
import inspect
from traceback import format_exception
from typing import TYPE_CHECKING, Any

import anyio

from jaato.agent.background import Background
from jaato.agent.heed import heeding
from jaato.agent.output import OutputSink
from jaato.agent.results import Results
from jaato.agent.touched import files_changed
from jaato.agent.workers import Workers
from jaato.errors import CancelledException, ToolDisabled, ToolError, ToolInactive, ToolTimeout
from jaato.protocol.events import Permission, ToolCallEnd, ToolCallStart
from jaato.protocol.messages import ToolCall
from jaato.tools.call import CURRENT, Call, Door, Outcome, clean, problem_of, text_of
from jaato.tools.catalog import Found
from jaato.tools.permissions import Decision, digest_of
from jaato.tools.pipeline import run
from jaato.tools.tool import Tool

if TYPE_CHECKING:
    from jaato.agent.session import Session

MAX_CALLS_AT_ONCE = 8


class SessionSteps:
    """What the pipeline does in a session."""

    def __init__(self, session: Session, parallel: int = MAX_CALLS_AT_ONCE) -> None:
        self._session = session
        self.results = Results(session.journal)
        self.workers = Workers(MAX_CALLS_AT_ONCE)
        self._reading: set[str] = set()
        """The calls of other programs that have begun and can have no effect."""
        self._slots = anyio.Semaphore(max(1, parallel))
        self._loop = asyncio.get_running_loop()
        self.background = Background(session, self, self._loop)

    # --- the steps ---------------------------------------------------------------------------------------------

    def find(self, name: str) -> Found | None:
        """The runtime's catalogue."""
        return self._session.catalog.find(name)

    def refuse(self, tool: Tool, call: Call) -> ToolError | None:
        """A disabled tool, or one the model (ours or a client's) has not activated."""
        if call.again:
            return None
        if tool.name in self._session.state.disabled:
            return ToolDisabled(f"{tool.name} is switched off in this session; do without it.")
        asks = call.door in ("model", "mcp") and not call.stands_for
        if asks and not self._session.is_active(tool):
            return ToolInactive(
                f'{tool.name} is not active. Call get_tool_schemas with names ["{tool.name}"] first, then call it.'
            )
        return None

    async def permit(self, call: Call, tool: Tool) -> Decision | None:
        """The session's gate; a call that had begun has passed it."""
        if call.again:
            begun = self._session.state.started[call.id].permission
            return None if begun is None else Decision(allowed=True, permission=begun)
        return await self._session.gate.check(call, tool)

    def started(self, call: Call, tool: Tool, permission: Permission | None) -> None:
        """Durable before the tool does anything."""
        journal = self._session.journal
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
        call.begun = True
        if call.door == "registry" and tool.spec.access == "read":
            journal.hold(start, hurried=False)  # what only reads has no effect that it must come before
            self._reading.add(call.id)
        else:
            journal.record(start)

    async def invoke(self, call: Call, tool: Tool) -> Any:
        """Run the tool; a slow one that may go on in the background is moved there, unless who called waits for its end."""
        threshold_s = tool.background_after_s
        asked_for = call.arguments.get("background") is True
        if threshold_s is None or call.door == "background" or (call.door == "registry" and not asked_for):
            bounded = tool.timeout_s is not None or call.within_s is not None
            return await (self.run_tool if bounded else self._run_plain)(call, tool)
        if asked_for:
            threshold_s = 0.0
        return await self.background.run_movable(call, tool, threshold_s)

    async def enrich(self, call: Call, tool: Tool, outcome: Outcome) -> Outcome:
        """What plugins add to the result of a call that succeeded."""
        if outcome.ok and self._session.enrich_result is not None:
            outcome.value = await self._session.enrich_result(call, outcome.value)
        return outcome

    def ended(self, call: Call, outcome: Outcome) -> None:
        """Durable before the model sees it."""
        journal = self._session.journal
        result = self.results.of(call, outcome)
        metadata = outcome.metadata
        continuation = metadata.get("continuation_id")
        if isinstance(call.output, OutputSink):
            call.output.end()
        told = files_changed(journal, call) if call.changed else []  # numbered in the order they are recorded
        end = ToolCallEnd(
            **journal.head(),
            call_id=call.id,
            tool=call.name,
            result=result,
            duration_s=round(outcome.duration_s, 6),
            permission=outcome.permission,
            continuation_id=None if continuation is None else clean(text_of(continuation, str)),
            show_output=metadata.get("show_output") is not False,
            show_popup=metadata.get("show_popup") is not False,
            origin=None if call.begun else call.origin,
        )
        if call.door == "registry":
            for change in told:
                journal.hold(change)
            read = call.id in self._reading
            self._reading.discard(call.id)
            journal.hold(end, hurried=not (read and outcome.ok) or bool(told))  # else answered when durable
        else:
            journal.record(*told, end)

    def interrupts(self, error: BaseException) -> bool:
        """Cancellation ends more than the call."""
        return isinstance(error, (asyncio.CancelledError, GeneratorExit))

    def close(self) -> None:
        """There are no more calls: what is held of the last ones is written, and the threads end."""
        self._session.journal.let_go()
        self.workers.close()

    # --- running -----------------------------------------------------------------------------------------------

    async def run_tool(self, call: Call, tool: Tool) -> Any:
        """The value of a tool, within its time; raises what it raised."""
        limit_s = tool.timeout_s
        if call.within_s is not None:
            limit_s = call.within_s if limit_s is None else min(limit_s, call.within_s)
        if limit_s is None:
            return await self._run_plain(call, tool)
        with anyio.move_on_after(limit_s) as scope:
            return await self._run_plain(call, tool)
        if scope.cancelled_caught:
            raise ToolTimeout(took_too_long(tool, limit_s))
        return None

    async def _run_plain(self, call: Call, tool: Tool) -> Any:
        call.arguments = own(call.arguments)
        runner = current_task()
        before = CURRENT.set(call)
        try:
            if tool.is_async:
                return await heeding(tool.run(call.arguments, call), tool.name)
            value = await self.workers.run(lambda: contained(tool, call))
            return await heeding(value, tool.name) if inspect.isawaitable(value) else value
        except asyncio.CancelledError as error:
            if (
                runner is not None and not runner.cancelling()
            ):  # nobody cancelled this call: the tool's own fault
                raise Ending(error) from error
            call.token.cancel()
            if call.overdue_s is not None and runner is not None and not runner.uncancel():
                raise ToolTimeout(took_too_long(tool, call.overdue_s)) from None
            raise
        except GeneratorExit as error:
            if current_task() is runner:  # the coroutine is not being thrown away: the tool's own fault
                raise ToolError(f"{tool.name} raised GeneratorExit.") from error
            raise
        finally:
            CURRENT.reset(before)

    # --- doors -------------------------------------------------------------------------------------------------

    async def run_all(self, calls: list[ToolCall], turn_id: str, *, again: bool = False) -> None:
        """Run the calls of one reply, up to eight at once; their results join the conversation in call order. With
        `again` an earlier process may have begun some of them."""
        if self._session.reply.stopped:
            raise CancelledException("Stopped before the calls began.")
        if len(calls) == 1:
            await self._run(calls[0], turn_id, again=again)
            return
        try:
            async with anyio.create_task_group() as group:
                for asked in calls:
                    group.start_soon(self._run_slotted, asked, turn_id, again)
        except BaseExceptionGroup as failures:
            raise first_of(failures) from failures

    async def _run_slotted(self, asked: ToolCall, turn_id: str, again: bool) -> None:
        async with self._slots:
            await self._run(asked, turn_id, again=again)

    async def _run(self, asked: ToolCall, turn_id: str, *, again: bool) -> None:
        begun = self._session.state.started.get(asked.call_id) if again else None
        call = self.call(asked, turn_id)
        if begun is not None:
            from jaato.agent.suspension import learn, resumes

            if not resumes(self._session, begun.tool):
                return await learn(self._session, asked)
            call.again, call.name, call.arguments = True, begun.tool, begun.arguments
        await run(call, self)
        return None

    def call(self, asked: ToolCall, turn_id: str, door: Door = "model") -> Call:
        """What the tools are told about a call."""
        session = self._session
        state = session.state
        return Call(
            id=asked.call_id,
            name=asked.name,
            arguments=asked.arguments,
            door=door,
            session_id=state.session_id,
            agent_id=state.agent_id,
            turn_id=turn_id,
            output=OutputSink(session.journal, asked.call_id, self._loop),
            keep=self.results.keep,
            read_handle=self.results.read,
            services=session.services,
            malformed=asked.malformed,
            workspace=session.workspace,
        )


def took_too_long(tool: Tool, limit_s: float) -> str:
    """What is said of a call that was stopped for that."""
    end = "and was stopped" if tool.is_async else "and was told to stop; it may still be at work"
    return f"{tool.name} did not finish within {limit_s:g} s {end}."


def current_task() -> asyncio.Task[Any] | None:
    """The task that runs now; None outside a loop, where coroutines are thrown away."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def first_of(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure of a group, as a single call would have raised it."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def own(value: Any) -> Any:
    """Arguments as the tool's own: what it changes in them is changed neither in the history nor in an event."""
    match value:
        case dict():
            return {key: item if item.__class__ is str else own(item) for key, item in value.items()}
        case list():
            return [own(item) for item in value]
    return value


class Ending(ToolError):
    """What a tool raised that would end more than its call; its words are no more ours than those of any exception."""

    def __init__(self, error: BaseException) -> None:
        self.problem = problem_of(error, "".join(format_exception(error, limit=-12)))
        super().__init__(self.problem.message)


def contained(tool: Tool, call: Call) -> Any:
    """Run a synchronous tool in a worker thread; what would end the thread is an error of the tool."""
    try:
        return tool.run(call.arguments, call)
    except Exception:
        raise
    except BaseException as error:
        raise Ending(error) from error
