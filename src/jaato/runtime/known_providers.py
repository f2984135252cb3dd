"""The providers that come with jaato, made from a name, the settings and a key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jaato.abc.provider import Provider
from jaato.errors import ConfigError
from jaato.settings import Settings, environment

TWO_INTERFACES = ("openai", "ollama")
NAMES = ("anthropic", "openai", "google_genai", "github_models", "ollama", "local", "scripted")


class ProviderChoice(NamedTuple):
    """A provider and why it is this one."""

    name: str
    reason: str


def environ_for(
    project: str | None, location: str | None, environ: Mapping[str, str] | None = None
) -> dict[str, str] | None:
    """The environment in which Gemini answers on Vertex AI for this project; without one, what was given."""
    if not project:
        return None if environ is None else dict(environ)
    return {
        **(environment() if environ is None else environ),
        "GOOGLE_CLOUD_PROJECT": project,
        **({"GOOGLE_CLOUD_LOCATION": location} if location else {}),
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
    }


def get_saved_key(name: str, settings: Settings) -> str | None:
    """The key that was saved for a provider, unless a variable holds one, which counts more."""
    from jaato.providers.profiles import PROFILES
    from jaato.runtime.provider_keys import load_key

    if any(settings.environ.get(variable) for variable in PROFILES[name].key_variables):
        return None
    return load_key(settings, name)


def make_known_provider(
    name: str,
    settings: Settings,
    *,
    model: str | None = None,
    api_key: str | None = None,
) -> tuple[Provider, str]:
    """One of `NAMES` and the model it answers with. Raises `ConfigError` naming what is missing."""
    match name:
        case "scripted":
            from jaato.providers.scripted import ScriptedProvider

            if model is None:
                raise ConfigError("The provider scripted plays a file: pass it with --model PATH.")
            return ScriptedProvider.from_file(Path(model)), model
        case "local":
            from jaato.runtime.local_model import local_provider

            return local_provider(settings, model)
        case _ if name in NAMES:
            from jaato.providers.profiles import PROFILES, make_provider

            if name not in TWO_INTERFACES and settings.source("interface") == "--interface":
                raise ConfigError(
                    f"{name} has one interface; --interface is for {' and '.join(TWO_INTERFACES)}."
                )
            made = make_provider(
                name,
                environ=settings.environ,
                base_url=settings["base_url"],
                api_key=api_key or get_saved_key(name, settings),
                interface=settings["interface"],
            )
            chosen = model or settings.environ.get(f"{name.upper()}_MODEL") or PROFILES[name].default_model
            if chosen is None:
                raise ConfigError(
                    f"Say which model {name} should use: --model NAME (jaato models lists them)."
                )
            return made, chosen
    raise ConfigError(f"There is no provider {name!r}; choose one of {', '.join(NAMES)}.")
