"""Model providers by name in their documented, sessionful form: a conversation kept over one of the stateless providers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from queue import SimpleQueue
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import msgspec

from jaato.abc.plugin import ENTRY_POINT_GROUPS, ToolSchema
from jaato.abc.provider import Chunk, ModelRequest, Provider, Reply, TextDelta, no_blob
from jaato.agent.model import read_reply
from jaato.errors import ConfigError, PluginError
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Part, Text, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.runtime.embedding.portal import PORTAL
from jaato.runtime.embedding.types import (
    FinishReason,
    ProviderConfig,
    ProviderResponse,
    deserialize_history,
    serialize_history,
)
from jaato.runtime.known_providers import NAMES, environ_for, make_known_provider
from jaato.runtime.plugins.adapter import spec_of
from jaato.runtime.plugins.discovery import entry_points_of
from jaato.settings import load
from jaato.tools.cancel import CancelToken

BYTES_PER_TOKEN = 4
OnChunk = Callable[[str], object]
ReadBlob = Callable[[str], bytes]


@runtime_checkable
class ModelProviderPlugin(Protocol):
    """What a model provider of the documented shape offers: one conversation at a time, by blocking calls."""

    @property
    def name(self) -> str: ...

    def initialize(self, config: ProviderConfig | None = None) -> None: ...

    def connect(self, model: str) -> None: ...

    def create_session(
        self,
        system_instruction: str | None = None,
        tools: Sequence[ToolSchema] | None = None,
        history: Sequence[Message] | None = None,
    ) -> None: ...

    def send_message(self, message: str) -> ProviderResponse: ...

    def send_message_streaming(
        self, message: str, on_chunk: OnChunk, cancel_token: CancelToken | None = None
    ) -> ProviderResponse: ...

    def send_tool_results(self, results: Sequence[ToolResult]) -> ProviderResponse: ...

    def get_history(self) -> list[Message]: ...

    def count_tokens(self, content: str) -> int: ...

    def get_context_limit(self) -> int | None: ...

    def serialize_history(self, history: Sequence[Message]) -> str: ...

    def deserialize_history(self, data: str) -> list[Message]: ...

    def supports_streaming(self) -> bool: ...

    def shutdown(self) -> None: ...


class ProviderPlugin:
    """A conversation over a provider: `initialize`, `connect`, `create_session`, then messages; `shutdown` ends it.

    A call that fails raises a `ProviderError` and leaves the history as it was, so it can be made again. Use one
    object from one thread at a time; several objects may work at once.
    """

    name: str = ""

    def __init__(self, name: str | None = None, *, provider: Provider | None = None) -> None:
        self.name = name or self.name or (provider.name if provider is not None else "")
        self._provider = provider
        self._owned = provider is None
        self._config = ProviderConfig()
        self._model: str | None = None
        self._history: list[Message] = []
        self._system = ""
        self._tools: list[ToolSpec] = []
        self._originals: dict[str, str] = {}
        self._encoded: dict[Any, Any] = {}
        self._conversation = new_id("s")
        self._read_blob: ReadBlob = no_blob

    def initialize(self, config: ProviderConfig | None = None) -> None:
        """Say how the provider is reached. Raises `ConfigError` when it cannot be connected to like that."""
        self._config = config or ProviderConfig()

    def connect(self, model: str) -> None:
        """Say which model answers; nothing is sent yet. Raises `ConfigError` naming the key that is missing."""
        if self._owned:
            self._close()
            given = self._config
            environ = environ_for(given.project, given.location, given.environ)
            settings = load({"provider": self.name, "base_url": given.base_url}, environ=environ)
            self._provider = make_known_provider(self.name, settings, model=model, api_key=given.api_key)[0]
        self._model = model
        self._encoded = {}

    def create_session(
        self,
        system_instruction: str | None = None,
        tools: Sequence[ToolSchema] | None = None,
        history: Sequence[Message] | None = None,
        *,
        read_blob: ReadBlob = no_blob,
    ) -> None:
        """Begin a conversation, or go on with `history`. `read_blob` gives the bytes of its images by their digest.

        Raises `PluginError` for a declaration that is no JSON Schema.
        """
        declared = [(schema.name, spec_of(schema, self.name)) for schema in tools or ()]
        self._system = system_instruction or ""
        self._tools = [spec for _, spec in declared]
        self._originals = {spec.name: name for name, spec in declared if name != spec.name}
        self._history = list(history or ())
        self._encoded = {}
        self._conversation = new_id("s")
        self._read_blob = read_blob

    def send_message(self, message: str | Message) -> ProviderResponse:
        """Say something and wait for the reply. Raises `ProviderError`s."""
        return self._exchange(to_message(message))

    def send_message_streaming(
        self, message: str | Message, on_chunk: OnChunk, cancel_token: CancelToken | None = None
    ) -> ProviderResponse:
        """The same, with each piece of text given to `on_chunk` in this thread as it comes.

        A cancelled token closes the stream: the response has the text so far and `FinishReason.CANCELLED`.
        """
        return self._exchange(to_message(message), on_chunk, cancel_token)

    def send_tool_results(
        self,
        results: Sequence[ToolResult],
        on_chunk: OnChunk | None = None,
        cancel_token: CancelToken | None = None,
    ) -> ProviderResponse:
        """Give the model what its calls gave, and wait for the reply."""
        return self._exchange(Message("tool", list(results)), on_chunk, cancel_token)

    def get_history(self) -> list[Message]:
        """The conversation so far."""
        return list(self._history)

    def count_tokens(self, content: str) -> int:
        """About how many tokens a text is: a quarter of its bytes, rounded up."""
        return -(-len(content.encode("utf-8", "replace")) // BYTES_PER_TOKEN)

    def get_context_limit(self) -> int | None:
        """How many tokens the model's context holds; None when that is not known."""
        provider, model = self._require_connected()
        return provider.model_info(model).context_limit

    def serialize_history(self, history: Sequence[Message]) -> str:
        """Messages as text that `deserialize_history` reads."""
        return serialize_history(history)

    def deserialize_history(self, data: str) -> list[Message]:
        """Messages from `serialize_history`. Raises `ConfigError` for anything else."""
        return deserialize_history(data)

    def supports_streaming(self) -> bool:
        """Whether text comes as it is written: always."""
        return True

    def shutdown(self) -> None:
        """Close the connections; `connect` opens them anew."""
        if self._owned:
            self._close()

    def _close(self) -> None:
        provider, self._provider = self._provider, None
        if provider is not None:
            PORTAL.call(provider.aclose())

    def _require_connected(self) -> tuple[Provider, str]:
        if self._provider is None or self._model is None:
            raise ConfigError(f"The provider {self.name} is not connected; call connect(model) first.")
        return self._provider, self._model

    def _exchange(
        self, message: Message, on_chunk: OnChunk | None = None, token: CancelToken | None = None
    ) -> ProviderResponse:
        provider, model = self._require_connected()
        if token is not None and token.is_cancelled:
            return ProviderResponse(finish_reason=FinishReason.CANCELLED)
        request = ModelRequest(
            model=model,
            messages=[*self._history, message],
            system=self._system,
            tools=self._tools,
            settings=self._config.settings,
            conversation_id=self._conversation,
            read_blob=self._read_blob,
            encoded=self._encoded,
        )
        texts: list[str] = []
        reply = read_reply_blocking(provider, request, texts, on_chunk, token)
        if reply is None:
            text = "".join(texts)
            partial: list[Part] = [Text(text)] if text else []
            kept = [Message("assistant", partial, id=new_id("m"))] if partial else []
            self._history += [message, *kept]
            return ProviderResponse(
                text, finish_reason=FinishReason.CANCELLED, message=kept[0] if kept else None
            )
        answer = msgspec.structs.replace(
            reply.message, id=reply.message.id or new_id("m"), provider=provider.name, model=model
        )
        self._history += [message, answer]
        calls = [
            msgspec.structs.replace(call, name=self._originals.get(call.name, call.name))
            for call in answer.function_calls
        ]
        return ProviderResponse(answer.text, calls, FinishReason(reply.finish_reason), reply.usage, answer)


