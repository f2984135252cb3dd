"""One server while it runs: the conversation with it, its calls and their deadlines. Lives on the pool's loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import mcp_types as types
from mcp.client.extension import ResultClaim
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError

from jaato.errors import JaatoError
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.elicit import CALLER, Caller, elicited
from jaato.plugins.mcp.faults import ServerFault, ServerRefusal
from jaato.plugins.mcp.journal import ServerLog
from jaato.plugins.mcp.manifest import Manifest
from jaato.plugins.mcp.session import CreatedTask, Session, is_modern, negotiate, open_session, resolved
from jaato.plugins.mcp.survey import first_line, survey
from jaato.plugins.mcp.tasks import finished

MOST_TIMES = 12
"""How many times its deadline a call may take that goes on showing progress."""
REFRESH_AFTER_S = 0.3
LISTEN_AGAIN_S = (1.0, 10.0, 60.0, 300.0, 3600.0)
"""How long after a lost subscription the next is asked for."""
PROGRESS_EVERY_S = 0.1
R = TypeVar("R")


class Transport(Protocol):
    """A way to a server."""

    async def __aenter__(self) -> tuple[Any, Any]: ...

    async def __aexit__(self, *error: Any) -> None: ...

    async def until_over(self) -> None:
        """Until the server says no more."""
        ...

    @property
    def broke_at_once(self) -> bool:
        """Whether beginning in the older way makes sense, since the newer one failed."""
        ...

    async def how_it_ended(self, within_s: float = 1.0) -> str:
        """How the connection came to its end, as a sentence."""
        ...


class Deadline:
    """The time a call has: progress gives it more, a question to the user stops it, nothing makes it endless."""

    def __init__(self, seconds: float) -> None:
        self.scope = anyio.CancelScope()
        self._seconds = seconds
        self._held = 0
        self._last = anyio.current_time() + seconds * MOST_TIMES
        self.more()

    def more(self) -> None:
        """The server has shown that it is at work."""
        if not self._held:
            self.scope.deadline = min(anyio.current_time() + self._seconds, self._last)

    def hold(self) -> None:
        """The user is asked; that time is not the server's."""
        self._held += 1
        self._left = self._last - anyio.current_time()
        self.scope.deadline = math.inf

    def go_on(self) -> None:
        """The user has answered."""
        self._held -= 1
        if not self._held:
            self._last = anyio.current_time() + max(self._left, self._seconds)
            self.more()


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
        self.callers: list[Caller] = []
        self.timeouts = 0
        self._transport = transport
        self._workspace = workspace
        self._handshake_first = handshake_first
        self._on_manifest = on_manifest
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._session: Session | None = None
        self.why = ""

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
            "elicitation_callback": self._elicit,
            "list_roots_callback": self._roots,
            "logging_callback": self._logged,
            "message_handler": self._heard,
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
            await self._changed.wait()
            await anyio.sleep(REFRESH_AFTER_S)
            self._changed.clear()
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
                        self._changed.set()
            except (MCPError, SubscriptionLost, TimeoutError):
                pass  # told below, by asking again
            await anyio.sleep(pause_s)
            self._changed.set()

    @property
    def stopped(self) -> bool:
        """Whether it was asked to end."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """End it; `over` says when that is done."""
        self._stopping.set()

    # --- what the server asks and tells -------------------------------------------------------------------------

    async def _elicit(self, _context: Any, params: Any) -> types.ElicitResult:
        caller = CALLER.get() or self._only_caller()
        if caller is None:
            self.log.note("asked the user outside of any call, which was not passed on")
            return types.ElicitResult(action="cancel")
        action, content = await elicited(self.config.name, caller, params)
        return types.ElicitResult(action=action, content=content)  # type: ignore[arg-type]

    def _only_caller(self) -> Caller | None:
        """Whose call a question belongs to that does not say so: clear only when one session calls."""
        sessions = {caller.call.session_id for caller in self.callers}
        return self.callers[-1] if len(sessions) == 1 else None

    async def _roots(self, _context: Any) -> types.ListRootsResult:
        root = types.Root(uri=self._workspace.as_uri(), name=self._workspace.name)  # type: ignore[arg-type]
        return types.ListRootsResult(roots=[root])

    async def _logged(self, params: types.LoggingMessageNotificationParams) -> None:
        self.log.write(f"[{params.level}] {str(params.data)[:2000]}\n")

    async def _heard(self, message: Any) -> None:
        match message:
            case (
                types.ToolListChangedNotification()
                | types.PromptListChangedNotification()
                | types.ResourceListChangedNotification()
            ):
                self._changed.set()
            case Exception():
                self.log.note(f"sent something that cannot be read: {first_line(message)}")

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

            async def once(responses: Any, state: str | None) -> Any:
                return await session.call_tool(
                    name,
                    arguments,
                    progress_callback=show,
                    input_responses=responses,
                    request_state=state,
                    allow_input_required=True,
                    allow_claimed=True,
                )

            try:
                result = await resolved(session, once)
            except MCPError as error:
                if error.code != types.HEADER_MISMATCH:
                    raise
                self._on_manifest(await survey(session, self.config.digest, self.log))
                result = await resolved(session, once)
            if isinstance(result, CreatedTask):
                return await finished(session, result, show)
            return result

        return await self._asked(ask, caller, f"the tool {name}")

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
        self, ask: Callable[[Session, Deadline], Awaitable[R]], caller: Caller | None, what: str
    ) -> R:
        """The answer to a request, in its time; what goes wrong, as an error of ours."""
        session = self._session
        if session is None:
            raise await self._gone(what)
        name = self.config.name
        deadline = Deadline(self.config.call_timeout_s)
        if caller is not None:
            caller.hold, caller.go_on = deadline.hold, deadline.go_on
            self.callers.append(caller)
            CALLER.set(caller)
        try:
            with deadline.scope:
                result = await ask(session, deadline)
                self.timeouts = 0
                return result
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise await self._gone(what, error.message) from None
            self.timeouts = 0
            if error.code == types.PARSE_ERROR:
                raise ServerFault(f"The MCP server {name} failed at {what}: {refusal(error)}") from None
            raise ServerRefusal(f"The MCP server {name} refused {what}: {refusal(error)}") from None
        except JaatoError:
            raise
        except BaseExceptionGroup as group:
            raise ServerFault(f"The MCP server {name} failed at {what}: {said_by(first_of(group))}") from None
        except (ValueError, RuntimeError) as error:
            raise ServerFault(
                f"The MCP server {name} answered {what} not as the protocol has it: {first_line(error)}"
            ) from None
        finally:
            if caller is not None:
                self.callers.remove(caller)
        self.timeouts += 1
        raise ServerFault(
            f"The MCP server {name} did not answer {what} within {self.config.call_timeout_s:g} s "
            f"(call_timeout_s in its configuration); the call was given up.{self.log.explained()}"
        )

    async def _gone(self, what: str, said: str = "") -> ServerFault:
        """That the connection ended, with the reason as soon as it is known."""
        with anyio.move_on_after(3):
            await self.over.wait()
        why = self.why or said
        return ServerFault(
            f"The MCP server {self.config.name} ended before it answered {what}; whether it did what was asked is "
            f"not known. {why} The next call starts it again."
        )


async def unresolved(_result: Any, _context: Any) -> types.CallToolResult:
    """Tasks are followed by the call itself."""
    raise NotImplementedError


def shown_progress(
    caller: Caller, deadline: Deadline
) -> Callable[[float, float | None, str | None], Awaitable[None]]:
    """Progress as output of the call, not more of it than can be read."""
    last = [0.0]

    async def show(progress: float, total: float | None = None, message: str | None = None) -> None:
        deadline.more()
        now = anyio.current_time()
        if now - last[0] < PROGRESS_EVERY_S and progress != total:
            return
        last[0] = now
        share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
        caller.call.output(f"[{share}] {message[:500]}\n" if message else f"[{share}]\n")

    return show


def refusal(error: MCPError) -> str:
    """What a server said in refusing."""
    data = error.error.data
    more = f" ({str(data)[:500]})" if data else ""
    return f"{error.message[:2000]}{more}"


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure of a group that is no cancellation."""
    for error in group.exceptions:
        inner = first_of(error) if isinstance(error, BaseExceptionGroup) else error
        if not isinstance(inner, asyncio.CancelledError):
            return inner
    return group.exceptions[0]


def said_by(error: BaseException) -> str:
    """An exception as a sentence."""
    match error:
        case JaatoError():
            return str(error)
        case MCPError():
            return f"It answered: {refusal(error)}."
    return (
        f"{type(error).__name__}: {first_line(error)}." if isinstance(error, Exception) else "It was stopped."
    )
