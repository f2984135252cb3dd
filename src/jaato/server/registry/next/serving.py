"""What the later generation is answered: definitions whole, one path for calls, errors in an envelope."""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import UNSET, UnsetType

import jaato
from jaato.protocol.arp import InvalidJson, InvalidShape, Invocation, ToolError, decode_error, decode_result
from jaato.protocol.arp_next import (
    ErrorDetail,
    ErrorEnvelope,
    InvocationResult,
    LaterHealth,
    LaterTool,
    VersionInfo,
    decode_request,
)
from jaato.protocol.codec import encode
from jaato.server.registry.answers import JSON, NOT_STORED, STATUS, Answer, error_of
from jaato.server.registry.pages import looked_up, sent
from jaato.server.registry.request import Pending, Request, Route
from jaato.server.registry.shelf import Page, Shelf
from jaato.tools.tool import Tool

VALUE = "value"
"""The name of a result that is no object by itself."""
REMOTE = frozenset(("arp", "mcp"))
"""The plugins whose tools are served elsewhere."""
FAILED = frozenset(
    "tool.invalid_args tool.execution_error tool.handler_error tool.timeout tool.cancelled permission.denied "
    "tool.outcome_unknown tool.result_too_large".split()
)
"""How a call can fail that was made; it is a result then, and no error of HTTP's."""
LISTS: WeakKeyDictionary[Shelf, tuple[list[Any], Page]] = WeakKeyDictionary()

Made = Callable[[Pending, bytes], Awaitable[Answer]]


def listed(shelf: Shelf, request: Request) -> Answer:
    """Every tool, whole."""
    specs = [tool.spec for tool in shelf.tools.values()]
    known = LISTS.get(shelf)
    if known is None or any(one is not other for one, other in zip(known[0], specs, strict=True)):
        known = LISTS[shelf] = (specs, Page(encode([definition_of(tool) for tool in shelf.tools.values()])))
    return sent(known[1], request)


def defined(shelf: Shelf, route: Route, request: Request) -> Answer:
    """One tool."""
    found = looked_up(shelf, route.name, request.query)
    if isinstance(found, ToolError):
        return Answer(STATUS[found.code], enveloped(found), [JSON])
    return sent(Page(encode(definition_of(found.tool))), request)


def definition_of(tool: Tool) -> LaterTool:
    """A tool in these words."""
    return LaterTool(
        tool_id=tool.name,
        name=tool.name,
        description=tool.spec.description,
        input_schema=tool.checked if tool.checked is not None else tool.spec.parameters,
        output_schema=UNSET if tool.returns is None else whole(tool.returns),
        source="remote" if tool.remote is not None or tool.plugin in REMOTE else "registry_local",
    )


def whole(returns: dict[str, Any]) -> dict[str, Any]:
    """The schema of a result, which is an object."""
    if returns.get("type") == "object":
        return returns
    return {"type": "object", "properties": {VALUE: returns}, "required": [VALUE]}


def health() -> Answer:
    """That it is well, since it answers."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Answer(200, encode(LaterHealth("ok", now)), [JSON, NOT_STORED])


def version() -> Answer:
    """What serves here."""
    return Answer(
        200, encode(VersionInfo("jaato-tool-registry", jaato.__version__, ["v1"])), [JSON, NOT_STORED]
    )


async def invoked(pending: Pending, body: bytes, make: Made) -> Answer:
    """The answer to a call, which `make` makes in the words of the first generation."""
    try:
        asked = decode_request(body)
    except (InvalidJson, InvalidShape) as error:
        return refused(error.code, str(error))
    name = asked.tool_id if asked.tool_id is not UNSET else asked.tool_name
    assert name is not UNSET
    request = pending.request
    plain = [one for one in request.headers if one[0] != b"accept"]
    same = Request(request.method, request.path, plain, request.query, request.told)
    call = Pending(Route("invoke", name), same, pending.id, pending.who)
    answer = await make(call, encode(Invocation(asked.args, context=asked.context)))
    result = decode_result(answer.body)
    headers = [one for one in answer.headers if one[0] != b"content-type"]
    if result.error is not UNSET and result.error.code not in FAILED:
        return Answer(answer.status, enveloped(result.error), [JSON, *headers])
    made = InvocationResult(
        invocation_id=asked.invocation_id,
        ok=result.ok,
        result=object_of(result.result),
        error=UNSET if result.error is UNSET else detail_of(result.error),
        duration_ms=round(result.metrics.latency_ms),
    )
    return Answer(200, encode(made), [JSON, *headers])


def object_of(value: Any) -> dict[str, Any] | UnsetType:
    """What a call gave, as an object."""
    if value is UNSET or isinstance(value, dict):
        return value
    return {VALUE: value}


def is_later(route: Route | None) -> bool:
    """Whether a route is of this generation."""
    return route is not None and route.kind.startswith("next_")


def refused(code: str, words: str) -> Answer:
    """No, in an envelope."""
    return Answer(STATUS[code], enveloped(error_of(code, words)), [JSON])


def in_envelope(answer: Answer) -> Answer:
    """A refusal of the first generation's in an envelope."""
    return Answer(answer.status, enveloped(decode_error(answer.body)), answer.headers)


def enveloped(error: ToolError) -> bytes:
    """An error as the only thing there is."""
    return encode(ErrorEnvelope(detail_of(error)))


def detail_of(error: ToolError) -> ErrorDetail:
    """An error in these words, which are the same."""
    return ErrorDetail(error.code, error.message, error.details, error.retryable)
