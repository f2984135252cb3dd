"""OpenAI chat completions, and the many servers that speak them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from jaato.abc.provider import ModelRequest
from jaato.errors import ProviderError
from jaato.protocol.messages import Media, Message, Refusal, Text, Thinking, ToolCall, ToolResult
from jaato.protocol.specs import ModelSettings, ToolSpec
from jaato.providers.openai_chat_reply import ChatDecoder
from jaato.providers.openai_models import effort_word
from jaato.providers.parts import (
    arguments_text,
    data_url,
    is_strict,
    join,
    media_text,
    read_media,
    remembered,
    result_text,
    user_content,
)
from jaato.providers.refusals import status_error
from jaato.providers.wire import encode_json
from jaato.tools.catalog import wire_name

REASONING_MODELS = ("o[1-9]*", "gpt-[5-9]*", "codex*")
"""Names, without a vendor in front, of models that take `max_completion_tokens` and no `max_tokens`."""
AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


class ChatStyle(Struct, frozen=True):
    """How a server of this dialect differs from the others."""

    path: str = "/chat/completions"
    limit: str = "auto"
    """The field of the output limit: `max_completion_tokens`, `max_tokens`, or `auto` by the model's name."""
    thinking: str | None = None
    """The field in which the model's thoughts go back to it, where the server wants them."""
    usage_option: bool = True
    """Whether the server takes `stream_options`."""
    cache_key: bool = False
    """Whether the server takes `prompt_cache_key`."""
    valid_arguments: bool = False
    """Whether the server chokes on arguments that are no JSON object; they are then wrapped in one."""


STYLE = ChatStyle()


class OpenAIChat:
    """The chat completions dialect in a style; `provider` is the name that messages and errors carry."""

    name = "openai_chat"

    def __init__(self, provider: str = "openai", style: ChatStyle = STYLE) -> None:
        self.provider = provider
        self.style = style

    def path(self, request: ModelRequest) -> str:
        """The path below the base URL; the same for every request."""
        return self.style.path

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The bearer token, if there is a key."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def decoder(self, request: ModelRequest) -> ChatDecoder:
        """A reader for the answer to this request."""
        return ChatDecoder(self.provider, request.model)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The typed error of an answer that is no success."""
        return status_error(self.provider, status, headers, body)

    def encode(self, request: ModelRequest) -> bytes:
        """The request body: settings, tools, messages, so that what was sent before stays in front."""
        variant = (self.name, self.provider, self.style)
        ids: dict[str, str] = request.encoded.setdefault((variant, "ids"), {})
        tools = remembered(request.encoded, (variant, "tools"), request.tools, encode_tool)
        messages = remembered(
            request.encoded, variant, request.messages, lambda message: self._message(message, request, ids)
        )
        pieces = [encode_json(self._settings(request))[:-1]]
        if tools:
            pieces += [b',"tools":[', join(tools), b"]"]
        system = encode_json({"role": "system", "content": request.system}) if request.system else b""
        pieces += [b',"messages":[', join([system, *messages]), b"]}"]
        return b"".join(pieces)

    def _settings(self, request: ModelRequest) -> dict[str, Any]:
        settings: ModelSettings = request.settings
        body: dict[str, Any] = {"model": request.model, "stream": True}
        if self.style.usage_option:
            body["stream_options"] = {"include_usage": True}
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if settings.max_output_tokens is not None:
            body[token_field(self.style.limit, request.model)] = settings.max_output_tokens
        if settings.stop:
            body["stop"] = settings.stop
        if settings.effort is not None:
            body["reasoning_effort"] = effort_word(request.model, settings.effort)
        if settings.response_schema is not None:
            schema = settings.response_schema
            form = {"name": "reply", "schema": schema, "strict": is_strict(schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        if self.style.cache_key and request.conversation_id:
            body["prompt_cache_key"] = request.conversation_id
        return body

    def _message(self, message: Message, request: ModelRequest, ids: dict[str, str]) -> bytes:
        """One message as one or more wire messages, joined by commas; empty when it has nothing to say."""
        match message.role:
            case "assistant":
                return self._assistant(message, ids)
            case "tool":
                return results(message, request, ids)
            case "user":
                content = user_content(message, "text", lambda media: media_part(media, request))
                return encode_json({"role": "user", "content": content}) if content else b""

    def _assistant(self, message: Message, ids: dict[str, str]) -> bytes:
        own = message.provider == self.provider
        said: list[str] = []
        thought: list[str] = []
        calls: list[dict[str, Any]] = []
        for part in message.parts:
            match part:
                case Text(text=text) | Refusal(text=text):
                    said.append(text)
                case Thinking(text=text):
                    thought.append(text)
                case ToolCall():
                    wire_id = (own and part.provider_id) or part.call_id
                    ids[part.call_id] = wire_id
                    function = {"name": wire_name(part.name), "arguments": self._arguments(part)}
                    calls.append({"id": wire_id, "type": "function", "function": function})
                case ToolResult() | Media():
                    pass  # an assistant message holds none
        if not said and not calls:
            return b""
        body: dict[str, Any] = {"role": "assistant", "content": "".join(said) if said else None}
        if self.style.thinking and own and thought:
            body[self.style.thinking] = "".join(thought)
        if calls:
            body["tool_calls"] = calls
        return encode_json(body)

    def _arguments(self, call: ToolCall) -> str:
        if call.malformed is not None and self.style.valid_arguments:
            return encode_json({"malformed": call.malformed}).decode()
        return arguments_text(call)


def token_field(wanted: str, model: str) -> str:
    """The name of the output limit for a model."""
    if wanted != "auto":
        return wanted
    name = model.rpartition("/")[2]
    reasons = any(fnmatchcase(name, pattern) for pattern in REASONING_MODELS)
    return "max_completion_tokens" if reasons else "max_tokens"


def encode_tool(tool: ToolSpec) -> bytes:
    """A tool as this dialect declares it."""
    function = {"name": wire_name(tool.name), "description": tool.description, "parameters": tool.parameters}
    return encode_json({"type": "function", "function": function})


def media_part(media: Media, request: ModelRequest) -> dict[str, Any]:
    """Media as a content part: an image, a document, sound, or the text that stands in for it."""
    data = read_media(media, request.read_blob)
    if data is not None and media.mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data_url(media.mime_type, data)}}
    if data is not None and media.mime_type == "application/pdf":
        file = {"filename": media.name or "document.pdf", "file_data": data_url(media.mime_type, data)}
        return {"type": "file", "file": file}
    if data is not None and media.mime_type in AUDIO:
        sound = {"data": b64encode(data).decode("ascii"), "format": AUDIO[media.mime_type]}
        return {"type": "input_audio", "input_audio": sound}
    return {"type": "text", "text": media_text(media, data)}


def results(message: Message, request: ModelRequest, ids: Mapping[str, str]) -> bytes:
    """Tool results, each its own message; media follow in a user message, for results are text here."""
    wire: list[bytes] = []
    shown: list[dict[str, Any]] = []
    for part in message.parts:
        if not isinstance(part, ToolResult):
            continue
        wire_id = ids.get(part.call_id, part.call_id)
        wire.append(encode_json({"role": "tool", "tool_call_id": wire_id, "content": result_text(part)}))
        media = [item for item in part.content if isinstance(item, Media)]
        if media:
            shown.append({"type": "text", "text": f"Attached by the result of {part.name} ({wire_id}):"})
            shown += [media_part(item, request) for item in media]
    if shown:
        wire.append(encode_json({"role": "user", "content": shown}))
    return b",".join(wire)