def to_message(message: str | Message) -> Message:
    """A user message. Raises `ConfigError` when it is empty."""
    if isinstance(message, Message):
        return message
    if not message:
        raise ConfigError("The message is empty; say what the model should do.")
    return Message("user", [Text(message)], id=new_id("m"))


def read_reply_blocking(
    provider: Provider,
    request: ModelRequest,
    texts: list[str],
    on_chunk: OnChunk | None,
    token: CancelToken | None,
) -> Reply | None:
    """The reply, read on the loop while this thread receives its text; None when the token was cancelled.

    Whatever `on_chunk` raises closes the stream and is raised.
    """
    queue: SimpleQueue[str | None] = SimpleQueue()

    def on_chunk_received(chunk: Chunk) -> None:
        if isinstance(chunk, TextDelta):
            queue.put(chunk.text)

    future = PORTAL.start(read_reply(provider, request, on_chunk_received))
    future.add_done_callback(lambda _: queue.put(None))
    forget = token.on_cancel(future.cancel) if token is not None else lambda: None
    try:
        while (text := queue.get()) is not None:
            texts.append(text)
            if on_chunk is not None:
                on_chunk(text)
        return future.result()
    except CancelledError:
        if token is not None and token.is_cancelled:
            return None
        raise
    except BaseException:
        future.cancel()
        raise
    finally:
        forget()


