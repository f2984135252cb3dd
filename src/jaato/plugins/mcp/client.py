"""The client of one running MCP server: requests with deadlines, and the server's own requests and notifications."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from jaato.errors import JaatoError
from jaato.plugins.mcp.calls import CURRENT_CONTEXT, CallContext, Deadline
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.elicitation import elicit
from jaato.plugins.mcp.errors import CallLost, ServerFault, ServerRefusal
from jaato.plugins.mcp.manifest import Manifest
from jaato.plugins.mcp.server_log import ServerLog
from jaato.plugins.mcp.session import SdkClient, Session, Transport, first_line
from jaato.version import __version__

RESUBSCRIBE_AFTER_S = (1.0, 10.0, 60.0, 300.0, 3600.0)
"""The backoff after a lost subscription."""
REFRESH_AFTER_S = 0.3
MAX_REFRESH_S = 60.0
"""The debounce of list changes, which doubles up to this while the lists keep changing."""
R = TypeVar("R")


class McpClient:
    """A connection to one server. `run` opens it, serves it and closes it; the other methods are called meanwhile."""

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
        self.timeouts = 0
        self.why = ""
        self.fault: JaatoError | None = (
            None  # the error that ended it, if it has one of its own, such as a login
        )
        self._transport = transport
        self._handshake_first = handshake_first
        self._on_manifest = on_manifest
        self._workspace = workspace
        self._stopping = asyncio.Event()
        self._scope = anyio.CancelScope()
        """Of the start, and the connection."""
        self._sdk: Client | None = None
        self._callers: list[CallContext] = []
        self._changed = asyncio.Event()

    # --- lifecycle ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect, serve until stopped or disconnected, close. Never raises; `why` says what went wrong."""
        try:
            await self._connect_and_serve()
        except asyncio.CancelledError:
            self.why = self.why or "It was stopped."
        except BaseExceptionGroup as group:
            self.why = self.why or describe_error(first_error(group))
        except Exception as error:  # noqa: BLE001 what the SDK and its libraries raise is the server's end, not ours
            self.why = self.why or describe_error(error)
        finally:
            self._sdk = None
            await self._set_over()

    async def _set_over(self) -> None:
        """Record why the connection ended, and wake up all who wait for it."""
        fault: JaatoError
        try:
            ended = "" if self.stopped else await self._transport.exit_reason()
        except JaatoError as error:
            self.why, fault = str(error), error
            self.fault = error
        else:
            parts = (ended or self.why, self.log.explain().strip())
            self.why = " ".join(part for part in parts if part)
            fault = ServerFault(f"The MCP server {self.config.name} did not start. {self.why}")
        if not self.ready.done():
            self.ready.set_exception(fault)
            self.ready.exception()
        self.over.set()

    async def _connect_and_serve(self) -> None:
        seconds = self.config.start_timeout_s
        self._scope.deadline = anyio.current_time() + seconds
        with self._scope:
            async with SdkClient(
                self._transport,
                mode="legacy" if self._handshake_first else "auto",
                client_info=types.Implementation(name="jaato", version=__version__),
                elicitation_callback=self._elicit,
                list_roots_callback=self._roots,
                logging_callback=self._on_log,
                message_handler=self._on_notification,
                cache=None,
                log=self.log,
            ) as sdk:
                manifest = await self._discover(sdk)
                self._sdk = sdk
                self._scope.deadline = math.inf
                self.ready.set_result(manifest)
                await self._serve(sdk)
        if self._scope.cancelled_caught and not self.stopped:
            self.why = f"It did not answer within {seconds:g} s of its start (start_timeout_s)."

    async def _discover(self, sdk: Client) -> Manifest:
        assert isinstance(sdk.session, Session)
        manifest = await sdk.session.build_manifest(self.config.digest, self.log)
        self._on_manifest(manifest)
        return manifest

    async def _serve(self, sdk: Client) -> None:
        """Serve until stopped; lists that change are fetched again."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._refresh_lists, sdk)
            tasks.start_soon(self._subscribe, sdk)
            tasks.start_soon(self._watch_transport)
            await self._stopping.wait()
            tasks.cancel_scope.cancel()

    async def _watch_transport(self) -> None:
        await self._transport.until_over()
        raise ServerFault("It closed the connection.")

    async def _refresh_lists(self, sdk: Client) -> None:
        """Fetch the lists again after they change, debounced; the delay doubles while they keep changing."""
        loop = asyncio.get_running_loop()
        pause_s = REFRESH_AFTER_S
        while True:
            since = loop.time()
            await self._changed.wait()
            if loop.time() - since > pause_s:
                pause_s = REFRESH_AFTER_S
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_REFRESH_S)
            self._changed.clear()
            try:
                with anyio.fail_after(self.config.start_timeout_s):
                    await self._discover(sdk)
            except (MCPError, TimeoutError) as error:
                self.log.note(f"did not list anew what it offers: {first_line(error)}")

    async def _subscribe(self, sdk: Client) -> None:
        """Subscribe to list changes at a server of the newer protocol; a lost subscription is retried with backoff."""
        able = sdk.server_capabilities
        if sdk.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        wanted = [bool(one and one.list_changed) for one in (able.tools, able.prompts, able.resources)]
        for pause_s in RESUBSCRIBE_AFTER_S if any(wanted) else ():
            try:
                async with sdk.listen(
                    tools_list_changed=wanted[0],
                    prompts_list_changed=wanted[1],
                    resources_list_changed=wanted[2],
                ) as events:
                    async for _ in events:
                        self._changed.set()
            except (MCPError, SubscriptionLost, TimeoutError):
                pass  # the lists are fetched again below
            await anyio.sleep(pause_s)
            self._changed.set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Close the connection, or give up its start; `over` is set when that is done."""
        self._stopping.set()
        if self._sdk is None:
            self._scope.cancel()

    # --- requests and notifications of the server -----------------------------------------------------------------

    async def _elicit(self, context: Any, params: Any) -> types.ElicitResult:
        """Put an elicitation to the user of the call it belongs to, one at a time."""
        caller = CURRENT_CONTEXT.get() or self._only_caller()
        if caller is None:
            self.log.note("asked the user outside of any call; the question was cancelled")
            return types.ElicitResult(action="cancel")
        async with caller.asking:
            action, content = await elicit(self.config.name, caller, params)
        return types.ElicitResult(action=action, content=content)  # type: ignore[arg-type]

    def _only_caller(self) -> CallContext | None:
        """The call an elicitation without a reference belongs to: known only when a single session is calling."""
        sessions = {caller.call.session_id for caller in self._callers}
        return self._callers[-1] if len(sessions) == 1 else None

    async def _roots(self, context: Any) -> types.ListRootsResult:
        """The workspace."""
        root = types.Root(uri=self._workspace.as_uri(), name=self._workspace.name)  # type: ignore[arg-type]
        return types.ListRootsResult(roots=[root])

    async def _on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Write a log message of the server to its log."""
        self.log.write(f"[{params.level}] {str(params.data)[:2000]}\n")

    async def _on_notification(self, message: Any) -> None:
        """Handle other notifications (a list has changed) and messages that cannot be parsed."""
        match message:
            case (
                types.ToolListChangedNotification()
                | types.PromptListChangedNotification()
                | types.ResourceListChangedNotification()
            ):
                self._changed.set()
            case Exception():
                self.log.note(f"sent a message that cannot be parsed: {first_line(message)}")

    # --- requests of ours ------------------------------------------------------------------------------------------

    async def refresh(self) -> Manifest:
        """Fetch the lists of what the server offers now."""
        return await self._request(self._discover, None, "list")

    async def call(self, name: str, arguments: dict[str, Any], caller: CallContext) -> types.CallToolResult:
        """Run a tool. Raises `ServerFault`, `ServerRefusal`."""
        return await self._request(
            lambda sdk: sdk.call_tool(name, arguments, progress_callback=caller.report_progress),
            caller,
            f"the tool {name}",
            CallLost,
        )

    async def read(self, uri: str, caller: CallContext) -> types.ReadResourceResult:
        """Read a resource. Raises as `call`."""
        return await self._request(lambda sdk: sdk.read_resource(uri), caller, f"the resource {uri[:200]}")

    async def prompt(
        self, name: str, arguments: dict[str, str], caller: CallContext
    ) -> types.GetPromptResult:
        """Get a prompt with its arguments filled in. Raises as `call`."""
        return await self._request(lambda sdk: sdk.get_prompt(name, arguments), caller, f"the prompt {name}")

    async def complete(self, reference: dict[str, str], argument: dict[str, str]) -> list[str]:
        """Complete an argument of a prompt or of a resource template. Raises as `call`."""
        kind = types.PromptReference if "name" in reference else types.ResourceTemplateReference
        ref: Any = kind(**reference)  # type: ignore[arg-type]
        found = await self._request(lambda sdk: sdk.complete(ref, argument), None, "a completion")
        return list(found.completion.values[:100])

    async def _request(
        self,
        ask: Callable[[Client], Awaitable[R]],
        caller: CallContext | None,
        what: str,
        lost: type[ServerFault] = ServerFault,
    ) -> R:
        """Send a request with a deadline. Errors are raised as ours: `lost` once the request may have been sent."""
        sdk = self._sdk
        if sdk is None:
            raise await self._disconnect_error(what)
        name = self.config.name
        deadline = Deadline(self.config.call_timeout_s)
        if caller is not None:
            caller.deadline = deadline
            self._callers.append(caller)
            CURRENT_CONTEXT.set(caller)
        try:
            with deadline.scope:
                result = await ask(sdk)
                self.timeouts = 0
                return result
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise await self._disconnect_error(what, error.message, lost) from None
            self.timeouts = 0
            if error.code == types.PARSE_ERROR:
                raise lost(f"The MCP server {name} failed at {what}: {refusal(error)}") from None
            raise ServerRefusal(f"The MCP server {name} refused {what}: {refusal(error)}") from None
        except JaatoError:
            raise
        except BaseExceptionGroup as group:
            raise lost(
                f"The MCP server {name} failed at {what}: {describe_error(first_error(group))}"
            ) from None
        except (ValueError, RuntimeError) as error:
            raise lost(
                f"The MCP server {name} answered {what} with an invalid response: {first_line(error)}"
            ) from None
        finally:
            if caller is not None:
                self._callers.remove(caller)
        self.timeouts += 1
        raise lost(
            f"The MCP server {name} did not answer {what} within {self.config.call_timeout_s:g} s "
            f"(call_timeout_s in its configuration); the call was given up.{self.log.explain()}"
        )

    async def _disconnect_error(
        self, what: str, reason: str = "", lost: type[ServerFault] = ServerFault
    ) -> JaatoError:
        """The error of a request whose connection ended; waits a moment for the reason."""
        with anyio.move_on_after(3):
            await self.over.wait()
        if self.fault is not None:
            return self.fault
        return lost(
            f"The MCP server {self.config.name} ended before it answered {what}; whether the request was carried out is "
            f"not known. {self.why or reason} The next call restarts it."
        )


def refusal(error: MCPError) -> str:
    """The message and data of a server's error, shortened."""
    data = error.error.data
    more = f" ({str(data)[:500]})" if data else ""
    return f"{error.message[:2000]}{more}"


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure of a group that is no cancellation."""
    for error in group.exceptions:
        inner = first_error(error) if isinstance(error, BaseExceptionGroup) else error
        if not isinstance(inner, asyncio.CancelledError):
            return inner
    return group.exceptions[0]


def describe_error(error: BaseException) -> str:
    """An exception as a sentence."""
    match error:
        case JaatoError():
            return str(error)
        case MCPError():
            return f"It answered: {refusal(error)}."
    return (
        f"{type(error).__name__}: {first_line(error)}." if isinstance(error, Exception) else "It was stopped."
    )
