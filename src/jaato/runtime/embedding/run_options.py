"""What holds for one run of an `Agent`, among it the model: another one of its provider, or one of another provider."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from jaato.abc.provider import Provider
from jaato.errors import ConfigError
from jaato.protocol.events import SessionUpdated
from jaato.runtime.known_providers import NAMES

if TYPE_CHECKING:
    from jaato.agent.history import History
    from jaato.agent.session import Session
    from jaato.settings import Settings

OWN_NAMES_HAVE_SLASHES = ("github_models",)
"""Providers whose own models are named like `openai/gpt-4.1`."""


class Model(NamedTuple):
    """A model by its name, and its provider: the name of one, or an object, which stays the caller's to close. Without a
    provider it is one of the agent's own."""

    name: str
    provider: str | Provider | None = None


class RunOptions(TypedDict, total=False):
    """Options of one run. `images` are paths. `model` answers in this run: the name of one of the agent's provider,
    `provider/name` of another one, or a `Model`. Tools get `dependencies`. `history` replaces the conversation: where it is
    another than the present one, a new session begins with it.
    """

    images: Sequence[Path | str]
    model: str | Model | None
    dependencies: Any
    history: History | None


def check_options(options: RunOptions) -> None:
    """Raise `TypeError` for an option that does not exist."""
    known = RunOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"A run has no option {name!r}; there are output_type, {', '.join(known)}.")


@contextlib.asynccontextmanager
async def model_for_run(session: Session, given: str | Model | None) -> AsyncGenerator[None, None]:
    """Have another model answer meanwhile, recorded in the log; None: the session's own. Raises `ConfigError` naming what is
    missing."""
    journal = session.journal
    before = journal.state.provider, journal.state.model
    if given is None:
        yield
        return
    chosen = parse_model(session, given)
    async with open_provider(session, chosen) as (provider, model):
        name = before[0] if provider is None else provider.name
        if provider is None and model == before[1]:
            yield
            return
        journal.record(SessionUpdated(**journal.head(), provider=name, model=model))
        try:
            with session.model.using(provider) if provider is not None else contextlib.nullcontext():
                yield
        finally:
            journal.record(SessionUpdated(**journal.head(), provider=before[0], model=before[1]))


def parse_model(session: Session, given: Any) -> Model:
    """The model that is meant. Raises `ConfigError` for what is none."""
    if isinstance(given, Model):
        found = given
    elif isinstance(given, str):
        provider, slash, name = given.partition("/")
        is_other = slash and provider in NAMES and not has_slashes(session)
        found = Model(name, provider) if is_other else Model(given)
    else:
        found = Model("")
    text: Any = found.name
    is_provider = found.provider is None or isinstance(found.provider, str | Provider)
    if not isinstance(text, str) or not text.strip() or not is_provider:
        raise ConfigError(
            f"`model` is the name of a model, 'provider/name', or Model(name, provider), not {given!r:.80}."
        )
    return found


def has_slashes(session: Session) -> bool:
    """Whether the session's own models may be named `provider/name`, as those of a gateway."""
    settings = settings_of(session)
    at_gateway = settings is not None and settings["base_url"] is not None
    return at_gateway or session.state.provider in OWN_NAMES_HAVE_SLASHES


@contextlib.asynccontextmanager
async def open_provider(session: Session, chosen: Model) -> AsyncGenerator[tuple[Provider | None, str], None]:
    """The provider of a model, None for the session's own, and the model's name there. What was made here is closed in the
    end."""
    given, own = chosen.provider, session.state.provider
    if not isinstance(given, str):
        yield given, chosen.name
    elif given == own and given != "scripted":  # each script is a provider of its own
        yield None, chosen.name
    else:
        from jaato.runtime.provider_selection import make_other_provider

        provider, model = make_other_provider(given, settings_of(session), chosen.name)
        try:
            yield provider, model
        finally:
            await provider.aclose()


def settings_of(session: Session) -> Settings | None:
    """The settings of the session; None with plugins of a program, which were made without."""
    settings: Settings | None = session.services["registry"].services.get("settings")
    return settings
