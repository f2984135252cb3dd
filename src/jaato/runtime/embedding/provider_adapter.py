"""A provider of the documented, sessionful form as one the agent's loop can use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable

from jaato.abc.plugin import ToolSchema
from jaato.abc.provider import Chunk, ModelRequest, Provider, Reply, TextDelta
from jaato.errors import ConfigError, ConnectionFault, InvalidRequest, JaatoError, ProviderError
from jaato.protocol.messages import Media, Message, Part, Text, ToolResult
from jaato.protocol.specs import ModelInfo
from jaato.runtime.embedding.providers import ModelProviderPlugin, discover_providers
from jaato.runtime.embedding.types import ProviderConfig, ProviderResponse
from jaato.runtime.provider_keys import load_key
from jaato.settings import Settings
from jaato.tools.cancel import CancelToken
from jaato.tools.task_records import start_thread


class SessionfulAdapter:
    """Each request becomes a session of the plugin, whose history is all but the last message, and one blocking call.

    The plugin is connected already. It works in a thread, on one request at a time; cancelling the stream cancels
    the token it was given. What it raises that is no error of ours becomes a `ProviderError`.
    """

    def __init__(self, name: str, plugin: ModelProviderPlugin) -> None:
        self.name = name
        self._plugin = plugin
        self._turn = threading.Lock()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """The plugin's answer, its text as it comes."""
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[str | None] = asyncio.Queue()
        token = CancelToken()

        def on_text(text: str | None) -> None:
            if not token.is_cancelled:
                loop.call_soon_threadsafe(chunks.put_nowait, text)

        def work() -> ProviderResponse:
            try:
                with self._turn:
                    return self._call_plugin(request, on_text, token)
            finally:
                on_text(None)

        future = start_thread(work)
        try:
            while (text := await chunks.get()) is not None:
                yield TextDelta(text)
            response = self._to_reply(future.result)
        finally:
            token.cancel()
        yield Reply(message_of(response), response.finish_reason.value, response.usage)

    def _call_plugin(
        self, request: ModelRequest, on_text: Callable[[str], None], token: CancelToken
    ) -> ProviderResponse:
        token.raise_if_cancelled()
        *history, last = request.messages
        declared = [
            ToolSchema(tool.name, tool.description, tool.parameters, tool.category, tool.discoverability)
            for tool in request.tools
        ]
        plugin = self._plugin
        plugin.create_session(request.system, declared, history)
        if last.role == "tool":
            return plugin.send_tool_results([part for part in last.parts if isinstance(part, ToolResult)])
        if any(isinstance(part, Media) for part in last.parts):
            raise InvalidRequest(
                f"{self.name} takes text only; send the image to another provider.", provider=self.name
            )
        if plugin.supports_streaming():
            return plugin.send_message_streaming(last.text, on_text, token)
        return plugin.send_message(last.text)

    def _to_reply(self, result: Callable[[], ProviderResponse]) -> ProviderResponse:
        try:
            return result()
        except JaatoError:
            raise
        except (ConnectionError, TimeoutError) as error:
            raise ConnectionFault(f"{self.name}: {error}", provider=self.name) from error
        except Exception as error:
            raise ProviderError(
                f"{self.name} failed: {type(error).__name__}: {error}", provider=self.name
            ) from error

    def model_info(self, model: str) -> ModelInfo:
        """What the plugin knows of the model it is connected to."""
        return ModelInfo(model, self.name, context_limit=self._plugin.get_context_limit())

    async def models(self) -> list[ModelInfo]:
        """The documented form cannot list models."""
        return []

    async def aclose(self) -> None:
        """Shut the plugin down."""
        await asyncio.to_thread(self._plugin.shutdown)


def message_of(response: ProviderResponse) -> Message:
    """The reply as one message: the plugin's own, or one of its text and calls."""
    if response.message is not None:
        return response.message
    words: list[Part] = [Text(response.text)] if response.text else []
    return Message("assistant", [*words, *response.function_calls])


def connect_installed(
    name: str, settings: Settings, model: str | None, api_key: str | None
) -> tuple[Provider, str]:
    """An installed provider for the agent's loop, connected to a model. Raises `ConfigError`s."""
    found = discover_providers()
    if name not in found:
        raise ConfigError(f"There is no provider {name!r}; choose one of {', '.join(found)}.")
    if model is None:
        raise ConfigError(f"Say which model {name} should use: --model NAME.")
    plugin = found[name]()
    key = api_key or load_key(settings, name)
    plugin.initialize(ProviderConfig(api_key=key, base_url=settings["base_url"], environ=settings.environ))
    plugin.connect(model)
    return SessionfulAdapter(name, plugin), model
