"""Responses of the contract: every status with its code and the body it comes with, and the log of requests that were refused."""

from __future__ import annotations

import logging
import math
import re
import time
from typing import Any, Protocol, Self

from msgspec import UNSET, Struct

from jaato.errors import (
    InvalidArguments,
    PermissionDenied,
    StoreError,
    StoreFull,
    StoreReadOnly,
    ToolTimeout,
    UnknownTool,
)
from jaato.log import logger
from jaato.protocol.arp import LIST_PATH, SCHEMA_VERSION, ErrorBody, Metrics, ToolError, ToolResult
from jaato.protocol.codec import encode
from jaato.protocol.messages import Problem
from jaato.protocol.specs import Access
from jaato.server.http.asgi import Refused
from jaato.server.registry.requests import Headers, Request, Route, request_id, route_of

LOG = logger("server.registry")
JSON = (b"content-type", b"application/json")
NOT_STORED = (b"cache-control", b"no-store")

STATUS = {
    "request.invalid_json": 400,
    "request.invalid_http": 400,
    "request.invalid_shape": 400,
    "tool.invalid_args": 400,
    "tool.invalid_definition": 400,
    "auth.required": 401,
    "auth.forbidden": 403,
    "permission.denied": 403,
    "tool.handler_forbidden": 403,
    "tool.not_found": 404,
    "route.not_found": 404,
    "call.not_found": 404,
    "result.not_found": 404,
    "request.method_not_allowed": 405,
    "request.timeout": 408,
    "tool.fixed": 409,
    "request.precondition_failed": 412,
    "request.idempotency_under_way": 409,
    "request.too_large": 413,
    "request.unsupported_encoding": 415,
    "request.misdirected": 421,
    "request.idempotency_mismatch": 422,
    "request.too_many": 429,
    "request.head_too_large": 431,
    "registry.failed": 500,
    "tool.execution_error": 500,
    "tool.handler_error": 500,
    "tool.outcome_unknown": 500,
    "tool.result_too_large": 500,
    "tool.cancelled": 503,
    "tool.unreachable": 502,
    "registry.unavailable": 503,
    "tool.timeout": 504,
    "registry.full": 507,
    "registry.not_kept": 507,
}
"""The HTTP status of each error code."""
RETRYABLE = frozenset(
    (
        "request.timeout",
        "request.idempotency_under_way",
        "request.too_many",
        "tool.cancelled",
        "tool.timeout",
        "tool.unreachable",
        "registry.unavailable",
        "registry.not_kept",
    )
)
CUT_OFF = frozenset(("tool.cancelled", "tool.timeout"))
"""Codes of interrupted calls: `details.begun` marks those that may have had an effect."""
CODES = {
    UnknownTool.code: "tool.not_found",
    InvalidArguments.code: "tool.invalid_args",
    PermissionDenied.code: "permission.denied",
    ToolTimeout.code: "tool.timeout",
    "cancelled": "tool.cancelled",
    "tool_raised": "tool.handler_error",
    "handler_unreachable": "tool.unreachable",
    "handler_lost": "tool.outcome_unknown",
    "registry_failed": "tool.unreachable",
    "registry_busy": "tool.unreachable",
    "registry_call_lost": "tool.outcome_unknown",
    "registry.unavailable": "tool.unreachable",
    "mcp_server_failed": "tool.unreachable",
    "mcp_call_lost": "tool.outcome_unknown",
}
"""The contract's codes for those of the pipeline; any other problem of a tool is `tool.execution_error`."""
PASSED_ON = frozenset(
    "tool.not_found tool.invalid_args tool.execution_error tool.cancelled tool.timeout tool.unreachable "
    "tool.outcome_unknown tool.result_too_large permission.denied".split()
)
"""Codes of another registry that are passed on to the caller."""
STORE = frozenset(one.code for one in (StoreError, StoreReadOnly, StoreFull))
"""Problems of the store of the log or of results."""
LOGGED_ONLY = {
    "mcp_server_failed": "What is behind the tool does not answer",
    **dict.fromkeys(STORE, "The tool could not keep what it made"),
}
"""The message for problems whose own message is only logged, such as the last output of a process."""
UNAVAILABLE = "The registry cannot make this call now; its log says why."
RETRY = (b"retry-after", b"1")
MAX_NAME_CHARS = 200
"""Of `details.tool_name`, which may be any name that a caller sends."""
READ = re.compile(r'\breadFile\(path="(result:[0-9a-f]{64})"\)')
"""The hint for a model how to read the rest of a long text."""


