"""The transport: connections, cancellation, keys, forms of answers."""

from __future__ import annotations

import gc
import gzip
import json
import logging
from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.providers.asking import (
    HELLO,
    KEY,
    REQUEST,
    ask,
    failure,
    play,
    provider_at,
    said,
)
from tests.providers.server import Answer, answer, events, serve, stream

from jaato.abc.provider import ModelRequest, Reply, TextDelta
from jaato.errors import (
    AuthenticationError,
    ConfigError,
    ModelNotFound,
)
from jaato.providers.http import HttpProvider
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.profiles import make_provider


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


def test_gzip() -> None:
    """A compressed stream is understood as well."""
    packed = gzip.compress(b"".join(HELLO))
    (chunks,), _ = play(answer(packed, content_type="text/event-stream", content_encoding="gzip"))
    assert chunks[-1].message.text == "Hello"


def test_cancelling_closes_the_connection() -> None:
    """Cancelling the reading task closes the socket at once, which the server sees."""

    async def main() -> None:
        async with serve(stream(*HELLO[:1], end="hold"), Answer(["hold"])) as server:
            provider = provider_at(server)
            for started in (True, False):
                server.gone.clear()
                async with anyio.create_task_group() as group:
                    group.start_soon(ask, provider)
                    while len(server.requests) < (1 if started else 2):
                        await anyio.sleep(0.005)
                    group.cancel_scope.cancel()
                with anyio.fail_after(60):
                    await server.gone.wait()
            await provider.aclose()

    anyio.run(main)


def test_cancelling_at_any_step_leaves_a_provider_that_works() -> None:
    """Wherever the loop stands when the task is cancelled, nothing is raised or left open, and the next answer is whole."""

    async def main() -> None:
        async with serve(*[stream(*HELLO)] * 200) as server:
            provider = provider_at(server)
            ended: list[int] = []
            steps = 0

            async def listen() -> None:
                await ask(provider)
                ended.append(steps)

            while len(ended) < 3:
                steps += 1
                async with anyio.create_task_group() as group:
                    group.start_soon(listen)
                    for _ in range(steps):
                        await checkpoint()
                    group.cancel_scope.cancel()
            assert steps > 3
            assert (await ask(provider))[-1].message.text == "Hello"  # type: ignore[union-attr]
            await provider.aclose()

    anyio.run(main)


def test_leaving_the_stream_closes_the_connection() -> None:
    """A reader that stops reading and closes the stream closes the socket."""

    async def main() -> None:
        async with serve(stream(*HELLO[:1], end="hold")) as server:
            provider = provider_at(server)
            chunks = provider.stream(REQUEST)
            assert await anext(chunks) == TextDelta("Hel")
            await chunks.aclose()
            with anyio.fail_after(60):
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
            provider = provider_at(server)
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


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_used_on_a_second_event_loop() -> None:
    """A provider whose connection was left open on an event loop that has ended works on the next one."""
    held: list[HttpProvider] = []

    async def main() -> None:
        async with serve(stream(*HELLO)) as server:
            if not held:
                held.append(provider_at(server))
            held[0]._base = f"{server.url}/v1"
            assert len(await ask(held[0])) == 3

    anyio.run(main)
    first = held[0]._pool
    anyio.run(main)
    assert held[0]._pool is not first
    first = held[0]._pool = None
    gc.collect()  # the abandoned sockets say so here and not in another test


def test_the_key_is_nowhere_to_be_seen(caplog: pytest.LogCaptureFixture) -> None:
    """The key is in no message, representation or log record, even when a server repeats it."""
    with caplog.at_level(logging.DEBUG):
        error = failure(answer({"message": f"who is {KEY}?"}, 500))
        failure(stream(*events(said(None, f"bad {KEY}"))))
        failure(answer(f"<p>{KEY}", content_type="text/html"))
    assert "who is [key]?" in str(error)
    provider = make_provider("openai", environ={"OPENAI_API_KEY": KEY})
    everything = caplog.text + repr(provider) + str(error.__cause__) + repr(provider.dialect)
    assert KEY not in everything
    assert "httpcore2" in caplog.text


