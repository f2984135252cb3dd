"""The sessionful form of a provider: a conversation by blocking calls over the stateless form."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from jaato.abc.plugin import ToolSchema
from jaato.abc.provider import Chunk, ModelRequest, TextDelta
from jaato.agent.retry import with_retry
from jaato.errors import ConfigError, PluginError
from jaato.protocol.messages import Message, Text, Usage
from jaato.protocol.specs import ModelInfo
from jaato.providers.scripted import Answer, ScriptedCall, ScriptedProvider, Step
from jaato.runtime.embedding.providers import ProviderPlugin, load_provider
from jaato.runtime.embedding.types import FinishReason, ProviderConfig, Role, ToolResult
from jaato.tools.cancel import CancelToken

USAGE = Usage(input_tokens=12, output_tokens=3)
GREET = ToolSchema("greet", "Say hello", {})


def begun(script: Sequence[Answer], **session: Any) -> tuple[ProviderPlugin, ScriptedProvider]:
    """A connected provider that plays a script, with a conversation begun."""
    scripted = ScriptedProvider(script, keep_requests=True)
    provider = ProviderPlugin(provider=scripted)
    provider.initialize(ProviderConfig())
    provider.connect("script")
    provider.create_session(**session)
    return provider, scripted


@pytest.mark.spec("S3", "Model Provider Plugins (Provider Abstraction)", "S3.providers.2")
def test_a_conversation_goes_on() -> None:
    """Each message is sent with all that was said before, the instruction and the tools; the response has it all."""
    provider, scripted = begun(
        [Step("Hi.", usage=USAGE), Step("Bye.")], system_instruction="Be kind.", tools=[GREET]
    )
    first = provider.send_message("Hello!")
    assert (first.text, first.function_calls, first.finish_reason) == ("Hi.", [], FinishReason.STOP)
    assert first.usage == USAGE
    provider.send_message("And now?")
    assert [(m.role, m.text) for m in provider.get_history()] == [
        ("user", "Hello!"), ("assistant", "Hi."), ("user", "And now?"), ("assistant", "Bye."),
    ]  # fmt: skip
    request = scripted.requests[1]
    assert [m.text for m in request.messages] == ["Hello!", "Hi.", "And now?"]
    assert (request.system, [t.name for t in request.tools]) == ("Be kind.", ["greet"])
    assert request.tools[0].parameters == {"type": "object", "properties": {}}


@pytest.mark.spec("S3", "Model Provider Plugins (Provider Abstraction)")
def test_calls_are_answered_with_send_tool_results() -> None:
    """A response carries the calls; their results go back under their ids and the model goes on."""
    calls = [ScriptedCall("greet", {"n": 1}), ScriptedCall("greet", {"n": 2})]
    provider, scripted = begun([Step("Let me.", calls=calls), Step("Done.")], tools=[GREET])
    response = provider.send_message("Greet twice.")
    assert response.finish_reason is FinishReason.TOOL_CALLS
    assert [(fc.name, fc.args) for fc in response.function_calls] == [
        ("greet", {"n": 1}),
        ("greet", {"n": 2}),
    ]
    results = [
        ToolResult(call_id=fc.id, name=fc.name, result={"said": fc.args["n"]})
        for fc in response.function_calls
    ]
    assert provider.send_tool_results(results).text == "Done."
    sent = scripted.requests[1].messages[-1]
    assert (sent.role, sent.parts) == ("tool", results)


def test_a_tool_whose_name_no_provider_takes_keeps_it_in_calls() -> None:
    """The name is mangled on the wire only: the call carries the name that was declared."""

    def script(request: ModelRequest) -> Step:
        return Step(calls=[ScriptedCall(request.tools[0].name, {})])

    provider, scripted = begun([script], tools=[ToolSchema("greet.größe", "Say hello", {})])
    assert [fc.name for fc in provider.send_message("Go.").function_calls] == ["greet.größe"]
    assert scripted.requests[0].tools[0].name.isascii()


@pytest.mark.spec("S3", "Streaming Provider Support")
def test_text_is_heard_as_it_comes_in_the_callers_thread() -> None:
    """Each piece is given to `on_chunk`, in the thread that asked."""
    provider, _ = begun([Step("one two three", chunks=3)])
    heard: list[tuple[str, bool]] = []
    here = threading.get_ident()
    assert provider.supports_streaming() is True
    response = provider.send_message_streaming(
        "Count.", on_chunk=lambda text: heard.append((text, threading.get_ident() == here))
    )
    assert [text for text, _ in heard] == ["one t", "wo th", "ree"]
    assert all(same for _, same in heard)
    assert response.text == "one two three"


class Endless:
    """A provider that says a word and then waits for ever; `closed` is set when its stream is let go."""

    name = "endless"

    def __init__(self) -> None:
        self.closed = threading.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        try:
            yield TextDelta("Once upon ")
            yield TextDelta("a time")
            await anyio.sleep_forever()
        finally:
            self.closed.set()

    def model_info(self, model: str) -> ModelInfo:
        return ModelInfo(model, self.name)

    async def models(self) -> list[ModelInfo]:
        return []

    async def aclose(self) -> None: ...


def endless() -> tuple[ProviderPlugin, Endless]:
    """A conversation with it."""
    source = Endless()
    provider = ProviderPlugin(provider=source)
    provider.connect("m")
    provider.create_session()
    return provider, source


@pytest.mark.spec("S3", "Streaming Provider Support", "S3.streaming.1")
def test_a_cancelled_stream_gives_what_was_said() -> None:
    """The response is the partial text with `FinishReason.CANCELLED`; the stream is closed, the history keeps both."""
    provider, source = endless()
    token = CancelToken()

    def heard(text: str) -> None:
        if text == "a time":
            threading.Thread(target=token.cancel).start()

    response = provider.send_message_streaming("Tell me a story", on_chunk=heard, cancel_token=token)
    assert (response.text, response.finish_reason) == ("Once upon a time", FinishReason.CANCELLED)
    assert source.closed.wait(60)
    assert [m.text for m in provider.get_history()] == ["Tell me a story", "Once upon a time"]


@pytest.mark.spec("S3", "Cancellation Points", "S3.points.1")
def test_a_cancelled_token_sends_nothing() -> None:
    """Before a message is sent, a cancelled token returns immediately and leaves the history alone."""
    provider, scripted = begun([Step("Hi.")])
    token = CancelToken()
    token.cancel()
    response = provider.send_message_streaming("Hello!", on_chunk=print, cancel_token=token)
    assert (response.text, response.finish_reason) == ("", FinishReason.CANCELLED)
    assert (provider.get_history(), scripted.requests) == ([], [])


def test_what_on_chunk_raises_comes_out_and_closes_the_stream() -> None:
    """The listener's exception is the caller's; nobody goes on reading, and the history is as it was."""
    provider, source = endless()

    def refuse(_text: str) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        provider.send_message_streaming("Tell me", on_chunk=refuse)
    assert source.closed.wait(60)
    assert provider.get_history() == []


@pytest.mark.spec("S3", "Interruptible Retry")
def test_a_failed_message_can_be_sent_again() -> None:
    """A failure leaves the history as it was, so that a retry says nothing twice."""
    provider, scripted = begun([Step("Hi.", error="rate_limited", retry_after_s=0.0), Step("Hello.")])
    response, stats = with_retry(lambda: provider.send_message("Hello!"), context="send_message")
    assert (response.text, stats.attempts) == ("Hello.", 2)
    assert [m.text for m in scripted.requests[1].messages] == ["Hello!"]
    assert [m.text for m in provider.get_history()] == ["Hello!", "Hello."]


@pytest.mark.spec("S3", "Model Provider Plugins (Provider Abstraction)")
def test_history_is_serialized_and_goes_on_elsewhere() -> None:
    """Serialized history comes back equal and a new conversation continues it; anything else is refused."""
    provider, _ = begun([Step("Hi.", calls=[ScriptedCall("greet", {})])])
    provider.send_message("Hello — ü!")
    data = provider.serialize_history(provider.get_history())
    assert isinstance(data, str)
    history = provider.deserialize_history(data)
    assert history == provider.get_history()
    other, scripted = begun([Step("x"), Step("Again.")], history=history)
    assert other.send_message("Go on.").text == "Again."
    assert list(scripted.requests[0].messages[:2]) == history
    for damaged in ("", "{}", '[{"role": "boss", "parts": []}]', "[", "\ud800"):
        with pytest.raises(ConfigError, match="no serialized history"):
            provider.deserialize_history(damaged)


def test_a_new_session_forgets_the_old_one() -> None:
    """`create_session` begins anew: history, instruction and tools."""
    provider, scripted = begun([Step("Hi."), Step("Hi.")], system_instruction="Be kind.", tools=[GREET])
    provider.send_message("one")
    provider.create_session()
    provider.send_message("two")
    request = scripted.requests[1]
    assert ([m.text for m in request.messages], request.system, list(request.tools)) == (["two"], "", [])


@pytest.mark.spec("S3", "Model Provider Plugins (Provider Abstraction)")
def test_tokens_are_counted_and_the_limit_is_known() -> None:
    """A text's tokens are estimated from its bytes; the context limit is the model's, None when nobody knows it."""
    provider, _ = begun([])
    assert provider.get_context_limit() == 128_000
    assert [provider.count_tokens(text) for text in ("", "a", "abcd", "abcde", "漢字")] == [0, 1, 1, 2, 2]
    assert endless()[0].get_context_limit() is None


def test_messages_need_a_connection_and_words() -> None:
    """Each mistake names what to do first."""
    provider = ProviderPlugin("anthropic")
    with pytest.raises(ConfigError, match=r"anthropic is not connected; call connect\(model\)"):
        provider.send_message("Hello!")
    connected, scripted = begun([Step("Hi.")])
    with pytest.raises(ConfigError, match="empty"):
        connected.send_message("")
    assert connected.send_message(Message(Role.USER, [Text("Hello!")])).text == "Hi."
    with pytest.raises(PluginError, match="tool"):
        connected.create_session(tools=[ToolSchema("bad", "", {"type": "strange"})])
    assert len(scripted.requests) == 1


def test_a_key_that_is_missing_is_named(tmp_path: Path) -> None:
    """`connect` says which variable to set; `shutdown` may come at any time, and twice."""
    provider = load_provider("anthropic", ProviderConfig(environ={"HOME": str(tmp_path)}))
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        provider.connect("claude-sonnet-5")
    provider.shutdown()
    provider.initialize(ProviderConfig(api_key="k", environ={"HOME": str(tmp_path)}))
    provider.connect("claude-sonnet-5")
    assert provider.get_context_limit()
    provider.shutdown()
    provider.shutdown()
    with pytest.raises(ConfigError, match="not connected"):
        provider.send_message("Hello!")


def test_two_conversations_at_once_do_not_mix() -> None:
    """Two objects used by two threads keep their own histories."""
    made = [begun([Step(f"{who} {n}") for n in range(20)])[0] for who in "ab"]

    def talk(provider: ProviderPlugin) -> None:
        for n in range(20):
            provider.send_message(str(n))

    threads = [threading.Thread(target=talk, args=(provider,)) for provider in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for provider, who in zip(made, "ab", strict=True):
        said = [m.text for m in provider.get_history() if m.role == "assistant"]
        assert said == [f"{who} {n}" for n in range(20)]
