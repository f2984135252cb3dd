"""What the Anthropic dialect makes of errors."""

from __future__ import annotations

import msgspec
import pytest

from jaato.errors import (
    AuthenticationError,
    ContextOverflow,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    RateLimited,
    ServerFault,
)
from jaato.providers.errors import status_error


def fault(status: int, kind: str = "", message: str = "m", **headers: str) -> ProviderError:
    body = msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})
    return status_error("anthropic", status, {k.replace("_", "-"): v for k, v in headers.items()}, body)


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (401, "authentication_error", "invalid x-api-key", AuthenticationError),
        (403, "permission_error", "no", AuthenticationError),
        (400, "invalid_request_error", "Your credit balance is too low", ProviderError),
        (404, "not_found_error", "model: claude-9", ModelNotFound),
        (413, "request_too_large", "Request exceeds the maximum size", ContextOverflow),
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", ContextOverflow),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 1 + 2",
            ContextOverflow,
        ),
        (400, "invalid_request_error", "messages: bad", InvalidRequest),
        (429, "rate_limit_error", "slow", RateLimited),
        (500, "api_error", "oops", ServerFault),
        (504, "timeout_error", "late", ServerFault),
        (529, "overloaded_error", "Overloaded", ServerFault),
        (529, "", "", ServerFault),
    ],
)
def test_errors_are_typed(status: int, kind: str, message: str, expected: type[ProviderError]) -> None:
    """Each error of the API becomes the error a caller can act on, with the server's words."""
    error = fault(status, kind, message)
    assert type(error) is expected
    assert error.status == status
    assert message in str(error)


def test_an_error_page_is_no_surprise() -> None:
    """A body that is not the API's JSON still gives the error of its status and the wait of its headers."""
    error = status_error("anthropic", 429, {"retry-after": "7"}, b"<html>too many</html>")
    assert isinstance(error, RateLimited)
    assert error.retry_after_s == 7
    assert "too many" in str(error)