class Stream(Protocol):
    """A body in chunks; who sends it closes it."""

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> bytes: ...

    async def aclose(self) -> None:
        """Close the stream."""
        ...


class Response(Struct):
    """A response without the headers that all responses have. With a `stream` the body is its chunks; `code` is the error
    code."""

    status: int
    body: bytes
    headers: Headers
    code: str = ""
    stream: Stream | None = None


def error_of(
    code: str, message: str, details: dict[str, Any] | None = None, *, tool: str | None = None
) -> ToolError:
    """An error as the contract has it; one with a code `tool.*` names the tool."""
    if tool is not None and code.startswith("tool."):
        details = {**(details or {}), "tool_name": tool[:MAX_NAME_CHARS]}
    return ToolError(SCHEMA_VERSION, code, message, code in RETRYABLE, UNSET if details is None else details)


def refusal(code: str, message: str, *headers: tuple[bytes, bytes]) -> Response:
    """The response with an error, if no call was requested."""
    return error_response(error_of(code, message), *headers)


def error_response(error: ToolError, *headers: tuple[bytes, bytes]) -> Response:
    """The response with this error, if no call was requested."""
    return Response(STATUS[error.code], encode(ErrorBody(error)), [JSON, *headers], error.code)


def failure(error: ToolError, latency_ms: float = 0.0, *headers: tuple[bytes, bytes]) -> Response:
    """The response to a call that failed or was not made: a complete result."""
    result = ToolResult(schema_version=SCHEMA_VERSION, ok=False, error=error, metrics=Metrics(latency_ms))
    return Response(STATUS[error.code], encode(result), [JSON, *headers], error.code)


def success(value: Any, latency_ms: float) -> Response:
    """The response to a successful call."""
    result = ToolResult(schema_version=SCHEMA_VERSION, ok=True, result=value, metrics=Metrics(latency_ms))
    return Response(200, encode(result), [JSON])


def busy(code: str, words: str) -> Response:
    """The response to a call that can be retried later, with `Retry-After`."""
    return failure(error_of(code, words), 0.0, RETRY)


def seconds(wait_s: float) -> str:
    """A time to wait as `Retry-After` has it, in whole seconds."""
    return str(max(1, math.ceil(wait_s)))


def code_for(problem: Problem, *, begun: bool = True) -> str:
    """The contract's code for a problem of the pipeline; `begun`: the tool was run."""
    if problem.code in STORE:
        return "tool.handler_error" if begun else "registry.unavailable"
    return problem.code if problem.code in PASSED_ON else CODES.get(problem.code, "tool.execution_error")


def rewrite_read_hint(words: str) -> str:
    """A message in which the rest of a long text is read from the registry, not with `readFile`."""
    return READ.sub(rf"GET {LIST_PATH}:result?handle=\1", words) if "readFile(" in words else words


def error_for(
    problem: Problem, request_id: str, tool: str, *, begun: bool = True, access: Access = "network"
) -> ToolError:
    """A problem of the pipeline's in the contract's words, of the tool with this name and access. What an exception says that
    is no error of ours stays here."""
    code = code_for(problem, begun=begun)
    if code == "registry.unavailable":
        return error_of(code, UNAVAILABLE)
    what = LOGGED_ONLY.get(problem.code, "The tool failed inside" if code == "tool.handler_error" else "")
    if what:
        words = f"{what}; the registry's log has why, under request {request_id}."
        return error_of(code, words, tool=tool)
    details = problem.details
    if problem.code.startswith(("registry_", "mcp_")):
        details = {**(details or {}), "code": problem.code}
    if code == "tool.invalid_args":
        details = {"issues": [], **(details or {})}
    elif code in CUT_OFF and code != problem.code and begun and access != "read":
        details = {**(details or {}), "begun": True}
    error = error_of(code, rewrite_read_hint(problem.message), details, tool=tool)
    retryable = problem.retryable if code == problem.code else problem.retryable or error.retryable
    if retryable is not error.retryable:
        return ToolError(SCHEMA_VERSION, code, error.message, retryable, error.details)
    return error


