"""What servers say when they refuse: the same words mean the same, whichever dialect they are said in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.abc.provider import ModelRequest
from jaato.errors import (
    AuthenticationError,
    ContextOverflow,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    RateLimited,
    ServerFault,
)
from jaato.providers.anthropic.dialect import AnthropicDialect
from jaato.providers.dialect import Dialect
from jaato.providers.errors import MAX_SHOWN_CHARS, read_error_body, status_error
from jaato.providers.google_genai.dialect import GeminiDialect
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.openai.responses import OpenAIResponses


def quota(quota_id: str) -> dict[str, Any]:
    """A 429 of the Gemini API: it names the quota, and a wait that is short whatever the quota."""
    violation = {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaId": quota_id}],
    }
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "28s"}
    words = "You exceeded your current quota, please check your plan and billing details."
    return {"code": 429, "message": words, "status": "RESOURCE_EXHAUSTED", "details": [violation, wait]}


@pytest.mark.parametrize(
    ("words", "limit", "tokens"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            8192,
            9000,
        ),
        (
            "This model's maximum context length is 32,768 tokens. However, you requested about 40000 tokens (36000 of text).",
            32768,
            40000,
        ),
        ("prompt is too long: 213462 tokens > 200000 maximum", 200000, 213462),
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000", 178667, 188240),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            1048576,
            1200000,
        ),
        (
            "the request exceeds the available context size. try increasing the context size or enable context shift",
            None,
            None,
        ),
        (
            "request (5012 tokens) exceeds the available context size (4096 tokens), try increasing it",
            4096,
            5012,
        ),
        ("The decoder prompt (length 9000) is longer than the maximum model length of 8192.", 8192, 9000),
        ("the input length exceeds the context length", None, None),
        ("prompt too long; exceeded max context length by 12 tokens", None, None),
        (
            "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with less.",
            None,
            5000,
        ),
        ("The input (9000 tokens) is longer than the model's context length (8192 tokens).", 8192, 9000),
        ("Input length (9000 tokens) exceeds the maximum allowed length (8191 tokens).", 8191, 9000),
        (
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            131072,
            537812,
        ),
        ("Please reduce the length of the messages or completion.", None, None),
        ("Your request exceeded model token limit: 262144", 262144, None),
        ("prompt token count of 130000 exceeds the limit of 128000", 128000, 130000),
        (
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            32768,
            40000,
        ),
        ("Input is too long for requested model.", None, None),
    ],
)
def test_a_conversation_that_no_longer_fits(words: str, limit: int | None, tokens: int | None) -> None:
    """However a vendor or a local server says that the conversation is too long, it is the one error for that, with the
    numbers that the message names."""
    errors = ({"message": words, "type": "invalid_request_error"}, {"message": words}, words)
    bare = {"object": "error", "message": words, "type": "BadRequestError", "code": 400}
    for body in (*({"error": error} for error in errors), bare):
        error = status_error("openai", 400, {}, msgspec.json.encode(body))
        assert type(error) is ContextOverflow
        assert (error.limit, error.tokens) == (limit, tokens)


def test_the_numbers_of_a_local_server_are_taken_from_its_fields() -> None:
    """llama.cpp says the size of the request and the limit beside its message."""
    error = {
        "code": 400,
        "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5012,
        "n_ctx": 4096,
    }
    found = status_error("ollama", 400, {}, msgspec.json.encode({"error": error}))
    assert isinstance(found, ContextOverflow)
    assert (found.limit, found.tokens) == (4096, 5012)


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}, ProviderError),
        (429, quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), ProviderError),
        (429, quota("GenerateRequestsPerMinutePerProjectPerModel"), RateLimited),
        (
            429,
            {
                "status": "RESOURCE_EXHAUSTED",
                "message": "Quota exceeded for metric: requests, limit: 0, model: gemini-3-pro",
            },
            ProviderError,
        ),
        (400, {"type": "invalid_request_error", "message": "Your credit balance is too low"}, ProviderError),
        (429, {"code": "x", "message": "Your team has used all available credits"}, ProviderError),
        (402, {"message": "Insufficient Balance"}, ProviderError),
        (
            429,
            {"code": "rate_limit_exceeded", "message": "Request too large for gpt-5 on tokens per min"},
            ContextOverflow,
        ),
        (429, {"type": "rate_limit_error", "message": "too many tokens per minute"}, RateLimited),
        (529, {"type": "overloaded_error", "message": "Overloaded"}, ServerFault),
        (408, "", ServerFault),
        (413, "", ContextOverflow),
        (400, {"message": "API key not valid. Please pass a valid API key."}, AuthenticationError),
        (404, {"message": "model 'x' not found"}, ModelNotFound),
        (400, {"message": "tools.0.name: bad"}, InvalidRequest),
    ],
)
def test_what_a_refusal_means(status: int, error: Any, kind: type[ProviderError]) -> None:
    """An empty account or a spent quota is not tried again; a limit that passes is; each says the server's words."""
    found = status_error("openai", status, {}, msgspec.json.encode({"error": error}))
    assert type(found) is kind
    assert found.retryable is (kind in (RateLimited, ServerFault))
    if isinstance(error, dict):
        assert error["message"] in str(found)


@pytest.mark.parametrize(
    "dialect",
    [OpenAIChat(), OpenAIResponses(), AnthropicDialect(), GeminiDialect()],
    ids=["chat", "responses", "anthropic", "gemini"],
)
def test_an_error_inside_a_stream_is_the_same_error(dialect: Dialect) -> None:
    """What a server says after it called the answer a success is read like an answer that is none."""
    decoder = dialect.decoder(ModelRequest("m", []))
    error = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "prompt is too long: 2 > 1"},
    }
    with pytest.raises(ContextOverflow, match="2 > 1"):
        decoder.feed("error", msgspec.json.encode(error))


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(["error", "message", "code", "details", "status", "x"]), inner)
        ),
        max_leaves=8,
    ).map(msgspec.json.encode)
)
def test_any_error_body_has_bounded_words(body: bytes) -> None:
    """Whatever a body holds, what is said of it is one line of bounded length, and empty only if the body is."""
    message = read_error_body(body).message
    assert len(message) <= MAX_SHOWN_CHARS + 2
    assert "\n" not in message
    assert message or not body.decode("utf-8", "replace").strip()
