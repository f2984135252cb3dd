"""The SDK's client session as we use it: its own validation off, both eras, multi-round-trip requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import anyio
import mcp_types as types
from mcp.client.extension import ResultClaim
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

import jaato
from jaato.plugins.mcp.direct import Direct, Show
from jaato.plugins.mcp.outgoing import Outgoing

MAX_ROUNDS = 10
"""How often a server may ask for input before it answers."""
TASKS = "io.modelcontextprotocol/tasks"
R = TypeVar("R")


class CreatedTask(types.Result):
    """A call that goes on at the server: `tasks/get` says how far it is."""

    model_config = {**types.Result.model_config, "extra": "allow"}
    result_type: Literal["task"] = "task"


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries of a list; `odd` says what was wrong with those that are left out."""

    entries: list[Any]
    cursor: str | None
    ttl_ms: float | None
    odd: list[str]


class Session(ClientSession):
    """One conversation with a server. `direct` is the shorter way for calls, where the transport has one."""

    direct: Direct | None = None

    async def page(self, request: Any, what: str, kind: type[Any]) -> Page:
        """One page of a list, of which an entry that is wrong costs no other. Raises `MCPError`, ValueError."""
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

    async def run_tool(
        self, name: str, arguments: dict[str, Any], show: Show, responses: Any, state: str | None
    ) -> types.CallToolResult | types.InputRequiredResult | CreatedTask:
        """One round of a call. The request is written and the result read once, where the SDK does both several times.

        Raises `MCPError`, ValueError.
        """
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if responses:
            params["inputResponses"] = {
                key: response.model_dump(by_alias=True, mode="json", exclude_none=True)
                for key, response in responses.items()
            }
        if state is not None:
            params["requestState"] = state
        data = {"method": "tools/call", "params": params}
        options: CallOptions = {}
        self._stamp(data, options)
        if self.direct is not None:
            told = await self.direct.ask("tools/call", params, show)
        else:
            options["on_progress"] = later(show)
            told = await self._dispatcher.send_raw_request("tools/call", params, options)
        match told.get("resultType"):
            case "input_required":
                return types.InputRequiredResult.model_validate(told, by_name=False)
            case "task":
                return CreatedTask.model_validate(told, by_name=False)
        return types.CallToolResult.model_validate(told, by_name=False)

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Results are validated by us, with patterns that end and schemas that cannot grow without bound."""


def open_session(
    read: Any, write: Any, callbacks: dict[str, Any], claims: Sequence[ResultClaim[Any]]
) -> Session:
    """A session over the streams of a transport, not entered yet."""
    session = Session(
        read,
        write,
        client_info=types.Implementation(name="jaato", version=jaato.__version__),
        extensions={TASKS: {}} if claims else None,
        result_claims={TASKS: list(claims)} if claims else None,
        **callbacks,
    )
    if isinstance(write, Outgoing):
        session.direct = Direct(write)
    return session


def later(show: Show) -> ProgressFnT:
    """Progress as the SDK tells of it."""

    async def shown(progress: float, total: float | None, message: str | None) -> None:
        show(progress, total, message)

    return shown


async def negotiate(session: Session, handshake_first: bool) -> None:
    """Agree on a protocol: the handshake with a server known to want it, else the newer way and then the handshake.

    Raises what the SDK raises.
    """
    if handshake_first:
        await session.initialize()
        return
    version = LATEST_MODERN_VERSION
    for attempt in range(2):
        try:
            found = types.DiscoverResult.model_validate(await session.send_discover(version))
        except ValidationError:
            await session.initialize()
            return
        except MCPError as error:
            supported = versions_of(error)
            mutual = [name for name in MODERN_PROTOCOL_VERSIONS if name in supported]
            if mutual and attempt == 0:
                version = mutual[-1]
                continue
            if supported and not any(name in HANDSHAKE_PROTOCOL_VERSIONS for name in supported):
                raise
            await session.initialize()
            return
        if any(name in found.supported_versions for name in MODERN_PROTOCOL_VERSIONS):
            session.adopt(found)
        else:
            await session.initialize()
        return


def versions_of(error: MCPError) -> list[str]:
    """The versions a server names in refusing ours."""
    if error.code != types.UNSUPPORTED_PROTOCOL_VERSION or not isinstance(error.error.data, dict):
        return []
    supported = error.error.data.get("supported")
    return [str(name) for name in supported] if isinstance(supported, list) else []


def is_modern(session: Session) -> bool:
    """Whether the session is of the era without a handshake."""
    return session.protocol_version in MODERN_PROTOCOL_VERSIONS


async def resolved(
    session: Session, ask: Callable[[Any, str | None], Awaitable[R | types.InputRequiredResult]]
) -> R:
    """The result of a request, after all that the server wanted to know for it was answered."""
    responses: Any = None
    state: str | None = None
    for round_ in range(MAX_ROUNDS):
        result = await ask(responses, state)
        if not isinstance(result, types.InputRequiredResult):
            return result
        state = result.request_state
        responses = await answered(session, result.input_requests) if result.input_requests else None
        if responses is None:
            await anyio.sleep(min(0.05 * 2**round_, 1.0))
    raise MCPError(types.INTERNAL_ERROR, f"asked for input more than {MAX_ROUNDS} times")


async def answered(session: Session, requests: dict[str, Any]) -> dict[str, Any]:
    """What the user says to each of a server's requests, one after the other. Raises `MCPError` for a refusal."""
    responses: dict[str, Any] = {}
    for key, request in requests.items():
        params = getattr(request, "params", None)
        context = ClientRequestContext(session=session, request_id=key, meta=params.meta if params else None)
        answer = await session.dispatch_input_request(context, request)
        if isinstance(answer, types.ErrorData):
            raise MCPError(answer.code, answer.message, answer.data)
        responses[key] = answer
    return responses
