"""The transport against a server that misbehaves in every way it can."""

from __future__ import annotations

import gzip
import json
import logging
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any

import anyio
import pytest
from tests.providers.server import Answer, Server, answer, chunk, events, head, serve, stream

from jaato.abc.provider import CallDelta, Chunk, ModelRequest, Provider, Reply, TextDelta
from jaato.errors import (
    AuthenticationError,
    ConfigError,
    ConnectionFault,
    ContentRefused,
    ContextOverflow,
    InvalidRequest,
    MalformedReply,
    ModelNotFound,
    ProviderError,
    RateLimited,
    ServerFault,
)
from jaato.protocol.messages import Message, Text
from jaato.providers.http import HttpProvider, Timeouts
from jaato.providers.openai_chat import OpenAIChat
from jaato.providers.profiles import make

KEY = "sk-canary-0123456789"
QUICK = Timeouts(connect_s=5.0, first_byte_s=0.2, idle_s=0.2)


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chat chunk."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(arguments: str, **fields: Any) -> dict[str, Any]:
    """One chat chunk with a piece of a call."""
    return delta(tool_calls=[{"index": 0, "function": {"arguments": arguments, **fields}}])


HELLO = events(delta(content="Hel"), delta(content="lo"), delta("stop"), "[DONE]")
REQUEST = ModelRequest("m", [Message("user", [Text("hi")])])


def provider_at(server: Server, timeouts: Timeouts = QUICK, interface: Any = "chat") -> HttpProvider:
    """A provider that speaks to the scripted server."""
    return make(
        "openai", environ={}, base_url=f"{server.url}/v1", api_key=KEY, timeouts=timeouts, interface=interface
    )


async def ask(provider: Provider) -> list[Chunk]:
    """Every chunk of one answer."""
    return [chunk async for chunk in provider.stream(REQUEST)]


def play(*answers: Answer, count: int = 1, interface: Any = "chat") -> tuple[list[Any], Server]:
    """What asking some times brings, chunks or the error, and what the server saw."""
    outcomes: list[Any] = []

    async def main() -> Server:
        async with serve(*answers) as server:
            provider = provider_at(server, interface=interface)
            for _ in range(count):
                chunks: list[Chunk] = []
                try:
                    async for one in provider.stream(REQUEST):
                        chunks.append(one)
                    outcomes.append(chunks)
                except ProviderError as error:
                    error.__notes__ = [repr(chunks)]
                    outcomes.append(error)
            await provider.aclose()
        return server

    server = anyio.run(main)
    return outcomes, server


def failure(*answers: Answer, interface: Any = "chat") -> ProviderError:
    """The error of one answer; it names the provider and holds no key."""
    (error,), server = play(*answers, interface=interface)
    assert isinstance(error, ProviderError), error
    assert error.provider == "openai"
    assert KEY not in str(error) + repr(error)
    assert len(server.requests) == 1
    return error


def said(error: int | str | None, message: str = "", **fields: Any) -> dict[str, Any]:
    """An error body in the vendor's form."""
    return {"error": {"message": message, "code": error, **fields}}


