"""Creates sessions from settings, store, plugins, policy and provider, and closes them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec
from msgspec.structs import replace

from jaato.abc.provider import Provider
from jaato.abc.store import Store
from jaato.agent.active_tools import ACTIVATOR
from jaato.agent.compaction.setup import CompactionSetup
from jaato.agent.compaction.window import LEAST_TOKENS, ContextLimits
from jaato.agent.journal import Journal
from jaato.agent.limits.spending import Budget, Key
from jaato.agent.session import Session
from jaato.agent.turn import Limits
from jaato.errors import ConfigError
from jaato.protocol.ids import session_name
from jaato.protocol.specs import ModelSettings
from jaato.runtime.known_providers import ProviderChoice
from jaato.runtime.plugins.given import start_given_servers
from jaato.runtime.plugins.lifecycle import release
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.plugins.setup import create_compaction, create_registry, load_trust
from jaato.runtime.policy_setup import policy_for
from jaato.runtime.provider_selection import pick_provider
from jaato.runtime.runtime import Plan, Runtime
from jaato.runtime.secrets import session_secrets, with_keyring_keys
from jaato.runtime.session_options import SessionOptions, flag_settings, settings_for, workspace_of
from jaato.runtime.session_saving import session_saving_for
from jaato.runtime.session_store import load_requested_session, open_store, workspace_of_session
from jaato.runtime.tracing.config import SpanCounters
from jaato.runtime.tracing.tracer import tracer_for
from jaato.settings import Settings
from jaato.settings.budgets import SCOPES, UNITS, get_setting_name, parse_budgets
from jaato.tools.permissions.gate import Policy
from jaato.tools.permissions.policy_document import MAX_TIMEOUT_S
from jaato.tools.prices import explain_unknown_price, find_rates
from jaato.tools.redaction.redactor import Redactor

if TYPE_CHECKING:
    from jaato.tools.processes.sandbox.sandbox import Sandbox


async def open_session(
    options: SessionOptions, *, wire: bool = True
) -> tuple[Session, Callable[[], Awaitable[None]]]:
    """An entered session and the function that closes it and all that was made for it. Raises `JaatoError`s.

    Plugins with `set_session` get the session, unless `wire` is False: then the caller passes them a wrapper of it.
    """
    workspace = workspace_of(options)
    settings = settings_for(options, workspace)
    store = open_store(settings, options.state_dir)
    shop: SessionFactory | None = None
    try:
        secrets = session_secrets(settings, options)
        journal = load_requested_session(store, options, workspace, secrets)
        workspace = workspace if journal is None else workspace_of_session(journal)
        shop = SessionFactory(workspace, settings, store, secrets, state_dir=options.state_dir)
        session, leave = await shop.session(options, journal, wire=wire)
    except BaseException:
        await close_all(shop, store)
        raise

    async def close() -> None:
        try:
            await leave()
        finally:
            await close_all(shop, store)

    return session, close


async def close_all(shop: SessionFactory | None, store: Store) -> None:
    """Close what one session was made in."""
    try:
        if shop is not None:
            await shop.close()
    finally:
        store.close()


async def registry_for(options: SessionOptions) -> PluginRegistry:
    """The plugins that sessions of one runtime share."""
    workspace = workspace_of(options)
    settings = settings_for(options, workspace)
    model = settings["model"]
    if model is None:
        provider, model = await pick_provider(options, settings, None)
        if provider is not options.provider:
            await provider.aclose()
    return create_registry(workspace, settings, model, options)


class SessionFactory:
    """One workspace at work. Its plugins are made for the first session of each model, and shut down by `close`."""

    def __init__(
        self,
        workspace: Path,
        settings: Settings,
        store: Store,
        secrets: Redactor,
        spans: SpanCounters | None = None,
        state_dir: Path | None = None,
    ) -> None:
        if not workspace.is_dir():
            raise ConfigError(
                f"The workspace {workspace} is not a directory (any more); create it, or begin a session in another one."
            )
        self.workspace = workspace
        self.settings = settings
        self.store = store
        self.secrets = secrets
        self.trust = load_trust(settings, state_dir)
        self._runtimes: dict[tuple[str, tuple[str, ...] | None, bytes], Runtime] = {}
        self._providers: dict[tuple[object, ...], tuple[Provider, str, ProviderChoice]] = {}
        self.sessions = 0
        self._tracer = tracer_for(settings, workspace, secrets, spans)

    async def session(
        self,
        options: SessionOptions,
        journal: Journal | None = None,
        *,
        wire: bool = True,
        resumable: bool = False,
    ) -> tuple[Session, Callable[[], Awaitable[None]]]:
        """A new session, or the one of a journal, entered; and the function that closes it. Raises `JaatoError`s.

        With `resumable` a turn that was cut off stays open, to be gone on with.
        """
        settings = self.settings.with_flags(flag_settings(options))
        before = journal.state if journal is not None else None
        policy = policy_for(options, settings, self.workspace, before)
        provider, model = await self._provider(options, settings, journal)
        runtime = self._runtime(options, model)
        registry = runtime.registry
        await start_given_servers(registry, options.program)
        sandbox: Sandbox | None = registry.services.get("sandbox")
        plan = plan_of(options, settings, provider, model, self.workspace, policy)
        if journal is None:
            await check_price(plan.budget, provider, model)
        if journal is None and provider.name == "local":
            plan = small_model_plan(plan, self.settings, found=ACTIVATOR in registry.subset(plan.plugins))
        strategy = create_compaction(settings, registry, provider.name)
        plan = replace(plan, compaction=strategy, keep_interrupted_turns=resumable)
        session: Session | None = None
        try:
            session = runtime.open(journal, plan) if journal else runtime.create(plan)
            untraced = self._tracer.follow(session.journal) if self._tracer else lambda: None
            await session.__aenter__()
            keeper = session.services["keeper"] = session_saving_for(session)
            await keeper.begin()
            if wire:
                registry.set_session(session)
        except BaseException:
            release_compaction(strategy, settings)
            if session is not None:
                unfinished = resumable and session.journal.session_state.is_unfinished
                self.store.release(session.state.session_id, unfinished=unfinished)
            raise
        self.sessions += 1
        entered = session

        async def close() -> None:
            try:
                await entered.__aexit__(None, None, None)
                await keeper.end()
            finally:
                untraced()
                self.sessions -= 1
                if sandbox is not None:
                    with anyio.CancelScope(shield=True):
                        await anyio.to_thread.run_sync(sandbox.end_session, entered.state.session_id)
                if wire:
                    registry.forget_session(entered)
                release_compaction(strategy, settings)

        return entered, close

    async def _provider(
        self, options: SessionOptions, settings: Settings, journal: Journal | None
    ) -> tuple[Provider, str]:
        """The provider and model of a session; sessions that want the same share it."""
        if options.provider is not None and not isinstance(options.provider, str):
            return await pick_provider(options, settings, journal)
        before = (journal.state.provider, journal.state.model) if journal is not None else None
        wanted = (options.provider, options.model, options.base_url, options.interface)
        key = (*wanted, options.api_key, before)
        known = self._providers.get(key)
        if known is None:
            chosen: list[ProviderChoice] = []
            observed = replace(options, chosen=lambda choice, _model: chosen.append(choice))
            provider, model = await pick_provider(observed, settings, journal)
            known = provider, model, chosen[0]
            if provider.name != "scripted":  # which stands at a place in its script, and has nothing open
                self._providers[key] = known
        provider, model, choice = known
        if options.chosen is not None:
            options.chosen(choice, model)
        return provider, model

    def _runtime(self, options: SessionOptions, model: str) -> Runtime:
        """The plugins for a model, which some of them depend on."""
        key = (model, options.plugins, msgspec.json.encode(options.program.mcp_servers, enc_hook=repr))
        runtime = self._runtimes.get(key)
        if runtime is None:
            registry = options.registry or create_registry(
                self.workspace, self.settings, model, options, self.secrets, self.trust
            )
            runtime = self._runtimes[key] = Runtime(
                self.store,
                registry,
                ledger=options.ledger,
                user_instructions=self.settings.config_dir / "AGENTS.md",
                shared_registry=options.registry is not None,
                secrets=with_keyring_keys(self.secrets, self.settings),
            )
        return runtime

    async def close(self) -> None:
        """Shut the plugins down and let go of the providers. The store is its owner's."""
        try:
            for provider, _, _ in self._providers.values():
                await provider.aclose()
        finally:
            try:
                for runtime in self._runtimes.values():
                    runtime.shut_down()
            finally:
                if self._tracer is not None:
                    await self._tracer.close()


