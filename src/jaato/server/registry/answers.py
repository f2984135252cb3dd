"""What the door answers: statuses, codes, and bodies that are a result, an error or a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from jaato.errors import InvalidArguments, PermissionDenied, ToolTimeout, UnknownTool
from jaato.protocol.arp import SCHEMA_VERSION, Metrics, ToolError, ToolResult
from jaato.protocol.codec import encode
from jaato.protocol.messages import Problem

Headers = list[tuple[bytes, bytes]]
JSON = (b"content-type", b"application/json")

STATUS = {
    "request.invalid_json": 400,
    "request.invalid_http": 400,
    "request.invalid_shape": 400,
    "tool.invalid_args": 400,
    "auth.required": 401,
    "auth.forbidden": 403,
    "permission.denied": 403,
    "tool.not_found": 404,
    "route.not_found": 404,
    "request.method_not_allowed": 405,
    "request.timeout": 408,
    "request.too_large": 413,
    "request.unsupported_encoding": 415,
    "request.misdirected": 421,
    "request.too_many": 429,
    "request.head_too_large": 431,
    "registry.failed": 500,
    "tool.execution_error": 500,
    "tool.handler_error": 500,
    "tool.cancelled": 503,
    "registry.unavailable": 503,
    "tool.timeout": 504,
}
"""The status of each code there is."""
RETRYABLE = frozenset(
    ("request.timeout", "request.too_many", "tool.cancelled", "registry.unavailable", "tool.timeout")
)
CODES = {
    UnknownTool.code: "tool.not_found",
    InvalidArguments.code: "tool.invalid_args",
    PermissionDenied.code: "permission.denied",
    ToolTimeout.code: "tool.timeout",
    "cancelled": "tool.cancelled",
    "tool_raised": "tool.handler_error",
}
"""The contract's codes for those of the pipeline; what a tool says itself is `tool.execution_error`."""


@dataclass(slots=True)
class Answer:
    """A response, but for what every response has."""

    status: int
    body: bytes
    headers: Headers


def error_of(code: str, message: str, details: dict[str, Any] | None = None) -> ToolError:
    """An error of the contract's."""
    return ToolError(SCHEMA_VERSION, code, message, code in RETRYABLE, UNSET if details is None else details)


def refusal(code: str, message: str, *headers: tuple[bytes, bytes]) -> Answer:
    """No, where no call was made."""
    return Answer(STATUS[code], encode(error_of(code, message)), [JSON, *headers])


def failure(error: ToolError, latency_ms: float = 0.0, *headers: tuple[bytes, bytes]) -> Answer:
    """A call that was not made, or failed: a whole result all the same."""
    result = ToolResult(SCHEMA_VERSION, False, Metrics(latency_ms), error=error)
    return Answer(STATUS[error.code], encode(result), [JSON, *headers])


def success(value: Any, latency_ms: float) -> Answer:
    """What a call gave."""
    return Answer(200, encode(ToolResult(SCHEMA_VERSION, True, Metrics(latency_ms), result=value)), [JSON])


def error_for(problem: Problem, request_id: str) -> ToolError:
    """A problem of the pipeline's in the contract's words. What an exception says that is no error of ours stays here."""
    code = CODES.get(problem.code, "tool.execution_error")
    if code == "tool.handler_error":
        return error_of(
            code, f"The tool failed inside; the registry's log has why, under request {request_id}."
        )
    details = problem.details
    if code == "tool.invalid_args":
        details = {"issues": [], **(details or {})}
    error = error_of(code, problem.message, details)
    if problem.retryable and not error.retryable:
        return ToolError(SCHEMA_VERSION, code, error.message, True, error.details)
    return error