def test_an_answer_and_the_reuse_of_its_connection() -> None:
    """Text arrives in pieces and then whole; the next request takes the same connection."""
    outcomes, server = play(stream(*HELLO), stream(*HELLO), count=2)
    for deltas in outcomes:
        *pieces, reply = deltas
        assert pieces == [TextDelta("Hel"), TextDelta("lo")]
        assert isinstance(reply, Reply)
        assert reply.message.text == "Hello"
    assert server.connections == 1
    first = server.requests[0]
    assert (first.method, first.path) == ("POST", "/v1/chat/completions")
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.json()["messages"] == [{"role": "user", "content": "hi"}]


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
    ("script", "kind", "words"),
    [
        (Answer([5.0]), ConnectionFault, "silent for too long"),
        (Answer(["cut"]), ConnectionFault, "cut"),
        (Answer(["close"]), ConnectionFault, "cut"),
        (stream(*HELLO[:1], end="hold"), ConnectionFault, "silent for too long"),
        (stream(*HELLO[:2], end="cut"), ConnectionFault, "cut"),
        (stream(*HELLO[:2], end="close"), ConnectionFault, "cut"),
        (stream(*HELLO[:2]), ConnectionFault, "before the model had finished"),
        (stream(*HELLO[:1], HELLO[1][:15], end="close"), ConnectionFault, "cut"),
        (stream(*events(call('{"path"', name="run"), call(': "a')), end="cut"), ConnectionFault, "cut"),
        (stream(), ConnectionFault, "before the model had finished"),
        (answer("", content_type="text/event-stream"), ConnectionFault, "before"),
        (stream(HELLO[0], b"data: {oops}\n\n", *HELLO[1:]), MalformedReply, "{oops}"),
        (stream(*events({"choices": "none"})), MalformedReply, "not understood"),
        (stream(*events(["a"])), MalformedReply, "not understood"),
        (stream(*events(said(None, "it broke", type="server_error"))), ServerFault, "it broke"),
        (stream(HELLO[0], *events(said(429, "slow down"))), RateLimited, "slow down"),
        (stream(HELLO[0], *events(said("context_length_exceeded", "too long"))), ContextOverflow, "too long"),
        (stream(b'event: error\ndata: {"message": "bad luck"}\n\n'), ServerFault, "bad luck"),
        (answer(said(None, "no such luck", type="server_error")), ServerFault, "no such luck"),
        (answer({"greeting": "hello"}), MalformedReply, "greeting"),
        (answer("not json", content_type="application/json"), MalformedReply, "not json"),
        (answer("<html>Sign in</html>", content_type="text/html; charset=utf-8"), MalformedReply, "Sign in"),
        (answer("hello there", content_type="text/plain"), MalformedReply, "hello there"),
        (answer("hello"), MalformedReply, "no content type"),
        (Answer([b"220 mail.test ESMTP\r\n\r\n", "close"]), MalformedReply, "does not speak HTTP"),
        (Answer([b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000, "hold"]), MalformedReply, "does not speak HTTP"),
        (
            Answer(
                [
                    head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}),
                    b"zz\r\n",
                    "close",
                ]
            ),
            MalformedReply,
            "HTTP",
        ),
        (
            answer(b"not gzip", content_type="text/event-stream", content_encoding="gzip"),
            MalformedReply,
            "decompressed",
        ),
    ],
)
def test_faults(script: Answer, kind: type[ProviderError], words: str) -> None:
    """Whatever goes wrong on the wire is one typed error that names the place; each may be tried again."""
    error = failure(script)
    assert type(error) is kind
    assert words in str(error)
    assert error.retryable or kind is ContextOverflow


def test_a_call_cut_in_the_middle_is_shown_and_never_run() -> None:
    """A call whose stream is cut is seen in deltas, and no reply holds it."""
    script = stream(*events(call('{"path"', name="run"), call(': "a')), end="cut")

    (error,), _ = play(script)
    assert isinstance(error, ConnectionFault)
    assert error.__notes__ == [repr([CallDelta(0, "run", '{"path"'), CallDelta(0, "run", ': "a')])]