def release_compaction(strategy: CompactionSetup | None, settings: Settings) -> None:
    """Shut down what makes room."""
    if strategy is not None:
        release(strategy.strategy, settings["gc"] or "", foreign=True)


def plan_of(
    options: SessionOptions,
    settings: Settings,
    provider: Provider,
    model: str,
    workspace: Path,
    policy: Policy,
) -> Plan:
    """How the session is to be made."""
    prompt = options.prompt if options.prompt is not None else settings["system_prompt"]
    given = options.settings
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
        name=session_name(options.name),
        id=options.id,
        prompt=prompt,
        settings=sampling,
        asker=options.asker,
        limits=options.limits or Limits(model_calls=settings["max_turns"]),
        budget=read_budgets(options, settings),
        loop_detection=settings["loop_detection"],
        retry=options.retry,
        parallel=8 if settings["parallel_tools"] else 1,
        deferred=settings["deferred_tools"] and options.program.builtin_tools,
        protected=(options.state_dir or settings.state_dir, settings.config_dir),
        question_timeout_s=question_timeout(settings),
        context_limits=context_limits(settings),
        plugins=options.plugins if options.registry is not None else None,
        services={"dependencies": options.program.dependencies},
        history=options.program.history,
    )


def read_budgets(options: SessionOptions, settings: Settings) -> Budget:
    """The budgets of a session. Raises `ConfigError` for one below zero."""
    limits: dict[Key, float] = {}
    for scope, unit in itertools.product(SCOPES, UNITS):
        name = get_setting_name(scope, unit)
        value = settings[name] or 0
        if not 0 <= value < math.inf:
            raise ConfigError(
                f"{name} = {value} ({settings.source(name)}): give a number above zero, or 0 for no limit."
            )
        if value:
            limits[scope, unit] = value
    return Budget(limits, parse_budgets(options.budget).more)


