"""Which provider answers when nobody said, and how one is made from its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jaato.abc.provider import Provider
from jaato.errors import ConfigError
from jaato.settings import Settings, environment

KEY_ORDER = (
    ("anthropic", ("ANTHROPIC_API_KEY",)),
    ("openai", ("OPENAI_API_KEY", "OPENAI_BASE_URL")),
    ("google_genai", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
)
"""Providers by the variables that select them, in order; GITHUB_TOKEN is set for other reasons and selects nothing."""

TWO_INTERFACES = ("openai", "ollama")
NAMES = ("anthropic", "openai", "google_genai", "github_models", "ollama", "local", "scripted")


class Choice(NamedTuple):
    """A provider and why it is this one."""

    name: str
    reason: str


async def choose(settings: Settings) -> Choice:
    """The first provider that can be used: a set key, a running Ollama, else the embedded model."""
    from jaato.runtime.keys import stored_key

    for name, variables in KEY_ORDER:
        for variable in variables:
            if settings.environ.get(variable):
                return Choice(name, f"{variable} is set")
        if stored_key(settings, name):
            return Choice(name, "its key was saved with jaato login")
    if await ollama_runs(settings):
        return Choice("ollama", "it runs on this machine")
    return Choice("local", "no key is set and no Ollama runs")


async def usable(settings: Settings) -> list[str]:
    """Every provider that could be used now without a further word: by a key, because it runs, or because it is here."""
    from jaato.runtime.keys import stored_key
    from jaato.runtime.local import local_state

    names = [
        name
        for name, variables in (*KEY_ORDER, ("github_models", ("GITHUB_TOKEN",)))
        if any(settings.environ.get(variable) for variable in variables) or stored_key(settings, name)
    ]
    if await ollama_runs(settings):
        names.append("ollama")
    if local_state(settings)[0]:
        names.append("local")
    return names


async def ollama_runs(settings: Settings) -> bool:
    """Whether an Ollama answers where `OLLAMA_HOST` says, or at its usual place."""
    import anyio

    from jaato.errors import ProviderError

    provider = make_provider("ollama", settings, model="?")[0]
    try:
        with anyio.move_on_after(0.5):
            return bool(await provider.models())
    except ProviderError:
        return False
    finally:
        await provider.aclose()
    return False


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


def saved_key(name: str, settings: Settings) -> str | None:
    """The key that was saved for a provider, unless a variable holds one, which counts more."""
    from jaato.providers.profiles import PROFILES
    from jaato.runtime.keys import stored_key

    if any(settings.environ.get(variable) for variable in PROFILES[name].key_variables):
        return None
    return stored_key(settings, name)


def make_provider(
    name: str,
    settings: Settings,
    *,
    model: str | None = None,
    api_key: str | None = None,
) -> tuple[Provider, str]:
    """The provider of this name and the model it answers with. Raises `ConfigError` naming what is missing."""
    match name:
        case "scripted":
            from jaato.providers.scripted import ScriptedProvider

            if model is None:
                raise ConfigError("The provider scripted plays a file: pass it with --model PATH.")
            return ScriptedProvider.from_file(Path(model)), model
        case "local":
            from jaato.runtime.local import local_provider

            return local_provider(settings, model)
        case _ if name in NAMES:
            from jaato.providers.profiles import PROFILES, make

            if name not in TWO_INTERFACES and settings.source("interface") == "--interface":
                raise ConfigError(
                    f"{name} has one interface; --interface is for {' and '.join(TWO_INTERFACES)}."
                )
            made = make(
                name,
                environ=settings.environ,
                base_url=settings["base_url"],
                api_key=api_key or saved_key(name, settings),
                interface=settings["interface"],
            )
            chosen = model or settings.environ.get(f"{name.upper()}_MODEL") or PROFILES[name].default_model
            if chosen is None:
                raise ConfigError(
                    f"Say which model {name} should use: --model NAME (jaato models lists them)."
                )
            return made, chosen
    from jaato.runtime.providers import connected

    return connected(name, settings, model, api_key)
