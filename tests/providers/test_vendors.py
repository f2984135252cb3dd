"""Anthropic and Gemini over real HTTP: what is sent, what comes back, and every fault as a typed error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.providers.histories import TOOLS, check_anthropic, check_gemini
from tests.providers.server import Answer, Server, answer, serve, stream

from jaato.abc.provider import Chunk, ModelRequest, Provider, Reply
from jaato.errors import (
    AuthenticationError,
    ConfigError,
    ConnectionFault,
    ContentRefused,
    ContextOverflow,
    InvalidRequest,
    MalformedReply,
    ProviderError,
    RateLimited,
    ServerFault,
)
from jaato.protocol.messages import Message, Text
from jaato.providers.http import TIMEOUTS, Timeouts
from jaato.providers.profiles import make_provider

GOLDEN = Path(__file__).parent / "golden"
ASK = [Message("user", [Text("hi")])]
HASTE = Timeouts(connect_s=1.0, first_byte_s=0.3, idle_s=0.3)


class Side:
    """One of the two APIs, as the tests need it."""

    def __init__(self, name: str, variable: str, key: str, model: str, golden: str) -> None:
        self.name = name
        self.variable = variable
        self.key = key
        self.model = model
        self.golden = (GOLDEN / f"{golden}.sse").read_bytes()

    def provider(self, server: Server, timeouts: Timeouts = TIMEOUTS) -> Provider:
        environ = {self.variable: server.url, self.key: "sk-secret"}
        return make_provider(self.name, environ=environ, timeouts=timeouts)

    def error(self, status: int, kind: str, message: str, **headers: str) -> Answer:
        """An error as this API sends it."""
        named = {"type": kind} if self.name == "anthropic" else {"code": status, "status": kind}
        return answer({"error": {**named, "message": message}}, status, **headers)


SIDES = [
    Side(
        "anthropic",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_KEY",
        "claude-opus-5-5",
        "anthropic_thinking_parallel",
    ),
    Side(
        "google_genai",
        "GOOGLE_GEMINI_BASE_URL",
        "GEMINI_API_KEY",
        "gemini-3.1-pro",
        "gemini_thinking_parallel",
    ),
]
both = pytest.mark.parametrize("side", SIDES, ids=["anthropic", "gemini"])


async def ask(provider: Provider, model: str) -> list[Chunk]:
    """All chunks of one answer; the provider is closed afterwards."""
    request = ModelRequest(model, ASK, "Be brief.", TOOLS)
    try:
        return [chunk async for chunk in provider.stream(request)]
    finally:
        await provider.aclose()


def exchange(side: Side, *answers: Answer, timeouts: Timeouts = TIMEOUTS) -> tuple[list[Chunk], Server]:
    """One question to a server that answers as scripted."""

    async def main() -> tuple[list[Chunk], Server]:
        async with serve(*answers) as server:
            return await ask(side.provider(server, timeouts), side.model), server

    return anyio.run(main)


@both
def test_an_answer_with_parallel_calls(side: Side) -> None:
    """The request is what the vendor's types take, the key is in a header only, the reply has both calls."""
    pieces = [side.golden[start : start + 7] for start in range(0, len(side.golden), 7)]
    chunks, server = exchange(side, stream(*pieces))
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    assert [call.name for call in reply.message.function_calls] == ["readFile", "get_environment"]
    assert reply.message.provider == side.name
    assert reply.usage is not None
    (seen,) = server.requests
    assert seen.method == "POST"
    assert "sk-secret" not in seen.path
    if side.name == "anthropic":
        check_anthropic(seen.body)
        assert seen.path == "/v1/messages"
        assert seen.headers["x-api-key"] == "sk-secret"
        assert seen.headers["anthropic-version"]
    else:
        check_gemini(seen.body)
        assert seen.path == "/v1beta/models/gemini-3.1-pro:streamGenerateContent?alt=sse"
        assert seen.headers["x-goog-api-key"] == "sk-secret"


ERRORS: list[tuple[int, tuple[str, str], str, type[ProviderError]]] = [
    (401, ("authentication_error", "UNAUTHENTICATED"), "bad key sk-secret", AuthenticationError),
    (400, ("invalid_request_error", "INVALID_ARGUMENT"), "prompt is too long: 2 > 1", ContextOverflow),
    (400, ("invalid_request_error", "INVALID_ARGUMENT"), "unknown field", InvalidRequest),
    (429, ("rate_limit_error", "RESOURCE_EXHAUSTED"), "slow down", RateLimited),
    (500, ("api_error", "INTERNAL"), "oops", ServerFault),
    (503, ("overloaded_error", "UNAVAILABLE"), "full", ServerFault),
]


@both
@pytest.mark.parametrize(("status", "kinds", "message", "expected"), ERRORS)
def test_error_answers_are_typed(
    side: Side, status: int, kinds: tuple[str, str], message: str, expected: type[ProviderError]
) -> None:
    """An error answer raises the error of its kind, with status, provider and wait, and without the key."""
    kind = kinds[SIDES.index(side)]
    with pytest.raises(ProviderError) as caught:
        exchange(side, side.error(status, kind, message, retry_after="3"))
    error = caught.value
    assert type(error) is expected
    assert (error.status, error.provider) == (status, side.name)
    assert "sk-secret" not in str(error)
    assert message.split("sk-")[0].strip() in str(error)
    if error.retryable:
        assert error.retry_after_s == 3