class GoogleGenAIProvider(ProviderPlugin):
    """Gemini, with a key or on Vertex AI."""

    name = "google_genai"


class AnthropicProvider(ProviderPlugin):
    """Claude, with extended thinking and prompt caching."""

    name = "anthropic"


class GitHubModelsProvider(ProviderPlugin):
    """The models of GitHub Models."""

    name = "github_models"


DOCUMENTED: dict[str, type[ProviderPlugin]] = {
    kind.name: kind for kind in (GoogleGenAIProvider, AnthropicProvider, GitHubModelsProvider)
}


def discover_providers() -> dict[str, Callable[[], ModelProviderPlugin]]:
    """What makes each provider, by name: the known ones, and those of the entry points `jaato.model_providers`.

    Nothing of a package is imported before its entry is called; a package cannot replace a known provider.
    """
    found: dict[str, Callable[[], ModelProviderPlugin]] = {
        name: DOCUMENTED.get(name) or partial(ProviderPlugin, name) for name in NAMES
    }
    for point in entry_points_of(ENTRY_POINT_GROUPS["model_provider"]):
        found.setdefault(point.name, partial(load_installed, point.name, point.load))
    return found


def load_provider(name: str, config: ProviderConfig | None = None) -> ModelProviderPlugin:
    """A new provider of this name, initialised if a configuration is given. Raises `PluginError`."""
    found = discover_providers()
    if name not in found:
        raise PluginError(f"There is no model provider {name!r}; found are {', '.join(sorted(found))}.")
    provider = found[name]()
    if config is not None:
        provider.initialize(config)
    return provider


def load_installed(name: str, load: Callable[[], Any]) -> ModelProviderPlugin:
    """A provider from an entry point: a class, a function that makes one, or a module with `create_provider`.

    Raises `PluginError` naming what is wrong with it.
    """
    try:
        made = load()
        if isinstance(made, ModuleType):
            made = getattr(made, "create_provider", None) or made.create_plugin
        provider = made() if callable(made) else made
    except Exception as error:
        raise PluginError(
            f"The model provider {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(provider, ModelProviderPlugin):
        missing = sorted(
            attribute for attribute in METHODS if not callable(getattr(provider, attribute, None))
        )
        raise PluginError(f"The model provider {name!r} has no {', '.join(missing) or 'name'}.")
    return provider


METHODS = [name for name in vars(ModelProviderPlugin) if not name.startswith("_") and name != "name"]
