"""One server while it runs: the conversation with it, its calls and their deadlines. Lives on the pool's loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp.client.extension import ResultClaim
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError

from jaato.errors import JaatoError
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.deadline import Deadline, shown_progress
from jaato.plugins.mcp.elicit import CALLER, Caller
from jaato.plugins.mcp.faults import CallLost, ServerFault, ServerRefusal
from jaato.plugins.mcp.journal import ServerLog
from jaato.plugins.mcp.listener import Listener
from jaato.plugins.mcp.manifest import Manifest
from jaato.plugins.mcp.sayings import first_line, first_of, refusal, said_by
from jaato.plugins.mcp.session import CreatedTask, Session, is_modern, negotiate, open_session, resolved
from jaato.plugins.mcp.survey import survey
from jaato.plugins.mcp.tasks import finished
from jaato.plugins.mcp.transport import Transport

LISTEN_AGAIN_S = (1.0, 10.0, 60.0, 300.0, 3600.0)
"""How long after a lost subscription the next is asked for."""
R = TypeVar("R")
Asking = Callable[[Session, Deadline], Awaitable[R]]


class Connection:
    """The conversation with one server. `run` is its whole life; the other methods are called while it lasts."""

    def __init__(
        self,
        config: ServerConfig,
        transport: Transport,
        log: ServerLog,
        *,
        workspace: Path,
        handshake_first: bool,
        on_manifest: Callable[[Manifest], None],
    ) -> None:
        self.config = config
        self.log = log
        self.ready: asyncio.Future[Manifest] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()
        self._listener = Listener(config.name, workspace, log)
        self.timeouts = 0
        self._transport = transport
        self._handshake_first = handshake_first
        self._on_manifest = on_manifest
        self._stopping = asyncio.Event()
        self._session: Session | None = None
        self.why = ""
        self.fault: JaatoError | None = None  # what ended it, where that is an error of its own: a login, say

    # --- life --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start, serve until stopped or broken, end. Never raises; `why` says what went wrong."""
        try:
            await self._live()
        except asyncio.CancelledError:
            self.why = self.why or "It was stopped."
        except BaseExceptionGroup as group:
            self.why = self.why or said_by(first_of(group))
        except Exception as error:  # noqa: BLE001 what the SDK and its libraries raise is the server's end, not ours
            self.why = self.why or said_by(error)
        finally:
            self._session = None
            await self._end()

    async def _end(self) -> None:
        """Say why it is over to whoever waits."""
        fault: JaatoError
        try:
            ended = "" if self.stopped else await self._transport.how_it_ended()
        except JaatoError as error:
            self.why, fault = str(error), error
            self.fault = error
        else:
            parts = (ended or self.why, self.log.explained().strip())
            self.why = " ".join(part for part in parts if part)
            fault = ServerFault(f"The MCP server {self.config.name} did not start. {self.why}")
        if not self.ready.done():
            self.ready.set_exception(fault)
            self.ready.exception()
        self.over.set()

    async def _live(self) -> None:
        seconds = self.config.start_timeout_s
        with anyio.move_on_after(seconds) as starting:
            async with self._transport as (read, write), self._opened(read, write) as session:
                await negotiate(session, self._handshake_first)
                manifest = await survey(session, self.config.digest, self.log)
                self._on_manifest(manifest)
                self._session = session
                starting.deadline = math.inf
                self.ready.set_result(manifest)
                await self._serve(session)
        if starting.cancelled_caught:
            self.why = f"It did not answer within {seconds:g} s of its start (start_timeout_s)."

    def _opened(self, read: Any, write: Any) -> AbstractAsyncContextManager[Session]:
        claim = ResultClaim(result_type="task", model=CreatedTask, resolve=unresolved)
        callbacks = {
            "elicitation_callback": self._listener.elicit,
            "list_roots_callback": self._listener.roots,
            "logging_callback": self._listener.logged,
            "message_handler": self._listener.heard,
        }
        return open_session(read, write, callbacks, [claim])

    async def _serve(self, session: Session) -> None:
        """Until it is stopped; lists that changed are asked for again, not more often than makes sense."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._refreshing, session)
            tasks.start_soon(self._listening, session)
            tasks.start_soon(self._watching)
            await self._stopping.wait()
            tasks.cancel_scope.cancel()

    async def _watching(self) -> None:
        await self._transport.until_over()
        raise ServerFault("It closed the connection.")

    async def _refreshing(self, session: Session) -> None:
        while True:
            await self._listener.change()
            try:
                with anyio.fail_after(self.config.start_timeout_s):
                    self._on_manifest(await survey(session, self.config.digest, self.log))
            except (MCPError, TimeoutError) as error:
                self.log.note(f"did not list anew what it offers: {first_line(error)}")

    async def _listening(self, session: Session) -> None:
        """Hear of changed lists from a server that tells of them only to those who ask."""
        able = session.server_capabilities
        if able is None or not is_modern(session):
            return
        lists = [able.tools, able.prompts, able.resources]
        wanted = [bool(one and one.list_changed) for one in lists]
        for pause_s in LISTEN_AGAIN_S if any(wanted) else ():
            try:
                async with listen(
                    session,
                    tools_list_changed=wanted[0],
                    prompts_list_changed=wanted[1],
                    resources_list_changed=wanted[2],
                ) as events:
                    async for _ in events:
                        self._listener.changed.set()
            except (MCPError, SubscriptionLost, TimeoutError):
                pass  # told below, by asking again
            await anyio.sleep(pause_s)
            self._listener.changed.set()

    @property
    def stopped(self) -> bool:
        """Whether it was asked to end."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """End it; `over` says when that is done."""
        self._stopping.set()

    # --- what we ask ---------------------------------------------------------------------------------------------

    async def refresh(self) -> Manifest:
        """What the server offers now."""
        manifest = await self._asked(
            lambda session, _: survey(session, self.config.digest, self.log), None, "list"
        )
        self._on_manifest(manifest)
        return manifest

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller) -> types.CallToolResult:
        """Run a tool. Raises `ServerFault`, `ServerRefusal`."""

        async def ask(session: Session, deadline: Deadline) -> types.CallToolResult:
            show = shown_progress(caller, deadline)

            async def once(
                responses: Any, state: str | None
            ) -> types.CallToolResult | CreatedTask | types.InputRequiredResult:
                return await session.run_tool(name, arguments, show, responses, state)

            try:
                result: types.CallToolResult | CreatedTask = await resolved(session, once)
            except MCPError as error:
                if error.code != types.HEADER_MISMATCH:
                    raise
                self._on_manifest(await survey(session, self.config.digest, self.log))
                result = await resolved(session, once)
            if isinstance(result, CreatedTask):
                return await finished(session, result, show)
            return result

        return await self._asked(ask, caller, f"the tool {name}", CallLost)

    async def read(self, uri: str, caller: Caller) -> types.ReadResourceResult:
        """Read a resource. Raises as `call`."""

        async def ask(session: Session, _deadline: Deadline) -> types.ReadResourceResult:
            return await resolved(
                session,
                lambda responses, state: session.read_resource(
                    uri, input_responses=responses, request_state=state, allow_input_required=True
                ),
            )

        return await self._asked(ask, caller, f"the resource {uri[:200]}")

    async def prompt(self, name: str, arguments: dict[str, str], caller: Caller) -> types.GetPromptResult:
        """A prompt, filled in. Raises as `call`."""

        async def ask(session: Session, _deadline: Deadline) -> types.GetPromptResult:
            return await resolved(
                session,
                lambda responses, state: session.get_prompt(
                    name, arguments, input_responses=responses, request_state=state, allow_input_required=True
                ),
            )

        return await self._asked(ask, caller, f"the prompt {name}")

    async def complete(self, reference: dict[str, str], argument: dict[str, str]) -> list[str]:
        """What an argument of a prompt or of a template may be. Raises as `call`."""
        kind = types.PromptReference if "name" in reference else types.ResourceTemplateReference

        async def ask(session: Session, _deadline: Deadline) -> types.CompleteResult:
            return await session.complete(kind(**reference), argument)  # type: ignore[arg-type]

        return list((await self._asked(ask, None, "a completion")).completion.values[:100])

    async def _asked(
        self, ask: Asking[R], caller: Caller | None, what: str, lost: type[ServerFault] = ServerFault
    ) -> R:
        """The answer to a request, in its time; what goes wrong, as an error of ours: `lost` from when it may have been sent."""
        session = self._session
        if session is None:
            raise await self._gone(what)
        name = self.config.name
        deadline = Deadline(self.config.call_timeout_s)
        if caller is not None:
            caller.hold, caller.go_on = deadline.hold, deadline.go_on
            self._listener.callers.append(caller)
            CALLER.set(caller)
        try:
            with deadline.scope:
                result = await ask(session, deadline)
                self.timeouts = 0
                return result
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise await self._gone(what, error.message, lost) from None
            self.timeouts = 0
            if error.code == types.PARSE_ERROR:
                raise lost(f"The MCP server {name} failed at {what}: {refusal(error)}") from None
            raise ServerRefusal(f"The MCP server {name} refused {what}: {refusal(error)}") from None
        except JaatoError:
            raise
        except BaseExceptionGroup as group:
            raise lost(f"The MCP server {name} failed at {what}: {said_by(first_of(group))}") from None
        except (ValueError, RuntimeError) as error:
            said = f"answered {what} not as the protocol has it: {first_line(error)}"
            raise lost(f"The MCP server {name} {said}") from None
        finally:
            if caller is not None:
                self._listener.callers.remove(caller)
        self.timeouts += 1
        raise lost(
            f"The MCP server {name} did not answer {what} within {self.config.call_timeout_s:g} s "
            f"(call_timeout_s in its configuration); the call was given up.{self.log.explained()}"
        )

    async def _gone(self, what: str, said: str = "", lost: type[ServerFault] = ServerFault) -> JaatoError:
        """That the connection ended, with the reason as soon as it is known."""
        with anyio.move_on_after(3):
            await self.over.wait()
        if self.fault is not None:
            return self.fault
        told = (
            f"ended before it answered {what}; whether it did what was asked is not known. {self.why or said}"
        )
        return lost(f"The MCP server {self.config.name} {told} The next call starts it again.")


async def unresolved(_result: Any, _context: Any) -> types.CallToolResult:
    """Tasks are followed by the call itself."""
    raise ServerFault("The server made a task of a request that is not called as one.")