LINES_A_SECOND = 20
MAX_PATH_CHARS = 200
WATCHED = frozenset((401, 403, 421, 429))
"""Statuses that may show an attack and are logged as warnings."""


class RefusalLog:
    """Logs refused requests, at a limited rate."""

    def __init__(self) -> None:
        self._second = 0
        self._count = 0

    def log(self, request: Request, answer: Response, peer: str) -> None:
        """Log a refused request."""
        level = logging.WARNING if answer.status in WATCHED else logging.INFO
        if not LOG.isEnabledFor(level):
            return
        second = int(time.monotonic())
        if second != self._second:
            if self._count > LINES_A_SECOND:
                LOG.warning("%d more requests were refused in that second", self._count - LINES_A_SECOND)
            self._second, self._count = second, 0
        self._count += 1
        if self._count > LINES_A_SECOND:
            return
        id_ = next((value for name, value in answer.headers if name == b"x-request-id"), b"-")
        path = request.path.decode("latin-1")[:MAX_PATH_CHARS]
        LOG.log(
            level,
            "Request %s from %s: %d for %s %r",
            id_.decode("ascii", "replace"),
            peer or "this machine",
            answer.status,
            request.method.decode("latin-1"),
            path,
        )


REFUSAL_LOG = RefusalLog()


GATE_CODES = {
    400: "request.invalid_http",
    401: "auth.required",
    403: "auth.forbidden",
    404: "route.not_found",
    408: "request.timeout",
    421: "request.misdirected",
    429: "request.too_many",
    431: "request.head_too_large",
    503: "registry.unavailable",
}
"""The codes of refusals by the gate, by status."""
REALM = 'Bearer realm="jaato tool registry"'
"""The challenge of `WWW-Authenticate`."""
CALLS = frozenset(("invoke", "batchInvoke"))
"""Routes whose errors are complete results."""


def gate_refusal(request: Request, problem: Refused) -> Response:
    """The response to a request that the gate refused."""
    code = GATE_CODES.get(problem.status, "request.misdirected")
    route = route_of(request.path)
    meant = route if request.method == b"POST" else None
    return error_for_route(meant, code, problem.text)


def missing_scope(route: Route, scope: str) -> Response:
    """The response to a key that lacks a scope (RFC 6750, 3.1)."""
    answer = error_for_route(route, "auth.forbidden", f"This needs a key with the scope {scope}.")
    answer.headers.append(
        (b"www-authenticate", f'{REALM}, error="insufficient_scope", scope="{scope}"'.encode())
    )
    return answer


def make_error_response(code: str, words: str, request: Request) -> Response:
    """The error of a request that has no response, in the form of its route."""
    meant = route_of(request.path) if request.method == b"POST" else None
    return with_request_id(error_for_route(meant, code, words), request_id(request.header(b"x-request-id")))


def internal_error(request: Request, problem: BaseException | None) -> Response:
    """The response to a request that was cancelled, or failed with an unexpected exception."""
    if problem is None:
        return make_error_response("tool.cancelled", "The call was cancelled.", request)
    answer = make_error_response("registry.failed", "The registry failed inside; its log says why.", request)
    LOG.error("Request %s could not be answered", answer.headers[-1][1].decode(), exc_info=problem)
    return answer


def error_for_route(route: Route | None, code: str, words: str) -> Response:
    """An error in the form of its route: a complete result for a call."""
    if route is not None and route.kind in CALLS:
        return failure(error_of(code, words, tool=route.name or None))
    return refusal(code, words)


def with_request_id(answer: Response, id_: bytes) -> Response:
    """The response with the id of its request."""
    answer.headers.append((b"x-request-id", id_))
    return answer
