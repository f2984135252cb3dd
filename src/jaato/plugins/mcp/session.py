"""The MCP SDK's client, session and dispatcher with our bounds; discovery of what a server offers, page by page.

One malformed message, or one malformed entry of a list, is dropped and noted; the rest stays usable.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import mcp_types as types
from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from pydantic import BaseModel, ValidationError

from jaato.plugins.mcp.manifest import Manifest, PromptEntry, ResourceEntry, ToolEntry, limit_manifest
from jaato.plugins.mcp.server_log import ServerLog

MAX_PAGES = 100
MAX_LISTED = 5_000
MAX_DROPPED = 100

logging.getLogger("mcp").addHandler(logging.NullHandler())
"""The SDK logs untrusted messages as they arrive; without a handler they would be written to the terminal."""

E = TypeVar("E", ToolEntry, PromptEntry, ResourceEntry)


class Transport(Protocol):
    """A connection to a server."""

    async def __aenter__(self) -> tuple[Any, Any]: ...

    async def __aexit__(self, *error: Any) -> None: ...

    async def until_over(self) -> None:
        """Wait until the server closes the connection."""
        ...

    @property
    def failed_immediately(self) -> bool:
        """Whether the newer handshake failed in a way that makes a retry with the older one sensible."""
        ...

    def explain(self, error: types.ErrorData) -> types.ErrorData:
        """Replace the SDK's error of a request by one that says what happened."""
        ...

    async def exit_reason(self) -> str:
        """Why the connection ended, as a sentence."""
        ...


