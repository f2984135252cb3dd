"""What a server says instead of an answer: each status is an error of its own, with the wait it asks for."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import pytest
from tests.providers.asking import KEY, failure, said
from tests.providers.server import answer

from jaato.errors import (
    AuthenticationError,
    ContentRefused,
    ContextOverflow,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    RateLimited,
    ServerFault,
)


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (
            401,
            said("invalid_api_key", f"Incorrect API key provided: {KEY}"),
            AuthenticationError,
            "OPENAI_API_KEY",
        ),
        (403, said(None, "Country not supported"), AuthenticationError, "Country not supported"),
        (404, said("model_not_found", "The model `m` does not exist"), ModelNotFound, "jaato models"),
        (404, "404 page not found", ModelNotFound, "base URL"),
        (400, said("context_length_exceeded", "too long"), ContextOverflow, "no longer fits"),
        (400, said(400, "This model's maximum context length is 8192 tokens."), ContextOverflow, "8192"),
        (
            400,
            said(None, "the request exceeds the available context size", type="exceed_context_size_error"),
            ContextOverflow,
            "",
        ),
        (413, said("tokens_limit_reached", "Request body too large"), ContextOverflow, ""),
        (413, said("rate_limit_exceeded", "Request too large for model"), ContextOverflow, ""),
        (400, said("content_filter", "filtered"), ContentRefused, "policy"),
        (400, said("invalid_value", "bad field", type="invalid_request_error"), InvalidRequest, "bad field"),
        (400, said(None, "foo is not a valid model ID"), ModelNotFound, "foo"),
        (422, {"detail": "unprocessable"}, InvalidRequest, "unprocessable"),
        (402, said("insufficient_credits", "pay first"), ProviderError, "account"),
        (
            429,
            said("insufficient_quota", "You exceeded your current quota", type="insufficient_quota"),
            ProviderError,
            "credit",
        ),
        (429, said("rate_limit_exceeded", "slow"), RateLimited, "slow"),
        (500, said(None, "boom"), ServerFault, "boom"),
        (503, "<html>overloaded</html>", ServerFault, "overloaded"),
        (500, b'{"error": {"message": "caf\xe9"}}', ServerFault, "caf"),
        (500, b"[" * 50_000, ServerFault, "[["),
        (529, "", ServerFault, "529"),
        (418, "x" * 100_000, InvalidRequest, "…"),
    ],
)
def test_statuses(status: int, body: Any, kind: type[ProviderError], words: str) -> None:
    """Each way of refusing becomes its own error, by code, by words, by type and by status, in this order."""
    error = failure(answer(body, status))
    assert type(error) is kind
    assert error.status == status
    assert error.retryable == (kind in (RateLimited, ServerFault))
    assert words in str(error)
    assert len(str(error)) < 1_000


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after_ms": "1500", "retry_after": "2"}, 1.5),
        ({"retry_after": formatdate(0, usegmt=True)}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-3"}, None),
        ({"retry_after": "nan", "retry_after_ms": "inf"}, None),
        ({"retry_after": "1e3"}, None),
        ({"retry_after": "Thu, 01 Jan 0001 00:00:00 -0000"}, 0.0),
        ({"retry_after": "9" * 400}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], wait_s: float | None) -> None:
    """The wait that a server asks for is in the error, in seconds, whichever way it was said."""
    assert failure(answer(said(None, "slow"), 429, **headers)).retry_after_s == wait_s


def test_retry_after_a_date() -> None:
    """A date to come is a wait until then."""
    wait_s = failure(answer("", 503, retry_after=formatdate(time.time() + 100, usegmt=True))).retry_after_s
    assert wait_s is not None
    assert 50 < wait_s <= 100


@pytest.mark.parametrize(
    ("wait", "words"),
    [("100", "100 seconds"), ("600", "10 minutes"), ("9000", "2 hours"), ("999999", "12 days")],
)
def test_a_wait_too_long_to_sit_through_is_named(wait: str, words: str) -> None:
    """A wait that ends the turn instead of delaying it is in the message, in a unit one would say it in."""
    assert str(failure(answer(said(None, "slow"), 429, retry_after=wait))).endswith(
        f"slow. It asks to wait {words}."
    )