@pytest.mark.parametrize("key", ["o", "ollama", "", " "])
def test_a_key_that_is_no_secret_mangles_nothing(key: str) -> None:
    """A key too short to be one, as servers that want any take it, is left in messages: they are full of its letters."""

    async def main() -> str:
        async with serve(answer({"error": "no such model: ollama/o"}, 404)) as server:
            provider = make_provider("openai", environ={}, base_url=f"{server.url}/v1", api_key=key)
            with pytest.raises(ModelNotFound) as caught:
                await ask(provider)
            await provider.aclose()
        return str(caught.value)

    assert anyio.run(main).endswith("(404): no such model: ollama/o.")


@pytest.mark.parametrize("key", ["sk-1\nX-Evil: 1", "“sk-1”", "sk\x00"])
def test_a_key_that_no_header_can_carry(key: str) -> None:
    """A key with line breaks or strange characters is refused before anything is sent, and not shown."""
    with pytest.raises(ConfigError, match="set it anew") as caught:
        make_provider("openai", environ={"OPENAI_API_KEY": key})
    assert "sk" not in str(caught.value)
    assert "“" not in str(caught.value)
    assert make_provider("openai", environ={"OPENAI_API_KEY": " sk-1\n"})._key == "sk-1"


def test_a_key_that_is_made_fresh() -> None:
    """A key may be a function that is asked before every request; its values are scrubbed as well."""
    keys = iter(["token-01", "token-02"])

    async def fresh() -> str:
        return next(keys)

    async def main(key: Callable[[], Awaitable[str]]) -> None:
        async with serve(stream(*HELLO), answer("no token-02", 401)) as server:
            about = provider_at(server).model_info
            provider = HttpProvider(
                "other", OpenAIChat("other"), base_url=server.url + "/?v=1", describe=about, key=key
            )
            await ask(provider)
            with pytest.raises(AuthenticationError, match=r"no \[key\]"):
                await ask(provider)
            await provider.aclose()
            assert [one.headers["authorization"] for one in server.requests] == [
                "Bearer token-01",
                "Bearer token-02",
            ]
            assert server.requests[0].path == "/chat/completions?v=1"

    anyio.run(main, fresh)


@pytest.mark.parametrize(
    ("offered", "end"),
    [
        (["qwen3:8b", "qwen3:14b", "llama3.3"], "Did you mean qwen3:8b or qwen3:14b?"),
        (["a", "b", "c", "d", "e", "f"], "It offers a, b, c, d, e, …; choose one with --model or /model."),
        (None, "model 'qwen3:8' not found."),
    ],
)
def test_an_unknown_model_names_those_like_it(offered: list[str] | None, end: str) -> None:
    """The error for a model nobody knows suggests up to three like it, else names those that are offered; without a list it
    stands alone."""
    rows = {"data": [{"id": name} for name in offered or ()]}
    listing = answer("no list", 404) if offered is None else answer(rows)

    async def main() -> str:
        async with serve(answer(said(None, "model 'qwen3:8' not found"), 404), listing) as server:
            provider = provider_at(server)
            with pytest.raises(ModelNotFound) as caught:
                async for _ in provider.stream(ModelRequest("qwen3:8", REQUEST.messages)):
                    pass
            await provider.aclose()
            return str(caught.value)

    text = anyio.run(main)
    assert text.endswith(end)


def test_the_request_body_is_what_the_dialect_encoded() -> None:
    """The bytes on the wire are the dialect's, with their exact length."""
    _, server = play(stream(*HELLO))
    expected = OpenAIChat().encode(REQUEST)
    assert server.requests[0].body == expected
    assert server.requests[0].headers["content-length"] == str(len(expected))
    assert json.loads(expected)["stream"] is True


def test_a_kept_connection_that_the_server_has_closed() -> None:
    """A server that closes the connection after its answer costs a new connection, not an error."""
    last = Answer([*stream(*HELLO).steps, "close"])
    outcomes, server = play(last, last, last, count=3)
    assert [outcome[-1].message.text for outcome in outcomes] == ["Hello"] * 3
    assert server.connections == 3


def test_an_extra_header_that_cannot_be_sent() -> None:
    """A header value with a line break is refused when the provider is made."""
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_ORG_ID": "org\r\nX-Evil: 1"}
    with pytest.raises(ConfigError, match="OpenAI-Organization"):
        make_provider("openai", environ=environ)
