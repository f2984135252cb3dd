"""Model providers by name, in their documented form: the known ones and those of installed packages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from jaato.abc.plugin import ENTRY_POINT_GROUPS
from jaato.errors import PluginError
from jaato.runtime.discovery import entry_points_of
from jaato.runtime.known_providers import NAMES
from jaato.runtime.provider_plugin import ModelProviderPlugin, ProviderPlugin
from jaato.runtime.types import ProviderConfig


class GoogleGenAIProvider(ProviderPlugin):
    """Gemini, with a key or on Vertex AI."""

    name = "google_genai"


class AnthropicProvider(ProviderPlugin):
    """Claude, with extended thinking and prompt caching."""

    name = "anthropic"


class GitHubModelsProvider(ProviderPlugin):
    """The models of GitHub Models."""

    name = "github_models"


DOCUMENTED: dict[str, type[ProviderPlugin]] = {
    kind.name: kind for kind in (GoogleGenAIProvider, AnthropicProvider, GitHubModelsProvider)
}


def discover_providers() -> dict[str, Callable[[], ModelProviderPlugin]]:
    """What makes each provider, by name: the known ones, and those of the entry points `jaato.model_providers`.

    Nothing of a package is imported before its entry is called; a package cannot replace a known provider.
    """
    found: dict[str, Callable[[], ModelProviderPlugin]] = {
        name: DOCUMENTED.get(name) or partial(ProviderPlugin, name) for name in NAMES
    }
    for point in entry_points_of(ENTRY_POINT_GROUPS["model_provider"]):
        found.setdefault(point.name, partial(installed, point.name, point.load))
    return found


def load_provider(name: str, config: ProviderConfig | None = None) -> ModelProviderPlugin:
    """A new provider of this name, initialised if a configuration is given. Raises `PluginError`."""
    found = discover_providers()
    if name not in found:
        raise PluginError(f"There is no model provider {name!r}; found are {', '.join(sorted(found))}.")
    provider = found[name]()
    if config is not None:
        provider.initialize(config)
    return provider


def installed(name: str, load: Callable[[], Any]) -> ModelProviderPlugin:
    """A provider from an entry point: a class, a function that makes one, or a module with `create_provider`.

    Raises `PluginError` naming what is wrong with it.
    """
    try:
        made = load()
        if isinstance(made, ModuleType):
            made = getattr(made, "create_provider", None) or made.create_plugin
        provider = made() if callable(made) else made
    except Exception as error:
        raise PluginError(
            f"The model provider {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(provider, ModelProviderPlugin):
        missing = sorted(
            attribute for attribute in METHODS if not callable(getattr(provider, attribute, None))
        )
        raise PluginError(f"The model provider {name!r} has no {', '.join(missing) or 'name'}.")
    return provider


METHODS = [name for name in vars(ModelProviderPlugin) if not name.startswith("_") and name != "name"]
