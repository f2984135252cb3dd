"""Encodes requests of the OpenAI Responses API, without state on the server."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from jaato.abc.provider import ModelRequest
from jaato.errors import InvalidRequest
from jaato.protocol.messages import Media, Refusal, Text, Thinking
from jaato.protocol.specs import ToolSpec
from jaato.providers.dialect import ReadBlob, encode_conversation
from jaato.providers.openai.models import effort_word
from jaato.providers.openai.responses_stream import DIALECT, ResponsesDecoder
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

PLAIN_MODELS = ("gpt-3*", "gpt-4*", "chatgpt-*", "gpt-*-chat*")
"""Models that do not reason; they refuse to be asked for encrypted reasoning."""


class OpenAIResponses:
    """The responses dialect; `provider` is the name that messages and errors carry.

    Nothing is stored at the server: reasoning comes encrypted, is kept beside the message and sent back with
    it.
    """

    name = DIALECT

    def __init__(self, provider: str = "openai", *, cache_key: bool = True) -> None:
        self.provider = provider
        self._cache_key = cache_key

    def path(self, request: ModelRequest) -> str:
        """The path below the base URL; the same for every request."""
        return "/responses"

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The bearer token, if there is a key."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def decoder(self, request: ModelRequest) -> ResponsesDecoder:
        """A reader for the answer to this request."""
        return ResponsesDecoder(self.provider, request.model)

    def encode(self, request: ModelRequest) -> bytes:
        """The request body: settings, tools, items, so that what was sent before stays in front."""
        tools = encode_once(request.encoded, (self.name, "tools"), request.tools, encode_tool)
        follower = partial(Conversation, self.provider, None, ANY_ID)
        items = encode_conversation(request, (self.name, self.provider), follower, self._encode_turn)
        pieces = [encode_json(self._encode_settings(request))[:-1]]
        if tools:
            pieces += [b',"tools":[', join(tools), b"]"]
        pieces += [b',"input":[', items, b"]}"]
        return b"".join(pieces)

    def _encode_settings(self, request: ModelRequest) -> dict[str, Any]:
        settings = request.settings
        if settings.stop:
            raise InvalidRequest(
                "The responses interface has no stop sequences; use the chat interface, or leave them out.",
                provider=self.provider,
            )
        body: dict[str, Any] = {"model": request.model, "stream": True, "store": False}
        if request.system:
            body["instructions"] = request.system
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if settings.max_output_tokens is not None:
            body["max_output_tokens"] = settings.max_output_tokens
        if reasons(request.model):
            body["include"] = ["reasoning.encrypted_content"]
            if settings.effort is not None:
                body["reasoning"] = {"effort": effort_word(request.model, settings.effort)}
        if settings.response_schema is not None:
            schema = settings.response_schema
            form = {"type": "json_schema", "name": "reply", "schema": schema, "strict": is_strict(schema)}
            body["text"] = {"format": form}
        if self._cache_key and request.conversation_id:
            body["prompt_cache_key"] = request.conversation_id
        return body

    def _encode_turn(self, turn: WireTurn, read_blob: ReadBlob) -> bytes:
        """One turn as the items it consists of, joined by commas; empty when it has nothing to say."""
        if turn.role == "user":
            return encode_user_turn(turn, read_blob)
        items: list[bytes] = []
        held: list[bytes] = []  # thoughts wait for what they led to: alone they would be refused
        for piece in turn.pieces:
            match piece:
                case Thinking(opaque=opaque):
                    if opaque is not None and opaque.dialect == self.name:
                        held.append(bytes(opaque.data))
                    continue
                case Text(text=text, opaque=opaque) if text.strip():
                    item: dict[str, Any] = {"role": "assistant", "content": text}
                    if opaque is not None and opaque.dialect == self.name:
                        item |= DECODE(opaque.data)
                case Refusal(text=text) if text.strip():
                    item = {"role": "assistant", "content": text}
                case WireCall(call=call, wire_id=wire_id):
                    item = {"type": "function_call", "call_id": wire_id, "name": wire_name(call.name)}
                    item["arguments"] = arguments_text(call)
                case Media():
                    item = {"role": "assistant", "content": media_note(piece)}
                case _:
                    continue
            items += [*held, encode_json(item)]
            held.clear()
        return b",".join(items)


def reasons(model: str) -> bool:
    """Whether a model thinks before it answers; unknown ones do, as all new ones."""
    name = model.rpartition("/")[2]
    return not any(fnmatchcase(name, pattern) for pattern in PLAIN_MODELS)


def encode_tool(tool: ToolSpec) -> bytes:
    """A tool as this dialect declares it."""
    return encode_json(
        {
            "type": "function",
            "name": wire_name(tool.name),
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": False,
        }
    )


def media_part(media: Media, read_blob: ReadBlob) -> dict[str, Any]:
    """Media as a content part: an image, a document, or the text that stands in for it."""
    data = read_media(media, read_blob)
    if data is not None and media.mime_type.startswith("image/"):
        return {"type": "input_image", "detail": "auto", "image_url": data_url(media.mime_type, data)}
    if data is not None and media.mime_type == "application/pdf":
        url = data_url(media.mime_type, data)
        return {"type": "input_file", "filename": media.name or "document.pdf", "file_data": url}
    return text_part(media_text(media, data))


def text_part(text: str) -> dict[str, Any]:
    """Text as a content part."""
    return {"type": "input_text", "text": text}


def encode_user_turn(turn: WireTurn, read_blob: ReadBlob) -> bytes:
    """The results of a turn, each an item with its media inside, and one message of all else."""
    items: list[bytes] = []
    content: list[dict[str, Any]] = []
    for piece in turn.pieces:
        match piece:
            case WireResult(asked=called, result=result):
                media = [media_part(item, read_blob) for item in result.content if isinstance(item, Media)]
                text = result_text(result)
                output: Any = [text_part(text), *media] if media else text
                item = {"type": "function_call_output", "call_id": called.wire_id, "output": output}
                items.append(encode_json(item))
            case Text(text=text) if text.strip():
                content.append(text_part(text))
            case Media():
                content.append(media_part(piece, read_blob))
    if content:
        alone = len(content) == 1 and content[0]["type"] == "input_text"
        items.append(encode_json({"role": "user", "content": content[0]["text"] if alone else content}))
    return b",".join(items) or encode_json({"role": "user", "content": NOTHING_SENT})
