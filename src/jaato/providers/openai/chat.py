"""Encodes requests of OpenAI Chat Completions, which many other servers implement."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from msgspec import Struct

from jaato.abc.provider import ModelRequest
from jaato.protocol.messages import Media, Refusal, Text, Thinking
from jaato.protocol.specs import ModelSettings, ToolSpec
from jaato.providers.dialect import ReadBlob, encode_conversation
from jaato.providers.openai.chat_stream import DIALECT, ChatDecoder
from jaato.providers.openai.models import effort_word
from jaato.providers.turns import Conversation, WireCall, WireResult, WireTurn
from jaato.providers.wire_encoding import (
    ANY_ID,
    DECODE,
    NOTHING_SENT,
    arguments_text,
    data_url,
    encode_json,
    encode_once,
    is_strict,
    join,
    media_note,
    media_text,
    read_media,
    result_text,
)
from jaato.tools.catalog import wire_name

REASONING_MODELS = ("o[1-9]*", "gpt-[5-9]*", "codex*")
"""Names, without a vendor in front, of models that take `max_completion_tokens` and no `max_tokens`."""
AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


class ChatStyle(Struct, frozen=True):
    """How a server of this dialect differs from the others."""

    limit: str = "auto"
    """The field of the output limit: `max_completion_tokens`, `max_tokens`, or `auto` by the model's name."""
    thinking: str = "same"
    """How the model's thoughts go back to it: in the `same` field they came in, `never`, or in every message in the
    field of this name, which is empty where there are none."""
    cache_key: bool = False
    """Whether the server takes `prompt_cache_key`."""


STYLE = ChatStyle()


class OpenAIChat:
    """The chat completions dialect in a style; `provider` is the name that messages and errors carry."""

    name = DIALECT

    def __init__(self, provider: str = "openai", style: ChatStyle = STYLE) -> None:
        self.provider = provider
        self.style = style

    def path(self, request: ModelRequest) -> str:
        """The path below the base URL; the same for every request."""
        return "/chat/completions"

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The bearer token, if there is a key."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def decoder(self, request: ModelRequest) -> ChatDecoder:
        """A reader for the answer to this request."""
        return ChatDecoder(self.provider, request.model)

    def encode(self, request: ModelRequest) -> bytes:
        """The request body: settings, tools, messages, so that what was sent before stays in front."""
        model = request.model if self.style.thinking == "same" else None
        place = (self.name, self.provider, self.style, model)
        tools = encode_once(request.encoded, (self.name, "tools"), request.tools, encode_tool)
        messages = encode_conversation(
            request, place, partial(Conversation, self.provider, model, ANY_ID), self._encode_turn
        )
        pieces = [encode_json(self._encode_settings(request))[:-1]]
        if tools:
            pieces += [b',"tools":[', join(tools), b"]"]
        system = encode_json({"role": "system", "content": request.system}) if request.system else b""
        pieces += [b',"messages":[', join([system, messages]), b"]}"]
        return b"".join(pieces)

    def _encode_settings(self, request: ModelRequest) -> dict[str, Any]:
        settings: ModelSettings = request.settings
        body: dict[str, Any] = {
            "model": request.model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
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

    def _encode_turn(self, turn: WireTurn, read_blob: ReadBlob) -> bytes:
        """One turn as one or more messages, joined by commas; empty when it has nothing to say."""
        if turn.role == "user":
            return encode_user_turn(turn, read_blob)
        texts: list[str] = []
        thought: list[Thinking] = []
        calls: list[dict[str, Any]] = []
        for piece in turn.pieces:
            match piece:
                case Text(text=text) | Refusal(text=text):
                    texts.append(text)
                case Thinking():
                    thought.append(piece)
                case WireCall():
                    calls.append(encode_call(piece))
                case Media():
                    texts.append(media_note(piece))
        if not any(text.strip() for text in texts) and not calls:
            return b""
        body: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None}
        body |= self._encode_thoughts(thought)
        if calls:
            body["tool_calls"] = calls
        return encode_json(body)

    def _encode_thoughts(self, thought: Sequence[Thinking]) -> dict[str, Any]:
        """The fields in which thoughts go back."""
        text = "".join([piece.text for piece in thought])
        match self.style.thinking:
            case "never":
                return {}
            case "same":
                fields: dict[str, Any] = {}
                for piece in thought:
                    if piece.opaque is not None and piece.opaque.dialect == DIALECT:
                        origin = DECODE(piece.opaque.data)
                        fields |= origin if isinstance(origin, dict) else {origin: text}
                return fields
            case field:
                return {field: text}


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


def encode_call(piece: WireCall) -> dict[str, Any]:
    """A call as the model made it, with what its server wants back beside it."""
    call = piece.call
    function = {"name": wire_name(call.name), "arguments": arguments_text(call)}
    body: dict[str, Any] = {"id": piece.wire_id, "type": "function", "function": function}
    if call.opaque is not None and call.opaque.dialect == DIALECT:
        body["extra_content"] = DECODE(call.opaque.data)
    return body


def media_part(media: Media, read_blob: ReadBlob) -> dict[str, Any]:
    """Media as a content part: an image, a document, sound, or the text that stands in for it."""
    data = read_media(media, read_blob)
    if data is not None and media.mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data_url(media.mime_type, data)}}
    if data is not None and media.mime_type == "application/pdf":
        file = {"filename": media.name or "document.pdf", "file_data": data_url(media.mime_type, data)}
        return {"type": "file", "file": file}
    if data is not None and media.mime_type in AUDIO:
        sound = {"data": b64encode(data).decode("ascii"), "format": AUDIO[media.mime_type]}
        return {"type": "input_audio", "input_audio": sound}
    return text_part(media_text(media, data))


def text_part(text: str) -> dict[str, Any]:
    """Text as a content part."""
    return {"type": "text", "text": text}


def encode_user_turn(turn: WireTurn, read_blob: ReadBlob) -> bytes:
    """The results of a turn, each its own message, and one message of all else: media of results are there too."""
    wire: list[bytes] = []
    content: list[dict[str, Any]] = []
    for piece in turn.pieces:
        match piece:
            case WireResult(asked=called, result=result):
                message = {"role": "tool", "tool_call_id": called.wire_id, "content": result_text(result)}
                wire.append(encode_json(message))
                media = [item for item in result.content if isinstance(item, Media)]
                if media:
                    content.append(text_part(f"Attached by the result of {result.name} ({called.wire_id}):"))
                    content += [media_part(item, read_blob) for item in media]
            case Text(text=text) if text.strip():
                content.append(text_part(text))
            case Media():
                content.append(media_part(piece, read_blob))
    if content:
        plain = all(part["type"] == "text" for part in content)
        words = "\n\n".join([part["text"] for part in content]) if plain else content
        wire.append(encode_json({"role": "user", "content": words}))
    return b",".join(wire) or encode_json({"role": "user", "content": NOTHING_SENT})
