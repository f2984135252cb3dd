"""From a description to a session ready to work: settings, store, plugins, policy, provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaato.abc.provider import Provider
from jaato.abc.store import Store
from jaato.agent.journal import Journal
from jaato.agent.session import Session
from jaato.agent.state import State
from jaato.agent.turn import Limits
from jaato.errors import ConfigError, SessionNotFound, StoreError
from jaato.protocol.ids import session_name
from jaato.protocol.specs import Mode, ModelSettings
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.opened import opened
from jaato.runtime.outfit import make_registry
from jaato.runtime.registry import PluginRegistry
from jaato.runtime.runtime import Plan
from jaato.runtime.secret_values import known_secrets
from jaato.settings import Settings, environment, load, user_dir
from jaato.tools.permissions import Policy
from jaato.tools.policy_document import MAX_TIMEOUT_S
from jaato.tools.secrets import Secrets
from jaato.tools.trust import Trust

if TYPE_CHECKING:
    from jaato.runtime.workshop import Workshop

POLICY_FILE = Path(".jaato") / "permissions.json"


async def assemble(
    blueprint: Blueprint, *, wire: bool = True
) -> tuple[Session, Callable[[], Awaitable[None]]]:
    """An entered session and the function that closes it and all that was made for it. Raises `JaatoError`s.

    Plugins that care are told of the session, unless `wire` is False: the caller then tells them of a face of it.
    """
    from jaato.runtime.workshop import Workshop

    workspace = workspace_of(blueprint)
    settings = settings_for(blueprint, workspace)
    store = open_store(settings, blueprint.state_dir)
    shop: Workshop | None = None
    try:
        secrets = known_secrets(settings, blueprint)
        journal = resumed(store, blueprint, workspace, secrets)
        workspace = workspace if journal is None else place_of(journal)
        shop = Workshop(workspace, settings, store, secrets, state_dir=blueprint.state_dir)
        session, leave = await shop.session(blueprint, journal, wire=wire)
    except BaseException:
        await let_go(shop, store)
        raise

    async def close() -> None:
        try:
            await leave()
        finally:
            await let_go(shop, store)

    return session, close


async def let_go(shop: Workshop | None, store: Store) -> None:
    """Close what one session was made in."""
    try:
        if shop is not None:
            await shop.close()
    finally:
        store.close()


def place_of(journal: Journal) -> Path:
    """The directory a stored session works in. Raises `ConfigError` when it is gone."""
    workspace = Path(journal.state.workspace)
    if not workspace.is_dir():
        raise ConfigError(
            f"The session {journal.state.session_id} works in {workspace}, which is no directory any more; "
            "bring it back, or begin a new session."
        )
    return workspace


def workspace_of(blueprint: Blueprint) -> Path:
    """The directory a new session works in. Raises `ConfigError` when its plugins work in another one."""
    registry = blueprint.registry
    if blueprint.workspace is None:
        return registry.workspace if registry is not None else Path.cwd().resolve()
    workspace = blueprint.workspace.resolve()
    if registry is not None and registry.workspace != workspace:
        raise ConfigError(
            f"The plugins work in {registry.workspace}, the session in {workspace}; "
            "make the registry with PluginRegistry(workspace=…)."
        )
    return workspace


async def registry_for(blueprint: Blueprint) -> PluginRegistry:
    """The plugins that sessions of one runtime share."""
    workspace = workspace_of(blueprint)
    settings = settings_for(blueprint, workspace)
    model = settings["model"]
    if model is None:
        provider, model = await pick_provider(blueprint, settings, None)
        if provider is not blueprint.provider:
            await provider.aclose()
    return make_registry(workspace, settings, model, blueprint)


def settings_for(blueprint: Blueprint, workspace: Path) -> Settings:
    """The settings under which a session of this workspace works."""
    environ = environment() if blueprint.environ is None else blueprint.environ
    state_dir = blueprint.state_dir or user_dir(environ, "XDG_STATE_HOME", ".local/state")
    return load(flags_of(blueprint), environ=environ, workspace=workspace, trusted=Trust(state_dir).trusts)


def flags_of(blueprint: Blueprint) -> dict[str, Any]:
    """The settings a blueprint gives by hand."""
    return {
        "provider": blueprint.provider if isinstance(blueprint.provider, str) else None,
        "model": blueprint.model,
        "base_url": blueprint.base_url,
        "interface": blueprint.interface,
    }


def open_store(settings: Settings, state_dir: Path | None = None) -> Store:
    """The user's store of sessions."""
    from jaato.storage.sqlite import SqliteStore

    directory = state_dir or settings.state_dir
    return SqliteStore(directory / "jaato.db", durability=settings["durability"])


def resumed(
    store: Store, blueprint: Blueprint, workspace: Path, secrets: Secrets | None = None
) -> Journal | None:
    """The log to go on with, if the blueprint names one. Raises `SessionNotFound`."""
    if blueprint.session:
        return stored(store, blueprint.session, str(workspace), secrets)
    if not blueprint.resume:
        return None
    newest = store.sessions(str(workspace), limit=1)
    if not newest:
        raise SessionNotFound(f"No session has worked in {workspace} yet; begin one without --continue.")
    return stored(store, newest[0].id, secrets=secrets)


def stored(store: Store, text: str, workspace: str | None = None, secrets: Secrets | None = None) -> Journal:
    """The log of the session with this id, prefix or name (of this workspace first), folded. Raises `SessionNotFound`."""
    journal = Journal(store, State(), secrets=secrets)
    for _ in storing(journal, text, workspace):
        pass
    return journal