class RateLimiter:
    """A token bucket: a burst of `burst`, and `per_second` from then on."""

    def __init__(self, burst: float, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._left = burst
        self._at = time.monotonic()

    def wait_s(self, taken: float) -> float:
        """Take this many tokens; returns how long to wait before or after using them."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second) - taken
        self._at = now
        return max(0.0, -self._left / self._per_second)


class Dispatcher(JSONRPCDispatcher):
    """The SDK's dispatcher; the transport explains errors, malformed messages are noted and dropped."""

    def __init__(self, read: Any, write: Any, transport: Transport, log: ServerLog) -> None:
        super().__init__(read, write)
        self._transport = transport
        self._log = log

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        """Send a request and return its raw result. Raises `MCPError`."""
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
            self._log.note("sent a number that is too large")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list; `dropped` says which entries are malformed, and how."""

    entries: list[Any]
    cursor: str | None
    ttl_ms: float | None
    dropped: list[str]


class Session(ClientSession):
    """The SDK's session with lenient list pages and discovery; results are validated by us."""

    async def page(self, request: Any, what: str, kind: type[Any]) -> Page:
        """Fetch one page of a list. Raises `MCPError`, ValueError."""
        data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        options: CallOptions = {}
        self._stamp(data, options)
        result = await self._dispatcher.send_raw_request(data["method"], data.get("params"), options)
        listed, cursor, ttl = result.get(what), result.get("nextCursor"), result.get("ttlMs")
        if not isinstance(listed, list):
            raise ValueError(f"its {what} are not a list")  # noqa: TRY004 the server's fault, not a caller's
        entries, dropped = [], []
        for entry in listed:
            try:
                entries.append(kind.model_validate(entry, by_name=False))
            except ValidationError as error:
                name = entry.get("name") if isinstance(entry, dict) else entry
                fault = error.errors()[0]
                dropped.append(f"{str(name)[:80]!r}: {'.'.join(map(str, fault['loc']))} {fault['msg']}")
        if kind is types.Tool:
            entries = self._absorb_tool_listing(types.ListToolsResult(tools=entries), complete=False).tools
        held = float(ttl) if isinstance(ttl, int | float) and not isinstance(ttl, bool) and ttl >= 0 else None
        return Page(entries, cursor if isinstance(cursor, str) else None, held, dropped)

    async def list_tools(
        self, *, params: types.PaginatedRequestParams | None = None
    ) -> types.ListToolsResult:
        """One page of the tools, which the SDK requests after a `HEADER_MISMATCH`."""
        page = await self.page(types.ListToolsRequest(params=params), "tools", types.Tool)
        return types.ListToolsResult(tools=page.entries, next_cursor=page.cursor)

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Nothing: `checked_output` validates with patterns that terminate and schemas of bounded size."""

    async def build_manifest(self, digest: str, log: ServerLog) -> Manifest:
        """List the server's tools, prompts and resources as a bounded manifest. A list that cannot be fetched is empty
        and noted in `log`. Raises `MCPError` when the connection ends."""
        offered = self.server_capabilities or types.ServerCapabilities()
        dropped: list[str] = []
        ttls_ms: list[float] = []

        async def fetch(able: Any, what: str, request: Any, kind: type[Any]) -> list[Any]:
            try:
                return await self._list_all(what, request, kind, dropped, ttls_ms) if able else []
            except MCPError as error:
                if error.code == types.CONNECTION_CLOSED:
                    raise
                log.note(f"did not list its {what}: {error.message[:300]}")
            except ValueError as error:
                log.note(f"sent a malformed list: {first_line(error)}")
            dropped.append(f"all {what}: the list could not be fetched")
            return []

        tools = await fetch(offered.tools, "tools", types.ListToolsRequest, types.Tool)
        prompts = await fetch(offered.prompts, "prompts", types.ListPromptsRequest, types.Prompt)
        resources = await fetch(offered.resources, "resources", types.ListResourcesRequest, types.Resource)
        templates = await fetch(
            offered.resources,
            "resourceTemplates",
            types.ListResourceTemplatesRequest,
            types.ResourceTemplate,
        )
        return limit_manifest(
            Manifest(
                digest=digest,
                server_info=json_value(self.server_info) or {},
                protocol_version=self.protocol_version or "",
                instructions=self.instructions or "",
                capabilities=json_value(offered),
                tools=[entry_of(ToolEntry, one) for one in tools],
                prompts=[entry_of(PromptEntry, one) for one in prompts],
                resources=[
                    *(entry_of(ResourceEntry, one, size_bytes=one.size) for one in resources),
                    *(entry_of(ResourceEntry, one, uri=one.uri_template, template=True) for one in templates),
                ],
                fetched_at=time.time(),
                ttl_s=min(ttls_ms) / 1000 if ttls_ms else None,
                dropped=dropped,
            )
        )

    async def _list_all(
        self, what: str, request: Any, kind: type[Any], dropped: list[str], ttls_ms: list[float]
    ) -> list[Any]:
        """Every entry of a list, page by page; a list without an end is cut off. Raises as `page`."""
        found: list[Any] = []
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self.page(request(params=params), what, kind)
            found += page.entries
            dropped += page.dropped[: MAX_DROPPED - len(dropped)]
            if page.ttl_ms is not None:
                ttls_ms.append(page.ttl_ms)
            cursor = page.cursor
            if not cursor:
                return found
            if cursor in seen or len(found) > MAX_LISTED:
                break
            seen.add(cursor)
        dropped.append(f"{what} beyond the first {len(found):,}: the list has no end")
        return found[:MAX_LISTED]


def entry_of(kind: type[E], model: BaseModel, **more: Any) -> E:
    """An entry of a list as the manifest stores it: the fields of the same name, nested objects as JSON data."""
    found = {name: json_value(getattr(model, name, None)) for name in kind.__struct_fields__} | more
    return kind(**{name: value for name, value in found.items() if value is not None})


def json_value(value: Any) -> Any:
    """A value of the SDK's as JSON data."""
    match value:
        case BaseModel():
            return value.model_dump(by_alias=True, mode="json", exclude_none=True)
        case list():
            return [json_value(one) for one in value]
    return value


def first_line(error: Exception) -> str:
    """An error of the SDK's in one short line."""
    return " ".join(str(error).split())[:300]


@dataclass
class SdkClient(Client):
    """The SDK's client with our session and dispatcher."""

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
