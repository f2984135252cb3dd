"""Profiles of the hosted providers (key variables, base URL, dialect), and `make_provider`, which makes one from its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct

from jaato.errors import ConfigError
from jaato.protocol.specs import ModelInfo
from jaato.providers.dialect import Dialect
from jaato.providers.http import TIMEOUTS, HttpProvider, LimitQuery, ModelListing, Timeouts
from jaato.tools.network.proxy_settings import is_loopback

Interface = Literal["auto", "chat", "responses"]
OLLAMA_PORT = 11434


class ProfileTarget(NamedTuple):
    """What a provider is made for: its URL, whether that is the vendor's `own` host, and what was asked for."""

    url: str
    own: bool
    interface: Interface
    thinking: str | None


class ProviderParts(NamedTuple):
    """The parts of a provider that differ."""

    dialect: Dialect
    describe: Callable[[str], ModelInfo]
    listing: ModelListing
    limit: LimitQuery | None = None


class ProviderProfile(Struct, frozen=True, kw_only=True):
    """One provider. `needs_key`: at the vendor's own host, always or never; `header_variables` are sent to that host;
    `normalize` makes a base URL of what people write."""

    url: str
    url_variable: str = ""
    key_variables: tuple[str, ...]
    default_model: str | None = None
    needs_key: Literal["own", "always", "never"] = "own"
    without_key: str = ""
    remedy: str
    header_variables: dict[str, str] = {}
    normalize: Callable[[str], str] = lambda url: url
    parts: Callable[[ProfileTarget], ProviderParts]


def make_provider(
    name: str,
    *,
    environ: Mapping[str, str],
    base_url: str | None = None,
    api_key: str | None = None,
    interface: Interface = "auto",
    thinking: str | None = None,
    project: str | None = None,
    location: str | None = None,
    timeouts: Timeouts = TIMEOUTS,
) -> HttpProvider:
    """The provider of this name, with what is not given taken from the environment; nothing is sent yet.

    `interface` chooses between chat completions and responses: by itself, responses for OpenAI's own host and
    chat for every other; besides `openai` only `ollama` has both. `thinking` says how a server
    of chat completions wants the thoughts back, see `ChatStyle`; by itself, in the field they came in.
    A `project` and `location` mean Gemini on Vertex AI; one in `GOOGLE_CLOUD_PROJECT` does when there is no key or
    `GOOGLE_GENAI_USE_VERTEXAI` says so. The place is `GOOGLE_CLOUD_LOCATION`, by itself `global`.
    Raises `ConfigError` naming the variable that is missing or wrong.
    """
    profile = PROFILES.get(name)
    if profile is None:
        raise ConfigError(f"There is no provider {name!r} of this kind; known are {', '.join(PROFILES)}.")
    key = api_key or next((environ[one] for one in profile.key_variables if environ.get(one)), None)
    if name == "google_genai":
        wanted = environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true")
        if project or wanted or (key is None and environ.get("GOOGLE_CLOUD_PROJECT")):
            project = project or environ.get("GOOGLE_CLOUD_PROJECT", "")
            location = location or environ.get("GOOGLE_CLOUD_LOCATION") or "global"
            return vertex_provider(environ, base_url, project, location, timeouts)
    url = profile.normalize(base_url or environ.get(profile.url_variable) or profile.url)
    own = urlsplit(url).hostname == urlsplit(profile.url).hostname
    if key is None and (profile.needs_key == "always" or (own and profile.needs_key == "own")):
        raise ConfigError(profile.without_key)
    parts = profile.parts(ProfileTarget(url, own, interface, thinking))
    return HttpProvider(
        name,
        parts.dialect,
        base_url=url,
        describe=parts.describe,
        key=key,
        listing=parts.listing,
        limit=parts.limit,
        environ=environ,
        timeouts=timeouts,
        headers={
            header: environ[variable]
            for header, variable in profile.header_variables.items()
            if own and environ.get(variable)
        },
        remedy=profile.remedy,
    )


def vertex_provider(
    environ: Mapping[str, str], base_url: str | None, project: str, location: str, timeouts: Timeouts
) -> HttpProvider:
    """Gemini on Vertex AI, with Google's credentials."""
    from jaato.providers.google_genai import dialect as vertex
    from jaato.providers.google_genai import models as google_models

    return HttpProvider(
        "google_genai",
        vertex.VertexDialect(project, location),
        base_url=base_url or environ.get("GOOGLE_VERTEX_BASE_URL") or vertex.vertex_base_url(location),
        describe=google_models.describe,
        key=vertex.VertexTokens(),
        environ=environ,
        timeouts=timeouts,
        remedy="Run `gcloud auth application-default login`.",
    )


# --- what differs, imported when it is needed ------------------------------------------------------------------------


def anthropic(target: ProfileTarget) -> ProviderParts:
    """Anthropic, or a server with its API."""
    from jaato.providers.anthropic import models
    from jaato.providers.anthropic.dialect import AnthropicDialect

    listing = ModelListing("/v1/models?limit=1000", models.read_models)
    return ProviderParts(AnthropicDialect(deferred=target.own), models.describe, listing)


def google_genai(_target: ProfileTarget) -> ProviderParts:
    """Gemini by its own API."""
    from jaato.providers.google_genai import models
    from jaato.providers.google_genai.dialect import GeminiDialect

    return ProviderParts(
        GeminiDialect(), models.describe, ModelListing("/v1beta/models?pageSize=1000", models.read_models)
    )


