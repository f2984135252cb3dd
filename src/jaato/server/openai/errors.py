"""Errors as the API of OpenAI has them: their object, and the status of each of ours."""

from __future__ import annotations

from typing import Any

from jaato.errors import JaatoError, RateLimited
from jaato.protocol.messages import Problem
from jaato.server.http.asgi import Refused, Scope

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
"""Types of errors by status; others are `invalid_request_error` below 500 and `server_error` above."""
STATUSES = {
    "config_invalid": 400,
    "provider_invalid_request": 400,
    "context_overflow": 400,
    "content_refused": 400,
    "not_allowed": 403,
    "model_not_found": 404,
    "session_not_found": 404,
    "session_busy": 409,
    "overloaded": 429,
    "rate_limited": 429,
    "provider_unavailable": 503,
    "server_unreachable": 503,
    "store_full": 507,
}
"""HTTP statuses by our codes. A provider that refuses our key or cannot be reached is 502: the client's token is right."""
CODES = {"context_overflow": "context_length_exceeded"}
"""Codes that clients know by another name."""
RETRY_AFTER_S = 5


class RequestError(Refused):
    """Refuses a request for a reason with a code, and the name of the parameter that is wrong."""

    def __init__(self, status: int, text: str, code: str, param: str | None = None, **headers: str) -> None:
        super().__init__(status, text, **headers)
        self.code = code
        self.param = param


def error_body(_scope: Scope, refused: Refused) -> Any:
    """The body of a refusal."""
    code = refused.code if isinstance(refused, RequestError) else None
    param = refused.param if isinstance(refused, RequestError) else None
    kind = TYPES.get(refused.status, "server_error" if refused.status >= 500 else TYPES[400])
    return {"error": {"message": refused.text, "type": kind, "param": param, "code": code}}


def refusal_of(problem: Problem, retry_after_s: float | None = None) -> RequestError:
    """The refusal for an error of ours."""
    provider = problem.code.startswith("provider_")
    status = STATUSES.get(problem.code, 502 if provider else 500)
    headers = {}
    if status in (429, 503):
        headers["retry-after"] = str(max(1, round(retry_after_s or RETRY_AFTER_S)))
    return RequestError(status, problem.message, CODES.get(problem.code, problem.code), **headers)


def refusal_of_error(error: JaatoError) -> RequestError:
    """The refusal for an exception."""
    wait_s = error.retry_after_s if isinstance(error, RateLimited) else None
    return refusal_of(Problem(error.code, str(error), error.retryable), wait_s)
