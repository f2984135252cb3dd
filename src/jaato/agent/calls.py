"""The pipeline as a session runs it: on the loop, tools in tasks and worker threads, every step in the log."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import anyio

from jaato.agent.background import Background
from jaato.agent.contained import Ending, contained, first_of, own, shown_as, took_too_long
from jaato.agent.heed import heeding
from jaato.agent.output import OutputSink
from jaato.agent.results import Results
from jaato.agent.touched import files_changed
from jaato.agent.workers import Workers
from jaato.errors import CancelledException, ToolDisabled, ToolError, ToolInactive, ToolTimeout
from jaato.protocol.events import Permission, ToolCallEnd, ToolCallStart
from jaato.protocol.messages import ToolCall
from jaato.tools.call import CURRENT, Call, Door, Outcome
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

    def permit(self, call: Call, tool: Tool) -> Coroutine[Any, Any, Decision | None]:
        """The session's gate; a call that had begun has passed it."""
        return self._permitted(call) if call.again else self._session.gate.check(call, tool)

    async def _permitted(self, call: Call) -> Decision | None:
        begun = self._session.state.started[call.id].permission
        return None if begun is None else Decision(allowed=True, permission=begun)

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
        journal.record(start)

    def invoke(self, call: Call, tool: Tool) -> Coroutine[Any, Any, Any]:
        """Run the tool; a slow one that may go on in the background is moved there, unless who called waits for its end."""
        threshold_s = tool.background_after_s
        asked_for = call.arguments.get("background") is True
        if threshold_s is None or call.door == "background" or (call.waits_for_end and not asked_for):
            bounded = tool.timeout_s is not None or call.within_s is not None
            return (self.run_tool if bounded else self._run_plain)(call, tool)
        if asked_for:
            threshold_s = 0.0
        return self.background.run_movable(call, tool, threshold_s)

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
            **(shown_as(metadata) if metadata else {}),
            origin=None if call.id in self._session.state.started else call.origin,
        )
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
        runner = asyncio.current_task(self._loop)
        before = CURRENT.set(call)
        try:
            if tool.is_async:
                return await heeding(tool.run(call.arguments, call), tool.name, runner)
            value = await self.workers.run(lambda: contained(tool, call))
            return await heeding(value, tool.name, runner) if inspect.isawaitable(value) else value
        except asyncio.CancelledError as error:
            if (
                runner is not None and not runner.cancelling()
            ):  # nobody cancelled this call: the tool's own fault
                raise Ending(error) from error
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
