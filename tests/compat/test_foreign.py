"""An installed provider of the documented form does the agent's work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest

from jaato.abc.plugin import ToolSchema
from jaato.abc.provider import Chunk, ModelRequest, Reply, TextDelta
from jaato.errors import ConfigError, ConnectionFault, InvalidRequest, ProviderError
from jaato.protocol.messages import Media, Message, Text, ToolResult, Usage
from jaato.runtime.embedding.agent import Agent
from jaato.runtime.embedding.provider_adapter import SessionfulAdapter
from jaato.runtime.embedding.types import FinishReason, FunctionCall, ProviderConfig, ProviderResponse
from jaato.tools.cancel import CancelToken


class Echo:
    """A provider somebody wrote by the documents: it calls the tool named in the message, then repeats its result."""

    name = "echo"

    def __init__(self) -> None:
        self.sessions: list[tuple[str | None, list[str], list[Message]]] = []
        self.error: Exception | None = None
        self.hold = False
        self.cancelled = threading.Event()
        self.model = ""
        self.config = ProviderConfig()
        self.closed = 0

    def initialize(self, config: ProviderConfig | None = None) -> None:
        self.config = config or ProviderConfig()

    def connect(self, model: str) -> None:
        self.model = model

    def create_session(
        self,
        system_instruction: str | None = None,
        tools: Sequence[ToolSchema] | None = None,
        history: Sequence[Message] | None = None,
    ) -> None:
        self.sessions.append((system_instruction, [tool.name for tool in tools or ()], list(history or ())))

    def send_message(self, message: str) -> ProviderResponse:
        if self.error is not None:
            raise self.error
        names = self.sessions[-1][1]
        called = [FunctionCall("", name, {}) for name in names if name in message]
        return ProviderResponse(f"I heard {message}.", called, usage=Usage(5, 2))

    def send_message_streaming(
        self, message: str, on_chunk: Callable[[str], object], cancel_token: CancelToken | None = None
    ) -> ProviderResponse:
        on_chunk("I heard ")
        if self.hold and cancel_token is not None and cancel_token.wait(60):
            self.cancelled.set()
            return ProviderResponse("I heard ", finish_reason=FinishReason.CANCELLED)
        on_chunk(f"{message}.")
        return self.send_message(message)

    def send_tool_results(self, results: Sequence[ToolResult]) -> ProviderResponse:
        return ProviderResponse("It says " + ", ".join(str(result.result) for result in results))

    def get_history(self) -> list[Message]:
        return []

    def count_tokens(self, content: str) -> int:
        return len(content)

    def get_context_limit(self) -> int | None:
        return 1000

    def serialize_history(self, history: Sequence[Message]) -> str:
        return ""

    def deserialize_history(self, data: str) -> list[Message]:
        return []

    def supports_streaming(self) -> bool:
        return True

    def shutdown(self) -> None:
        self.closed += 1


def look() -> str:
    """Look around."""
    return "all is well"


@pytest.mark.spec("S3", "Model Provider Plugins (Provider Abstraction)")
def test_an_agent_works_with_a_documented_provider(tmp_path: Path) -> None:
    """A call it asks for is run, its result goes back through `send_tool_results`, with the history before it."""
    echo = Echo()
    echo.connect("m")
    agent = Agent(
        model="m", provider=SessionfulAdapter("echo", echo), tools=[look], plugins=[], system_prompt="Be kind.",
        workspace=tmp_path, state_dir=tmp_path / "state",
    )  # fmt: skip
    assert agent.run_sync("please look").text == "It says all is well"
    (system, names, before), (_, _, after) = echo.sessions
    assert (system, names, before) == ("Be kind.", ["look"], [])
    assert [m.role for m in after] == ["user", "assistant"]


@pytest.mark.spec("S3", "Model Provider Plugins (Provider Abstraction)")
def test_an_installed_provider_is_used_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`provider="echo"` finds the entry point, configures and connects it, and shuts it down in the end."""
    information = tmp_path / "echo-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: echo\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[jaato.model_providers]\necho = echo_provider:make\n")
    (tmp_path / "echo_provider.py").write_text(
        "from tests.compat.test_foreign import Echo\n\nmade = Echo()\n\n\ndef make():\n    return made\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    environ = {"HOME": str(tmp_path)}
    shared = {"plugins": [], "workspace": tmp_path, "state_dir": tmp_path / "state", "environ": environ}
    result = Agent(model="m", provider="echo", api_key="secret", **shared).run_sync("hello")  # type: ignore[arg-type]  # a dict of several types
    assert result.text == "I heard hello."
    import echo_provider  # type: ignore[import-not-found]  # written above

    made = echo_provider.made
    assert (made.model, made.config.api_key, made.closed) == ("m", "secret", 1)
    with pytest.raises(ConfigError, match="Say which model echo should use"):
        Agent(provider="echo", **shared).run_sync("hello")  # type: ignore[arg-type]  # as above
    with pytest.raises(ConfigError, match=r"no provider 'ecco'; choose one of .*echo"):
        Agent(model="m", provider="ecco", **shared).run_sync("hello")  # type: ignore[arg-type]  # as above


def request(*messages: Message) -> ModelRequest:
    """A request of these messages."""
    return ModelRequest("m", messages)


HELLO = Message("user", [Text("hello")])


async def whole(provider: SessionfulAdapter, asked: ModelRequest) -> list[Chunk]:
    """Every chunk of a stream."""
    return [chunk async for chunk in provider.stream(asked)]


def test_its_text_is_streamed_and_its_usage_kept() -> None:
    """The pieces come as deltas, then the reply with finish reason and usage; the limit is the plugin's."""
    provider = SessionfulAdapter("echo", Echo())
    *deltas, reply = anyio.run(whole, provider, request(HELLO))
    assert deltas == [TextDelta("I heard "), TextDelta("hello.")]
    assert isinstance(reply, Reply)
    assert (reply.message.text, reply.finish_reason, reply.usage) == ("I heard hello.", "stop", Usage(5, 2))
    assert provider.model_info("m").context_limit == 1000


def test_leaving_the_stream_cancels_the_plugins_token() -> None:
    """When the loop stops reading, the plugin is told to stop."""
    echo = Echo()
    echo.hold = True

    async def main() -> None:
        stream = SessionfulAdapter("echo", echo).stream(request(HELLO))
        assert await anext(stream) == TextDelta("I heard ")
        await stream.aclose()

    anyio.run(main)
    assert echo.cancelled.wait(60)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(RuntimeError("boom"), ProviderError), (TimeoutError("late"), ConnectionFault), (InvalidRequest("no"), InvalidRequest)],
)  # fmt: skip
def test_what_it_raises_becomes_one_of_our_errors(error: Exception, kind: type[ProviderError]) -> None:
    """A foreign exception names the provider; lost connections can be tried again; our own errors stay."""
    echo = Echo()
    echo.error = error
    with pytest.raises(kind, match=str(error)):
        anyio.run(whole, SessionfulAdapter("echo", echo), request(HELLO))


def test_an_image_is_refused_in_words() -> None:
    """The documented form takes text; an image is an `InvalidRequest` that says so, never dropped."""
    image = Message("user", [Text("look"), Media("image/png", "0" * 64)])
    with pytest.raises(InvalidRequest, match="text only"):
        anyio.run(whole, SessionfulAdapter("echo", Echo()), request(image))
