"""The MCP SDK's client, session and dispatcher with our bounds: bad messages and bad entries of a list cost no other one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

import mcp_types as types
from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from pydantic import ValidationError

from jaato.plugins.mcp.discovery import Page
from jaato.plugins.mcp.server_log import ServerLog

logging.getLogger("mcp").addHandler(logging.NullHandler())
"""The SDK logs what strangers send, as they send it; without a handler that would be written to the terminal."""


class Transport(Protocol):
    """A way to a server."""

    async def __aenter__(self) -> tuple[Any, Any]: ...

    async def __aexit__(self, *error: Any) -> None: ...

    async def until_over(self) -> None:
        """Wait until the server says no more."""
        ...

    @property
    def failed_immediately(self) -> bool:
        """Whether beginning in the older way makes sense, since the newer one failed."""
        ...

    def explain(self, error: types.ErrorData) -> types.ErrorData:
        """An error of a request as one that says what happened."""
        ...

    async def exit_reason(self, within_s: float = 1.0) -> str:
        """How the connection came to its end, as a sentence."""
        ...


class Dispatcher(JSONRPCDispatcher):
    """The SDK's dispatcher; errors are explained by the transport, odd messages are noted and cost no other."""

    def __init__(self, read: Any, write: Any, transport: Transport, log: ServerLog) -> None:
        super().__init__(read, write)
        self._transport = transport
        self._log = log

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        """The raw result. Raises `MCPError`."""
        try:
            return await super().send_raw_request(method, params, opts, **more)
        except MCPError as error:
            raise MCPError.from_error_data(self._transport.explain(error.error)) from None

    async def _dispatch(self, item: Any, *more: Any) -> None:
        match getattr(item, "message", None):
            case types.JSONRPCResponse(id=id_) | types.JSONRPCError(id=id_) if (
                id_ is None or coerce_request_id(id_) not in self._pending
            ):
                self._log.note("answered a request that was not made, or was given up")
        try:
            await super()._dispatch(item, *more)
        except OverflowError:
            self._log.note("sent a number that is too large to be one")


class Session(ClientSession):
    """The SDK's session; one wrong entry of a list costs no other, and results are validated by us."""

    async def page(self, request: Any, what: str, kind: type[Any]) -> Page:
        """One page of a list. Raises `MCPError`, ValueError."""
        data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        options: CallOptions = {}
        self._stamp(data, options)
        told = await self._dispatcher.send_raw_request(data["method"], data.get("params"), options)
        listed, cursor, ttl = told.get(what), told.get("nextCursor"), told.get("ttlMs")
        if not isinstance(listed, list):
            raise ValueError(f"its {what} are no list")  # noqa: TRY004 the server's fault, not a caller's
        entries, odd = [], []
        for entry in listed:
            try:
                entries.append(kind.model_validate(entry, by_name=False))
            except ValidationError as error:
                name = entry.get("name") if isinstance(entry, dict) else entry
                fault = error.errors()[0]
                odd.append(f"{str(name)[:80]!r}: {'.'.join(map(str, fault['loc']))} {fault['msg']}")
        if kind is types.Tool:
            entries = self._absorb_tool_listing(types.ListToolsResult(tools=entries), complete=False).tools
        held = float(ttl) if isinstance(ttl, int | float) and not isinstance(ttl, bool) and ttl >= 0 else None
        return Page(entries, cursor if isinstance(cursor, str) else None, held, odd)

    async def list_tools(
        self, *, params: types.PaginatedRequestParams | None = None
    ) -> types.ListToolsResult:
        """One page of the tools, as the SDK asks for it after a `HEADER_MISMATCH`."""
        page = await self.page(types.ListToolsRequest(params=params), "tools", types.Tool)
        return types.ListToolsResult(tools=page.entries, next_cursor=page.cursor)

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Results are validated by us, with patterns that end and schemas that cannot grow without bound."""


@dataclass
class SdkClient(Client):
    """The SDK's client with a session and a dispatcher of ours."""

    log: ServerLog = field(default_factory=ServerLog)

    async def _build_session(self, exit_stack: AsyncExitStack) -> ClientSession:
        transport: Any = self.server
        read, write = await exit_stack.enter_async_context(transport)
        return Session(
            dispatcher=Dispatcher(read, write, transport, self.log),
            client_info=self.client_info,
            elicitation_callback=self.elicitation_callback,
            list_roots_callback=self.list_roots_callback,
            logging_callback=self.logging_callback,
            message_handler=self.message_handler,
        )