def storing(journal: Journal, text: str, workspace: str | None = None) -> Generator[None, None, None]:
    """Hold a stored session and fold its log into a new journal, piece by piece. Raises `SessionNotFound`."""
    store = journal.store
    try:
        session_id = store.find(text, workspace)
    except SessionNotFound:
        if workspace is None:
            raise
        session_id = store.find(text)
    if not store.read_only:
        store.hold(session_id)
    try:
        yield from journal.loading(session_id)
        if not journal.state.session_id:
            raise StoreError(
                f"The session {session_id} has lost its first record; `jaato sessions export` saves the rest."
            )
    except BaseException:
        store.release(session_id)
        raise


async def pick_provider(
    blueprint: Blueprint, settings: Settings, journal: Journal | None
) -> tuple[Provider, str]:
    """The provider and model: those given, else those of the stored session, else the first that can be used."""
    if blueprint.provider is not None and not isinstance(blueprint.provider, str):
        return blueprint.provider, blueprint.model or (await blueprint.provider.models())[0].id
    from jaato.runtime.choose import Choice, choose, make_provider

    name, model = settings["provider"], settings["model"]
    choice = Choice(name, settings.source("provider")) if name is not None else None
    if (
        choice is None
        and journal is not None
        and journal.state.provider
        and settings.source("model") == "default"
    ):
        choice, model = Choice(journal.state.provider, "as before"), journal.state.model
    choice = choice or await choose(settings)
    if choice.name == "local":
        from jaato.runtime.local import prepare

        confirm = None if blueprint.yes else blueprint.confirm
        await prepare(settings, model, progress=blueprint.progress, allowed=blueprint.yes, confirm=confirm)
    if choice.name == "scripted" and model is not None:
        made: Provider = recorded(model, settings, blueprint.state_dir)
    else:
        made, model = make_provider(choice.name, settings, model=model, api_key=blueprint.api_key)
    if blueprint.chosen is not None:
        blueprint.chosen(choice, model)
    return made, model


def recorded(name: str, settings: Settings, state_dir: Path | None) -> Provider:
    """The scripted model that plays this file or stored session. Raises `ConfigError`."""
    from jaato.runtime.replay import scripted

    if not ((state_dir or settings.state_dir) / "jaato.db").exists():
        return scripted(name, None)
    store = open_store(settings, state_dir)
    try:
        return scripted(name, store)
    finally:
        store.close()


def plan_of(
    blueprint: Blueprint,
    settings: Settings,
    provider: Provider,
    model: str,
    workspace: Path,
    policy: Policy,
) -> Plan:
    """How the session is to be made."""
    prompt = blueprint.prompt if blueprint.prompt is not None else settings["system_prompt"]
    given = blueprint.settings
    sampling = ModelSettings(
        temperature=given.temperature if given.temperature is not None else settings["temperature"],
        max_output_tokens=given.max_output_tokens or settings["max_output_tokens"],
        effort=given.effort or settings["effort"],
        stop=given.stop,
        response_schema=given.response_schema,
    )
    return Plan(
        provider=provider,
        model=model,
        workspace=workspace,
        policy=policy,
        name=session_name(blueprint.name),
        id=blueprint.id,
        prompt=prompt,
        settings=sampling,
        asker=blueprint.asker,
        limits=blueprint.limits or Limits(model_calls=settings["max_turns"]),
        retry=blueprint.retry,
        parallel=8 if settings["parallel_tools"] else 1,
        deferred=settings["deferred_tools"],
        protected=(blueprint.state_dir or settings.state_dir, settings.config_dir),
        question_timeout_s=waiting_of(settings),
        plugins=blueprint.plugins if blueprint.registry is not None else None,
    )


def waiting_of(settings: Settings) -> float | None:
    """How long questions wait; None without end. Raises `ConfigError` for what is no time."""
    seconds: float = settings["question_timeout_s"]
    if not 0 <= seconds <= MAX_TIMEOUT_S:
        raise ConfigError(
            f"question_timeout_s = {seconds} ({settings.source('question_timeout_s')}): give seconds up to a year, or 0."
        )
    return seconds or None


def for_small_model(plan: Plan, settings: Settings) -> Plan:
    """The plan with what suits a small model, where the user has not said otherwise."""
    from jaato.runtime.local import small_profile

    prompt, core = small_profile(plan.workspace, settings.config_dir / "AGENTS.md")
    return replace(plan, prompt=plan.prompt if plan.prompt is not None else prompt, core=core)


def policy_for(
    blueprint: Blueprint, settings: Settings, workspace: Path, earlier: Mode | None = None
) -> Policy:
    """The permission rules of a session: the workspace's file, the user's settings, what this call adds; `earlier` is the
    mode its user has chosen in it. Raises `ConfigError`."""
    policy = blueprint.policy or Policy.load(
        workspace / POLICY_FILE, workspace=workspace, state_dir=blueprint.state_dir or settings.state_dir
    )
    allow: Iterable[str] = (*settings["allow"], *blueprint.allow)
    deny: Iterable[str] = (*settings["deny"], *blueprint.deny)
    default: Any = "allow" if blueprint.yes else None
    ruled = policy.with_flags(allow=allow, deny=deny, default=default)
    return opened(ruled, blueprint, settings, workspace, earlier)
