"""Anthropic's and Google's own services, and servers that resemble them, as providers."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from jaato.errors import ConfigError
from jaato.providers.http import TIMEOUTS, HttpProvider, Listing, Timeouts

ANTHROPIC_URL = "https://api.anthropic.com"
GEMINI_URL = "https://generativelanguage.googleapis.com"


def anthropic(
    environ: Mapping[str, str],
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeouts: Timeouts = TIMEOUTS,
) -> HttpProvider:
    """Anthropic, or a server that speaks like it, under `ANTHROPIC_BASE_URL` with `ANTHROPIC_API_KEY`."""
    from jaato.providers import anthropic_models
    from jaato.providers.anthropic import AnthropicDialect

    url = (base_url or environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC_URL).rstrip("/").removesuffix("/v1")
    key = api_key or environ.get("ANTHROPIC_API_KEY") or None
    own = urlsplit(url).hostname == "api.anthropic.com"
    if own and key is None:
        raise ConfigError(
            "There is no key for anthropic. Set ANTHROPIC_API_KEY or run `jaato login anthropic`; "
            "for another server that speaks like it, set ANTHROPIC_BASE_URL."
        )
    return HttpProvider(
        "anthropic",
        AnthropicDialect(deferred=own),
        base_url=url,
        describe=anthropic_models.describe,
        key=key,
        listing=Listing("/v1/models?limit=1000", anthropic_models.read_models),
        environ=environ,
        timeouts=timeouts,
        remedy="Set ANTHROPIC_API_KEY or run `jaato login anthropic`.",
    )


def google_genai(
    environ: Mapping[str, str],
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeouts: Timeouts = TIMEOUTS,
    project: str | None = None,
    location: str | None = None,
) -> HttpProvider:
    """Gemini with `GEMINI_API_KEY` or `GOOGLE_API_KEY`, or on Vertex AI with Google's credentials.

    A given project means Vertex AI; one in `GOOGLE_CLOUD_PROJECT` does when there is no key or
    `GOOGLE_GENAI_USE_VERTEXAI` says so. The place is `GOOGLE_CLOUD_LOCATION`, by itself `global`.
    """
    from jaato.providers import google_models, vertex
    from jaato.providers.google_genai import GeminiDialect

    key = api_key or environ.get("GEMINI_API_KEY") or environ.get("GOOGLE_API_KEY") or None
    wanted = environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true")
    if project or wanted or (key is None and environ.get("GOOGLE_CLOUD_PROJECT")):
        place = location or environ.get("GOOGLE_CLOUD_LOCATION") or "global"
        dialect = vertex.VertexDialect(project or environ.get("GOOGLE_CLOUD_PROJECT", ""), place)
        return HttpProvider(
            "google_genai",
            dialect,
            base_url=base_url or environ.get("GOOGLE_VERTEX_BASE_URL") or vertex.base_url(place),
            describe=google_models.describe,
            key=vertex.Tokens(),
            environ=environ,
            timeouts=timeouts,
            remedy="Run `gcloud auth application-default login`.",
        )
    url = (
        (base_url or environ.get("GOOGLE_GEMINI_BASE_URL") or GEMINI_URL).rstrip("/").removesuffix("/v1beta")
    )
    if key is None and urlsplit(url).hostname == urlsplit(GEMINI_URL).hostname:
        raise ConfigError(
            "There is no key for google_genai. Set GEMINI_API_KEY or run `jaato login google_genai`; "
            "for Vertex AI, set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION."
        )
    return HttpProvider(
        "google_genai",
        GeminiDialect(),
        base_url=url,
        describe=google_models.describe,
        key=key,
        listing=Listing("/v1beta/models?pageSize=1000", google_models.read_models),
        environ=environ,
        timeouts=timeouts,
        remedy="Set GEMINI_API_KEY or run `jaato login google_genai`.",
    )