def test_an_event_of_hundreds_of_megabytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line without end is refused at the bound, long before memory is."""
    monkeypatch.setattr("jaato.providers.http.MAX_EVENT_BYTES", 100_000)
    error = failure(stream(b"data: ", *[b"x" * 50_000] * 4, end="hold"))
    assert isinstance(error, MalformedReply)
    assert "larger than 100,000 bytes" in str(error)


def test_empty_events_and_comments_are_nothing() -> None:
    """Empty data, comments and unknown events between the chunks change nothing."""
    noise = b": ping\n\ndata:\n\ndata: \n\nevent: ping\ndata: {}\n\n"
    (chunks,), _ = play(stream(noise, HELLO[0], noise, *HELLO[1:]))
    assert [type(chunk) for chunk in chunks] == [TextDelta, TextDelta, Reply]


def test_one_json_document_instead_of_a_stream() -> None:
    """A server that does not stream is understood: its answer is the reply."""
    message = {"role": "assistant", "content": "Hello", "tool_calls": None}
    whole = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    (chunks,), _ = play(answer(whole))
    assert chunks[0] == TextDelta("Hello")
    assert chunks[-1].message.text == "Hello"
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
    (chunks,), server = play(answer({"status": "completed", "output": [item]}), interface="responses")
    assert chunks[-1].message.text == "Hello"
    assert server.requests[0].path == "/v1/responses"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, RateLimited),
        ({"type": "error", "error": {"code": "server_error", "message": "broken"}}, ServerFault),
        (
            {
                "type": "response.failed",
                "response": {"status": "failed", "error": {"code": "server_error", "message": "x"}},
            },
            ServerFault,
        ),
        (
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {"code": "context_length_exceeded", "message": "x"},
                },
            },
            ContextOverflow,
        ),
        ({"type": "response.failed", "response": {"status": "failed"}}, ServerFault),
        ({"type": "response.output_item.done", "item": 7}, MalformedReply),
        ({"type": "response.created", "response": {"status": "in_progress"}}, ConnectionFault),
        ({"hello": 1}, MalformedReply),
    ],
)
def test_failures_inside_a_response(event: dict[str, Any], kind: type[ProviderError]) -> None:
    """What the responses interface says in its stream becomes the same errors."""
    assert type(failure(stream(*events(event)), interface="responses")) is kind


def test_gzip() -> None:
    """A compressed stream is understood as well."""
    packed = gzip.compress(b"".join(HELLO))
    (chunks,), _ = play(answer(packed, content_type="text/event-stream", content_encoding="gzip"))
    assert chunks[-1].message.text == "Hello"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    """The key and the conversation never go to another place than the settings say."""

    async def main() -> None:
        async with serve() as other, serve(answer("", status, location=f"{other.url}/v1?token=x")) as server:
            provider = provider_at(server)
            with pytest.raises(
                ProviderError, match=rf"points to {other.url}/v1\. It was not followed"
            ) as caught:
                await ask(provider)
            await provider.aclose()
            assert not caught.value.retryable
            assert other.connections == 0

    anyio.run(main)


def test_cancelling_closes_the_connection() -> None:
    """Cancelling the reading task closes the socket at once, which the server sees."""

    async def main() -> None:
        async with serve(stream(*HELLO[:1], end="hold"), Answer(["hold"])) as server:
            provider = provider_at(server, Timeouts())
            for started in (True, False):
                server.gone.clear()
                async with anyio.create_task_group() as group:
                    group.start_soon(ask, provider)
                    while len(server.requests) < (1 if started else 2):
                        await anyio.sleep(0.005)
                    group.cancel_scope.cancel()
                with anyio.fail_after(5):
                    await server.gone.wait()
            await provider.aclose()

    anyio.run(main)


def test_leaving_the_stream_closes_the_connection() -> None:
    """A reader that stops reading and closes the stream closes the socket."""

    async def main() -> None:
        async with serve(stream(*HELLO[:1], end="hold")) as server:
            provider = provider_at(server, Timeouts())
            chunks = provider.stream(REQUEST)
            assert await anext(chunks) == TextDelta("Hel")
            await chunks.aclose()
            with anyio.fail_after(5):
                await server.gone.wait()
            await provider.aclose()

    anyio.run(main)


def test_the_end_of_the_answer_does_not_wait_for_the_server() -> None:
    """After [DONE] the reply is there even when the server keeps the stream open."""
    (chunks,), _ = play(stream(*HELLO, end="hold"))
    assert chunks[-1].message.text == "Hello"


def test_many_at_once() -> None:
    """Sixteen streams at once each get their own answer."""

    async def main() -> None:
        async with serve(*[stream(*HELLO)] * 16) as server:
            provider = provider_at(server, Timeouts())
            replies: list[str] = []

            async def one() -> None:
                reply = (await ask(provider))[-1]
                assert isinstance(reply, Reply)
                replies.append(reply.message.text)

            async with anyio.create_task_group() as group:
                for _ in range(16):
                    group.start_soon(one)
            await provider.aclose()
            assert replies == ["Hello"] * 16

    anyio.run(main)


def test_used_on_a_second_event_loop() -> None:
    """A provider that was used on one event loop works on the next."""
    held: list[HttpProvider] = []

    async def main() -> None:
        async with serve(stream(*HELLO)) as server:
            if not held:
                held.append(provider_at(server))
            else:
                held[0]._base = f"{server.url}/v1"
            assert len(await ask(held[0])) == 3
            await held[0].aclose()

    anyio.run(main)
    anyio.run(main)


def test_nobody_listens() -> None:
    """A refused connection and a name nobody knows are errors that name the place and the remedy."""

    async def main(url: str) -> str:
        provider = make("openai", environ={}, base_url=url, api_key=KEY)
        with pytest.raises(ConnectionFault) as caught:
            await ask(provider)
        await provider.aclose()
        assert caught.value.retryable
        return str(caught.value)

    assert "No connection to http://127.0.0.1:9/v1" in anyio.run(
        main, "http://user:secret@127.0.0.1:9/v1?x=y"
    )
    assert "Check that the server runs" in anyio.run(main, "http://no-such-host.invalid/v1")


def test_the_key_is_nowhere_to_be_seen(caplog: pytest.LogCaptureFixture) -> None:
    """The key is in no message, representation or log record, even when a server repeats it."""
    with caplog.at_level(logging.DEBUG):
        error = failure(answer({"message": f"who is {KEY}?"}, 500))
        failure(stream(*events(said(None, f"bad {KEY}"))))
        failure(answer(f"<p>{KEY}", content_type="text/html"))
    assert "who is [key]?" in str(error)
    provider = make("openai", environ={"OPENAI_API_KEY": KEY})
    everything = caplog.text + repr(provider) + str(error.__cause__) + repr(provider.dialect)
    assert KEY not in everything
    assert "httpcore2" in caplog.text


@pytest.mark.parametrize("key", ["sk-1\nX-Evil: 1", "“sk-1”", "sk\x00"])
def test_a_key_that_no_header_can_carry(key: str) -> None:
    """A key with line breaks or strange characters is refused before anything is sent, and not shown."""
    with pytest.raises(ConfigError, match="set it anew") as caught:
        make("openai", environ={"OPENAI_API_KEY": key})
    assert "sk" not in str(caught.value)
    assert make("openai", environ={"OPENAI_API_KEY": " sk-1\n"})._key == "sk-1"


def test_a_key_that_is_made_fresh() -> None:
    """A key may be a function that is asked before every request; its values are scrubbed as well."""
    keys = iter(["token-1", "token-2"])

    async def fresh() -> str:
        return next(keys)

    async def main(key: Callable[[], Awaitable[str]]) -> None:
        async with serve(stream(*HELLO), answer("no token-2", 401)) as server:
            about = provider_at(server).model_info
            provider = HttpProvider(
                "other", OpenAIChat("other"), base_url=server.url + "/?v=1", describe=about, key=key
            )
            await ask(provider)
            with pytest.raises(AuthenticationError, match=r"no \[key\]"):
                await ask(provider)
            await provider.aclose()
            assert [one.headers["authorization"] for one in server.requests] == [
                "Bearer token-1",
                "Bearer token-2",
            ]
            assert server.requests[0].path == "/chat/completions?v=1"

    anyio.run(main, fresh)


def test_slow_pieces_are_not_silence() -> None:
    """The idle limit counts from piece to piece, comments included, not over the whole answer."""
    ping = chunk(b": ping\n\n")
    steps = [stream().steps[0], 0.08, ping, 0.08, ping, 0.08, ping, 0.08, ping]
    script = Answer([*steps, *[chunk(piece) for piece in HELLO], b"0\r\n\r\n"])
    (chunks,), _ = play(script)
    assert chunks[-1].message.text == "Hello"


def test_the_request_body_is_what_the_dialect_encoded() -> None:
    """The bytes on the wire are the dialect's, with their exact length."""
    _, server = play(stream(*HELLO))
    expected = OpenAIChat().encode(REQUEST)
    assert server.requests[0].body == expected
    assert server.requests[0].headers["content-length"] == str(len(expected))
    assert json.loads(expected)["stream"] is True
