"""The dialect of Gemini's generateContent, at the Gemini API and, with tokens from google-auth, at Vertex AI."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from jaato.abc.provider import ModelRequest
from jaato.errors import AuthenticationError, ConfigError
from jaato.protocol.specs import ModelSettings, ToolSpec
from jaato.providers.dialect import encode_conversation
from jaato.providers.google_genai.messages import encode_turn
from jaato.providers.google_genai.models import is_modern, thinking_config
from jaato.providers.google_genai.stream import DIALECT, ContentDecoder
from jaato.providers.turns import Conversation
from jaato.providers.wire_encoding import encode_json, encode_once, original_names, wire_name

MAX_STOPS = 5


class GeminiDialect:
    """Uses `POST /v1beta/models/…:streamGenerateContent` with the key in a header."""

    name = DIALECT
    provider = "google_genai"

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
            declared = b",".join(encode_once(request.encoded, (DIALECT, "tools"), request.tools, declaration))
            body.append(b'"tools":[{"functionDeclarations":[%s]}]' % declared)
        if config:
            body.append(b'"generationConfig":%s' % encode_json(config))
        modern = is_modern(request.model)
        contents = encode_conversation(request, (DIALECT, modern), Conversation, partial(encode_turn, modern))
        body.append(b'"contents":[%s]' % contents)
        return b"{%s}" % b",".join(body)

    def decoder(self, request: ModelRequest) -> ContentDecoder:
        """A reader for the answer to this request."""
        return ContentDecoder(self.provider, request.model, original_names(request.tools))


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


SCOPE = "https://www.googleapis.com/auth/cloud-platform"
PROJECT_NAME = re.compile(r"[a-z0-9][a-z0-9:.-]{0,62}")


class VertexDialect(GeminiDialect):
    """The Gemini dialect at `projects/…/locations/…`, with a bearer token."""

    def __init__(self, project: str, location: str) -> None:
        for what, value in (("GOOGLE_CLOUD_PROJECT", project), ("GOOGLE_CLOUD_LOCATION", location)):
            if not PROJECT_NAME.fullmatch(value):
                raise ConfigError(
                    f"{what} is {value!r}, which is not the name of one; set it to use Vertex AI."
                )
        self._place = f"/v1beta1/projects/{project}/locations/{location}"

    def path(self, request: ModelRequest) -> str:
        """The path of the streaming call; a model of another publisher is written `publishers/…/models/…`."""
        model = request.model.removeprefix("models/")
        model = model if "/" in model else f"publishers/google/models/{model}"
        return f"{self._place}/{quote(model, safe='/@:.-_')}:streamGenerateContent?alt=sse"

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The token as a bearer."""
        return {"authorization": f"Bearer {key}"} if key else {}


def vertex_base_url(location: str) -> str:
    """The host of a location; `global` and the multi-regions have their own forms."""
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if location in ("us", "eu"):
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


class VertexTokens:
    """Access tokens from the application default credentials, fetched and renewed in a worker thread.

    `credentials` are google-auth's own; without them they are found where Google's tools look for them.
    """

    def __init__(self, credentials: Any = None) -> None:
        self._credentials = credentials

    async def __call__(self) -> str:
        """A token that is valid now; raises `AuthenticationError` when none can be had."""
        import anyio.to_thread

        found = self._credentials
        if found is not None and found.valid:
            return str(found.token)
        return await anyio.to_thread.run_sync(self._renew, abandon_on_cancel=True)

    def _renew(self) -> str:
        try:
            import google.auth
            import google.auth.exceptions
            import google.auth.transport.requests
        except ImportError:
            raise ConfigError("Vertex AI needs google-auth: pip install 'jaato[vertex]'.") from None
        try:
            if self._credentials is None:
                self._credentials, _ = google.auth.default(scopes=[SCOPE])
            if not self._credentials.valid:
                self._credentials.refresh(google.auth.transport.requests.Request())
        except google.auth.exceptions.GoogleAuthError as error:
            raise AuthenticationError(
                f"Google gave no access token: {error}. Run 'gcloud auth application-default login', "
                "or set GOOGLE_APPLICATION_CREDENTIALS.",
            ) from None
        return str(self._credentials.token)
