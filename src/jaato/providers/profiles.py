"""The hosted providers by name, and those of OpenAI's dialects: OpenAI, GitHub Models, Ollama, any alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal
from urllib.parse import urlsplit

from jaato.errors import ConfigError
from jaato.protocol.specs import ModelInfo
from jaato.providers.dialect import Dialect
from jaato.providers.http import TIMEOUTS, HttpProvider, Listing, Timeouts
from jaato.providers.openai_models import describe, read_catalog, read_models, read_tags
from jaato.tools.route import is_loopback

Interface = Literal["auto", "chat", "responses"]
NAMES = ("anthropic", "google_genai", "openai", "github_models", "ollama")
OPENAI_URL = "https://api.openai.com/v1"
GITHUB_URL = "https://models.github.ai/inference"
OLLAMA_URL = "http://127.0.0.1:11434"
OLLAMA_PORT = 11434


def make(
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
    A `project` and `location` mean Gemini on Vertex AI.
    Raises `ConfigError` naming the variable that is missing or wrong.
    """
    match name:
        case "anthropic":
            from jaato.providers import vendors

            return vendors.anthropic(environ, base_url=base_url, api_key=api_key, timeouts=timeouts)
        case "google_genai":
            from jaato.providers import vendors

            return vendors.google_genai(
                environ,
                base_url=base_url,
                api_key=api_key,
                timeouts=timeouts,
                project=project,
                location=location,
            )
        case "openai":
            return openai(
                environ,
                base_url=base_url,
                api_key=api_key,
                interface=interface,
                thinking=thinking,
                timeouts=timeouts,
            )
        case "github_models":
            return github_models(environ, base_url=base_url, api_key=api_key, timeouts=timeouts)
        case "ollama":
            return ollama(
                environ,
                base_url=base_url,
                api_key=api_key,
                interface=interface,
                thinking=thinking,
                timeouts=timeouts,
            )
    raise ConfigError(f"There is no provider {name!r} of this kind; known are {', '.join(NAMES)}.")


def openai(
    environ: Mapping[str, str],
    *,
    base_url: str | None,
    api_key: str | None,
    interface: Interface,
    thinking: str | None,
    timeouts: Timeouts,
) -> HttpProvider:
    """OpenAI, or any server that speaks like it, under `OPENAI_BASE_URL` with `OPENAI_API_KEY`."""
    url = base_url or environ.get("OPENAI_BASE_URL") or OPENAI_URL
    key = api_key or environ.get("OPENAI_API_KEY") or None
    own = urlsplit(url).hostname == "api.openai.com"
    if own and key is None:
        raise ConfigError(
            "There is no key for openai. Set OPENAI_API_KEY or run `jaato login openai`; "
            "for another server that speaks like it, set OPENAI_BASE_URL."
        )
    about = partial(describe, "openai", priced=own)
    dialect: Dialect
    if interface == "responses" or (interface == "auto" and own):
        from jaato.providers.openai_responses import OpenAIResponses

        dialect = OpenAIResponses("openai", cache_key=own)
    else:
        from jaato.providers.openai_chat import ChatStyle, OpenAIChat

        limit = "max_completion_tokens" if own else "auto"
        thinking = thinking or thinking_field(urlsplit(url).hostname or "")
        dialect = OpenAIChat("openai", ChatStyle(limit=limit, thinking=thinking, cache_key=own))
    headers = {}
    if own and environ.get("OPENAI_ORG_ID"):
        headers["OpenAI-Organization"] = environ["OPENAI_ORG_ID"]
    if own and environ.get("OPENAI_PROJECT_ID"):
        headers["OpenAI-Project"] = environ["OPENAI_PROJECT_ID"]
    return HttpProvider(
        "openai",
        dialect,
        base_url=url,
        describe=about,
        key=key,
        listing=Listing("/models", read_models(about)),
        environ=environ,
        timeouts=timeouts,
        headers=headers,
        remedy="Set OPENAI_API_KEY or run `jaato login openai`.",
    )


def thinking_field(host: str) -> str:
    """How the thoughts go back to the models of a host: OpenAI takes none, DeepSeek wants the field everywhere."""
    if host == "api.openai.com":
        return "never"
    return "reasoning_content" if host.endswith("deepseek.com") else "same"


def github_models(
    environ: Mapping[str, str], *, base_url: str | None, api_key: str | None, timeouts: Timeouts
) -> HttpProvider:
    """GitHub Models, with a token that may read models in `GITHUB_TOKEN`."""
    from jaato.providers.openai_chat import ChatStyle, OpenAIChat

    key = api_key or environ.get("GITHUB_TOKEN") or None
    if key is None:
        raise ConfigError(
            "There is no token for github_models. Set GITHUB_TOKEN to one with the permission models:read, "
            "or run `jaato login github_models`."
        )
    about = partial(describe, "github_models", priced=False)
    return HttpProvider(
        "github_models",
        OpenAIChat("github_models", ChatStyle(thinking="never")),
        base_url=base_url or GITHUB_URL,
        describe=about,
        key=key,
        listing=Listing("/catalog/models", read_catalog(about), from_root=True),
        environ=environ,
        timeouts=timeouts,
        remedy="Set GITHUB_TOKEN to a token with the permission models:read, or run `jaato login github_models`.",
    )


def ollama(
    environ: Mapping[str, str],
    *,
    base_url: str | None,
    api_key: str | None,
    interface: Interface,
    thinking: str | None,
    timeouts: Timeouts,
) -> HttpProvider:
    """A running Ollama at `OLLAMA_HOST`; it needs no key, and costs nothing on this machine."""
    url = ollama_url(base_url or environ.get("OLLAMA_HOST") or OLLAMA_URL)
    if not url.endswith("/v1"):
        url += "/v1"
    about: Callable[[str], ModelInfo] = partial(ModelInfo, provider="ollama")
    if is_loopback(urlsplit(url).hostname or ""):
        about = partial(
            ModelInfo, provider="ollama", price_input=0.0, price_cached_input=0.0, price_output=0.0
        )
    dialect: Dialect
    if interface == "responses":
        from jaato.providers.openai_responses import OpenAIResponses

        dialect = OpenAIResponses("ollama", cache_key=False)
    else:
        from jaato.providers.openai_chat import ChatStyle, OpenAIChat

        dialect = OpenAIChat("ollama", ChatStyle(limit="max_tokens", thinking=thinking or "same"))
    return HttpProvider(
        "ollama",
        dialect,
        base_url=url,
        describe=about,
        key=api_key or environ.get("OLLAMA_API_KEY") or None,
        listing=Listing("/api/tags", read_tags(about), from_root=True),
        environ=environ,
        timeouts=timeouts,
        remedy="Set OLLAMA_API_KEY if this server asks for one.",
    )


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