async def check_price(budget: Budget, provider: Provider, model: str) -> None:
    """Refuse a budget in money for a model whose price is unknown: it could not be held. Raises `ConfigError`."""
    if not any(unit == "usd" for _, unit in budget.limits):
        return
    info = provider.model_info(model)
    if await anyio.to_thread.run_sync(find_rates, info) is None:
        raise ConfigError(
            f"A budget in money cannot be held: {explain_unknown_price(info)}. Give a budget in tokens, such as "
            "--budget '200k tokens', or --budget off."
        )


def context_limits(settings: Settings) -> ContextLimits:
    """The limits of models' contexts that the settings name. Raises `ConfigError` for what is no limit."""
    by_model: list[tuple[str, int]] = []
    for entry in settings["context_limits"]:
        model, _, tokens = entry.rpartition("=")
        if not model.strip() or not tokens.strip().isdecimal() or int(tokens) < LEAST_TOKENS:
            raise ConfigError(
                f"context_limits = {entry!r} ({settings.source('context_limits')}): write MODEL=TOKENS, "
                f"with * for any model and at least {LEAST_TOKENS} tokens."
            )
        by_model.append((model.strip(), int(tokens)))
    default: int | None = settings["context_limit"]
    if default is not None and default < LEAST_TOKENS:
        raise ConfigError(
            f"context_limit = {default} ({settings.source('context_limit')}): give at least {LEAST_TOKENS} tokens."
        )
    return ContextLimits(tuple(by_model), default)


def question_timeout(settings: Settings) -> float | None:
    """How long questions wait; None without end. Raises `ConfigError` for what is no time."""
    seconds: float = settings["question_timeout_s"]
    if not 0 <= seconds <= MAX_TIMEOUT_S:
        raise ConfigError(
            f"question_timeout_s = {seconds} ({settings.source('question_timeout_s')}): give seconds up to a year, or 0."
        )
    return seconds or None


def small_model_plan(plan: Plan, settings: Settings, *, found: bool) -> Plan:
    """The plan with what suits a small model, where the user has not set these; `found` says whether tools that are not
    declared can be found."""
    from jaato.runtime.local_model import small_profile

    prompt, core = small_profile(plan.workspace, settings.config_dir / "AGENTS.md")
    return replace(
        plan, prompt=plan.prompt if plan.prompt is not None else prompt, core=core if found else None
    )
