"""The transport against a server that misbehaves in every way it can."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.providers.asking import HELLO, KEY, PATIENT, QUICK, ask, call, failure, play, provider_at, said
from tests.providers.server import Answer, answer, chunk, events, head, serve, stream

from jaato.abc.provider import CallDelta, ModelRequest
from jaato.errors import (
    ConnectionFault,
    ContextOverflow,
    InvalidRequest,
    MalformedReply,
    ProviderError,
    RateLimited,
    ServerFault,
)
from jaato.protocol.specs import ModelSettings
from jaato.providers.http import Timeouts
from jaato.providers.profiles import make_provider


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
        (
            answer(b"\x0b", content_type="text/event-stream", content_encoding="br"),
            MalformedReply,
            "coding 'br'",
        ),
        (answer(b"\x0b", content_type="application/json", content_encoding="zstd"), MalformedReply, "'zstd'"),
        (answer(b"\x0b", 500, content_encoding="gzip, br"), ServerFault, "(500)."),
        (answer("<p>hello</p>", content_type="text/event-stream"), MalformedReply, "<p>hello</p>"),
        (answer(": ping\n\n", content_type="text/event-stream"), ConnectionFault, "before the model"),
        (answer("da", content_type="text/event-stream"), ConnectionFault, "before the model"),
    ],
)
def test_faults(script: Answer, kind: type[ProviderError], words: str) -> None:
    """Whatever goes wrong on the wire is one typed error that names the place; each may be tried again."""
    error = failure(script, timeouts=QUICK if "silent" in words else PATIENT)
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


def test_megabytes_without_an_event_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage of many short lines is refused at the same bound as one long line."""
    monkeypatch.setattr("jaato.providers.http.MAX_EVENT_BYTES", 100_000)
    error = failure(stream(*[b"junk\n" * 10_000] * 4, end="hold"))
    assert isinstance(error, MalformedReply)
    assert "no stream of events where a model's stream was expected: 'junk junk" in str(error)


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


def test_nobody_listens() -> None:
    """A refused connection and a name nobody knows are errors that name the place and the remedy."""

    async def main(url: str) -> str:
        provider = make_provider("openai", environ={}, base_url=url, api_key=KEY)
        with pytest.raises(ConnectionFault) as caught:
            await ask(provider)
        await provider.aclose()
        assert caught.value.retryable
        return str(caught.value)

    assert "No connection to http://127.0.0.1:9/v1" in anyio.run(
        main, "http://user:secret@127.0.0.1:9/v1?x=y"
    )
    assert "Check that the server runs" in anyio.run(main, "http://no-such-host.invalid/v1")


def test_slow_pieces_are_not_silence() -> None:
    """The idle limit counts from piece to piece, comments included, not over the whole answer."""
    ping = chunk(b": ping\n\n")
    steps = [stream().steps[0], 0.3, ping, 0.3, ping, 0.3, ping, 0.3, ping]
    script = Answer([*steps, *[chunk(piece) for piece in HELLO], b"0\r\n\r\n"])
    (chunks,), _ = play(script, timeouts=Timeouts(first_byte_s=600.0, idle_s=1.0))
    assert chunks[-1].message.text == "Hello"


def test_the_two_waits_are_two() -> None:
    """The wait for the first byte ends with the headers; from then on the idle limit holds."""
    late = Answer([stream().steps[0], 0.6, *[chunk(piece) for piece in HELLO], b"0\r\n\r\n"])
    (chunks,), _ = play(late, timeouts=Timeouts(first_byte_s=0.3, idle_s=600.0))
    assert chunks[-1].message.text == "Hello"
    silent = stream(*HELLO[:1], end="hold")
    error = failure(silent, timeouts=Timeouts(first_byte_s=600.0, idle_s=0.2))
    assert "silent for too long" in str(error)


def test_what_cannot_be_encoded_is_an_error_of_the_provider() -> None:
    """A request that cannot be made is refused under the provider's name, and nothing is sent."""

    async def main() -> None:
        async with serve(stream(*HELLO)) as server:
            provider = provider_at(server, interface="responses")
            request = ModelRequest("m", [], settings=ModelSettings(stop=["END"]))
            with pytest.raises(InvalidRequest) as caught:
                await anext(provider.stream(request))
            assert caught.value.provider == "openai"
            assert server.requests == []

    anyio.run(main)


def test_a_refused_redirect_lets_go_of_its_connection() -> None:
    """After a redirect that was not followed the connection is closed, though its body never came."""

    async def main() -> None:
        redirect = head(302, {"location": "https://elsewhere.test/", "content-length": "100"})
        async with serve(Answer([redirect, "hold"])) as server:
            provider = provider_at(server)
            with pytest.raises(ProviderError, match="elsewhere"):
                await ask(provider)
            with anyio.fail_after(60):
                await server.gone.wait()
            await provider.aclose()

    anyio.run(main)