def half(side: Side) -> bytes:
    """The stream up to the middle of the arguments of a call."""
    mark = b'{\\"path\\": \\"a' if side.name == "anthropic" else b'"args": {"path'
    return side.golden[: side.golden.index(mark) + 8]


FAULTS: dict[str, tuple[Callable[[Side], Answer], type[ProviderError]]] = {
    "cut in mid-call": (lambda side: stream(half(side), end="cut"), ConnectionFault),
    "closed in mid-call": (lambda side: stream(half(side), end="close"), ConnectionFault),
    "ended in mid-call": (lambda side: stream(half(side)), ConnectionFault),
    "silent in mid-call": (lambda side: stream(half(side), end="hold"), ConnectionFault),
    "never a byte": (lambda side: Answer(["hold"]), ConnectionFault),
    "closed at once": (lambda side: Answer(["close"]), ConnectionFault),
    "nothing": (lambda side: stream(), ConnectionFault),
    "malformed chunk": (lambda side: stream(b"data: {oops\n\n"), MalformedReply),
    "a web page": (lambda side: answer("<html>log in</html>", content_type="text/html"), MalformedReply),
    "other json": (lambda side: answer({"type": "message", "candidates": 3}), MalformedReply),
    "bad gateway": (lambda side: answer("<html>502</html>", 502), ServerFault),
}


@both
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_typed_and_no_reply_comes(side: Side, fault: str) -> None:
    """However an answer breaks off, a typed, retryable error ends it, never a reply whose calls could run."""
    make_answer, expected = FAULTS[fault]
    seen: list[Chunk] = []

    async def main() -> None:
        async with serve(make_answer(side)) as server:
            provider = side.provider(server, HASTE)
            request = ModelRequest(side.model, ASK, tools=TOOLS)
            try:
                async for chunk in provider.stream(request):
                    seen.append(chunk)
            finally:
                await provider.aclose()

    with pytest.raises(ProviderError) as caught:
        anyio.run(main)
    assert type(caught.value) is expected
    assert caught.value.retryable
    assert caught.value.provider == side.name
    assert not any(isinstance(chunk, Reply) for chunk in seen)


@both
def test_a_refusal_is_an_answer_or_a_typed_error(side: Side) -> None:
    """A refused answer is a reply that says so; a request that is blocked whole raises."""
    golden = "anthropic_refusal" if side.name == "anthropic" else "gemini_safety"
    chunks, _ = exchange(side, stream((GOLDEN / f"{golden}.sse").read_bytes()))
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    assert reply.finish_reason == "refusal"
    if side.name == "google_genai":
        with pytest.raises(ContentRefused):
            exchange(side, stream((GOLDEN / "gemini_blocked.sse").read_bytes()))


@both
def test_models_are_listed(side: Side) -> None:
    """The provider's own list of models is read, page after page."""
    pages: list[Any] = [
        {"data": [{"id": "claude-a"}], "has_more": True, "last_id": "claude-a"},
        {"data": [{"id": "claude-b"}], "has_more": False},
    ]
    if side.name == "google_genai":
        pages = [
            {"models": [{"name": "models/gemini-a"}], "nextPageToken": "t"},
            {"models": [{"name": "models/gemini-b"}]},
        ]

    async def main() -> tuple[list[str], list[str]]:
        async with serve(*[answer(page) for page in pages]) as server:
            provider = side.provider(server)
            try:
                return [info.id for info in await provider.models()], [seen.path for seen in server.requests]
            finally:
                await provider.aclose()

    found, paths = anyio.run(main)
    assert [name[-1] for name in found] == ["a", "b"]
    assert "claude-a" in paths[1] or "pageToken=t" in paths[1]


@both
@pytest.mark.parametrize(
    "body", [b"[]", b'{"data":[{"id":"caf\xe9"}],"models":[{"name":"\xe9"}]}', b"<html>"]
)
def test_a_list_of_models_that_is_none_is_a_typed_error(side: Side, body: bytes) -> None:
    """A list of another shape or encoding is a malformed reply."""

    async def main() -> None:
        async with serve(answer(body, content_type="application/json")) as server:
            provider = side.provider(server)
            try:
                await provider.models()
            finally:
                await provider.aclose()

    with pytest.raises(MalformedReply):
        anyio.run(main)


def test_what_is_missing_is_named() -> None:
    """Without a key the error names the variable to set; another server needs none."""
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        make_provider("anthropic", environ={})
    with pytest.raises(ConfigError, match="GEMINI_API_KEY"):
        make_provider("google_genai", environ={})
    make_provider("anthropic", environ={"ANTHROPIC_BASE_URL": "http://127.0.0.1:1/v1/"})
    assert "aiplatform" in repr(make_provider("google_genai", environ={"GOOGLE_CLOUD_PROJECT": "p"}))
    assert "europe-west4" in repr(
        make_provider("google_genai", environ={}, project="p", location="europe-west4")
    )
    given = {"GOOGLE_API_KEY": "k", "GOOGLE_CLOUD_PROJECT": "p"}
    assert "generativelanguage" in repr(make_provider("google_genai", environ=given))
    assert "aiplatform" in repr(
        make_provider("google_genai", environ={**given, "GOOGLE_GENAI_USE_VERTEXAI": "true"})
    )
