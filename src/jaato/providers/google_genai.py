"""Gemini's generateContent as a dialect, as the Gemini API and Vertex AI speak it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from jaato.abc.provider import ModelRequest
from jaato.errors import ProviderError
from jaato.protocol.specs import ModelSettings, ToolSpec
from jaato.providers.google_history import said
from jaato.providers.google_models import is_modern, thinking_config
from jaato.providers.google_stream import DIALECT, ContentDecoder
from jaato.providers.parts import remembered
from jaato.providers.refusals import status_error
from jaato.providers.transcript import conversation
from jaato.providers.turns import Turns
from jaato.providers.wire import encode_json, names_back, wire_name

MAX_STOPS = 5


class GeminiDialect:
    """Speaks `POST /v1beta/models/…:streamGenerateContent` with the key in a header."""

    name = DIALECT

    def __init__(self, provider: str = "google_genai") -> None:
        self.provider = provider

    def path(self, request: ModelRequest) -> str:
        """The path of the streaming call; `tunedModels/…` and `models/…` are taken as they are."""
        model = request.model if "/" in request.model else f"models/{request.model}"
        return f"/v1beta/{quote(model, safe='/@:.-_')}:streamGenerateContent?alt=sse"

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The key, never in the URL, where logs and proxies would keep it."""
        return {"x-goog-api-key": key} if key else {}

    def encode(self, request: ModelRequest) -> bytes:
        """The request body; tools, system prompt and past contents keep their bytes from call to call."""
        system = request.system
        config = generation_config(request.model, request.settings)
        schema = request.settings.response_schema
        if schema is not None and request.tools and not is_modern(request.model):
            # older models refuse a response schema beside tools
            system += (
                f"\n\nReply with nothing but JSON that fits this JSON Schema: {encode_json(schema).decode()}"
            )
        elif schema is not None:
            config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
        body = []
        if system.strip():
            body.append(b'"systemInstruction":{"parts":[{"text":%s}]}' % encode_json(system))
        if request.tools:
            declared = b",".join(remembered(request.encoded, (DIALECT, "tools"), request.tools, declaration))
            body.append(b'"tools":[{"functionDeclarations":[%s]}]' % declared)
        if config:
            body.append(b'"generationConfig":%s' % encode_json(config))
        modern = is_modern(request.model)
        contents = conversation(request, (DIALECT, modern), Turns, partial(said, modern))
        body.append(b'"contents":[%s]' % contents)
        return b"{%s}" % b",".join(body)

    def decoder(self, request: ModelRequest) -> ContentDecoder:
        """A reader for the answer to this request."""
        return ContentDecoder(self.provider, request.model, names_back(request.tools))

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The typed error for an answer that is no success."""
        return status_error(self.provider, status, headers, body)


def declaration(tool: ToolSpec) -> bytes:
    """A tool as the API wants it declared."""
    fields: dict[str, Any] = {"name": wire_name(tool.name), "description": tool.description}
    return encode_json(fields | {"parametersJsonSchema": tool.parameters | {"type": "object"}})


def generation_config(model: str, settings: ModelSettings) -> dict[str, Any]:
    """How to sample, in the form the model's generation takes; what is not set is left to the API."""
    config: dict[str, Any] = {}
    if settings.temperature is not None:
        config["temperature"] = min(max(settings.temperature, 0.0), 2.0)
    if settings.max_output_tokens is not None:
        config["maxOutputTokens"] = settings.max_output_tokens
    if stop := [text for text in settings.stop or () if text]:
        config["stopSequences"] = stop[:MAX_STOPS]
    if thinking := thinking_config(model, settings.effort):
        config["thinkingConfig"] = thinking
    return config