def openai(target: ProfileTarget) -> ProviderParts:
    """OpenAI, or any server with its API."""
    from jaato.providers.openai.models import describe, read_models

    about = partial(describe, "openai", priced=target.own)
    listing = ModelListing("/models", read_models(about))
    if target.interface == "responses" or (target.interface == "auto" and target.own):
        from jaato.providers.openai.responses import OpenAIResponses

        return ProviderParts(OpenAIResponses("openai", cache_key=target.own), about, listing)
    from jaato.providers.openai.chat import ChatStyle, OpenAIChat

    style = ChatStyle(
        limit="max_completion_tokens" if target.own else "auto",
        thinking=target.thinking or thinking_field(urlsplit(target.url).hostname or ""),
        cache_key=target.own,
    )
    return ProviderParts(OpenAIChat("openai", style), about, listing)


def thinking_field(host: str) -> str:
    """How the thoughts go back to the models of a host: OpenAI takes none, DeepSeek wants the field everywhere."""
    if host == "api.openai.com":
        return "never"
    return "reasoning_content" if host.endswith("deepseek.com") else "same"


def github_models(_target: ProfileTarget) -> ProviderParts:
    """GitHub Models."""
    from jaato.providers.openai.chat import ChatStyle, OpenAIChat
    from jaato.providers.openai.models import describe, read_catalog

    about = partial(describe, "github_models", priced=False)
    listing = ModelListing("/catalog/models", read_catalog(about), from_root=True)
    return ProviderParts(OpenAIChat("github_models", ChatStyle(thinking="never")), about, listing)


def ollama(target: ProfileTarget) -> ProviderParts:
    """A running Ollama; it costs nothing on this machine."""
    from jaato.providers.openai.models import read_details, read_tags

    about: Callable[[str], ModelInfo] = partial(ModelInfo, provider="ollama")
    if is_loopback(urlsplit(target.url).hostname or ""):
        about = partial(
            ModelInfo, provider="ollama", price_input=0.0, price_cached_input=0.0, price_output=0.0
        )
    listing = ModelListing("/api/tags", read_tags(about), from_root=True)
    limit = LimitQuery("/api/show", read_details)
    if target.interface == "responses":
        from jaato.providers.openai.responses import OpenAIResponses

        return ProviderParts(OpenAIResponses("ollama", cache_key=False), about, listing, limit)
    from jaato.providers.openai.chat import ChatStyle, OpenAIChat

    style = ChatStyle(limit="max_tokens", thinking=target.thinking or "same")
    return ProviderParts(OpenAIChat("ollama", style), about, listing, limit)


def ollama_url(host: str) -> str:
    """`OLLAMA_HOST` in any of its forms (`host`, `:port`, `host:port`, a URL) as a URL."""
    host = host.strip().strip("'\"").rstrip("/")
    if "://" in host:
        url = host
    else:
        place, slash, path = host.partition("/")
        name, colon, port = place.rpartition(":")
        if not colon or "]" in port:
            name, port = place, str(OLLAMA_PORT)
        url = f"http://{name or '127.0.0.1'}:{port or OLLAMA_PORT}{slash}{path}"
    return url.replace("//0.0.0.0", "//127.0.0.1", 1).replace("//[::]", "//[::1]", 1)


PROFILES = {
    "anthropic": ProviderProfile(
        url="https://api.anthropic.com",
        url_variable="ANTHROPIC_BASE_URL",
        key_variables=("ANTHROPIC_API_KEY",),
        default_model="claude-sonnet-5",
        without_key="There is no key for anthropic. Set ANTHROPIC_API_KEY or run `jaato login anthropic`; "
        "for another server that speaks like it, set ANTHROPIC_BASE_URL.",
        remedy="Set ANTHROPIC_API_KEY or run `jaato login anthropic`.",
        normalize=lambda url: url.rstrip("/").removesuffix("/v1"),
        parts=anthropic,
    ),
    "google_genai": ProviderProfile(
        url="https://generativelanguage.googleapis.com",
        url_variable="GOOGLE_GEMINI_BASE_URL",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        default_model="gemini-3-flash",
        without_key="There is no key for google_genai. Set GEMINI_API_KEY or run `jaato login google_genai`; "
        "for Vertex AI, set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION.",
        remedy="Set GEMINI_API_KEY or run `jaato login google_genai`.",
        normalize=lambda url: url.rstrip("/").removesuffix("/v1beta"),
        parts=google_genai,
    ),
    "openai": ProviderProfile(
        url="https://api.openai.com/v1",
        url_variable="OPENAI_BASE_URL",
        key_variables=("OPENAI_API_KEY",),
        default_model="gpt-5.5",
        without_key="There is no key for openai. Set OPENAI_API_KEY or run `jaato login openai`; "
        "for another server that speaks like it, set OPENAI_BASE_URL.",
        remedy="Set OPENAI_API_KEY or run `jaato login openai`.",
        header_variables={"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"},
        parts=openai,
    ),
    "github_models": ProviderProfile(
        url="https://models.github.ai/inference",
        key_variables=("GITHUB_TOKEN",),
        default_model="openai/gpt-5-mini",
        needs_key="always",
        without_key="There is no token for github_models. Set GITHUB_TOKEN to one with the permission models:read, "
        "or run `jaato login github_models`.",
        remedy="Set GITHUB_TOKEN to a token with the permission models:read, or run `jaato login github_models`.",
        parts=github_models,
    ),
    "ollama": ProviderProfile(
        url=f"http://127.0.0.1:{OLLAMA_PORT}",
        url_variable="OLLAMA_HOST",
        key_variables=("OLLAMA_API_KEY",),
        needs_key="never",
        remedy="Set OLLAMA_API_KEY if this server asks for one.",
        normalize=lambda url: f"{ollama_url(url).removesuffix('/v1')}/v1",
        parts=ollama,
    ),
}
