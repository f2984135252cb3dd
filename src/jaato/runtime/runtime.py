"""The composition root: what all sessions of a process share, and how a session is put together."""

from __future__ import annotations

import datetime
import functools
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from jaato.abc.asker import Asker
from jaato.abc.provider import Provider
from jaato.abc.store import Store
from jaato.agent.active_tools import ACTIVATOR, choose_first_tools
from jaato.agent.compaction.setup import CompactionSetup
from jaato.agent.compaction.window import ContextLimits
from jaato.agent.journal import Journal
from jaato.agent.limits.spending import Budget
from jaato.agent.prompt import BASE, SHORT, system_prompt
from jaato.agent.questions import Questions
from jaato.agent.retry import RetryPolicy
from jaato.agent.services import Waypoints
from jaato.agent.session import Session, SessionParts
from jaato.agent.state import State
from jaato.agent.turn import Limits
from jaato.errors import ConfigError
from jaato.protocol.events import (
    AgentCreated,
    Event,
    PermissionGranted,
    PermissionRevoked,
    SessionCreated,
    SessionUpdated,
)
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message
from jaato.protocol.specs import Grant, ModelSettings
from jaato.runtime.channel_dispatch import MaskedAsker, dispatcher_for
from jaato.runtime.enrichment import enrich_prompt_async, enrich_result_async, enrichers, result_enrichers
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.subagent_factory import SubagentSessionFactory
from jaato.runtime.user_commands import run_command
from jaato.tools.call import SERVICES, Call
from jaato.tools.catalog import MAX_DECLARED
from jaato.tools.filesystem.control_files import STANDARD
from jaato.tools.ledger import TokenLedger
from jaato.tools.permissions.gate import Gate, Policy, preview_call
from jaato.tools.pipeline import check_edit
from jaato.tools.processes.sandbox.sandbox import profiles_of
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.tool import Tool
from jaato.version import __version__

PREVIEW_S = 3.0
"""How long a permission question waits for the diff of its call."""


class Plan(msgspec.Struct, frozen=True):
    """How a session is to be made; what is None is taken from the stored session or the defaults."""

    provider: Provider
    model: str
    workspace: Path
    policy: Policy
    name: str | None = None
    id: str | None = None
    agent_name: str = "main"
    prompt: str | None = None
    settings: ModelSettings = ModelSettings()
    limits: Limits = Limits()
    budget: Budget = Budget()
    loop_detection: bool = True
    retry: RetryPolicy = RetryPolicy()
    asker: Asker | None = None
    parallel: int = 8
    deferred: bool = True
    core: tuple[str, ...] | None = None
    compaction: CompactionSetup | None = None
    context_limits: ContextLimits = ContextLimits()
    keep_interrupted_turns: bool = False
    """Whether a turn that was cut off stays open, to be gone on with."""
    services: dict[str, Any] = msgspec.field(default_factory=dict)
    protected: tuple[Path, ...] = ()
    question_timeout_s: float | None = None
    """How long a question waits, where its channel does not say; None: as long as it takes."""
    plugins: tuple[str, ...] | None = None
    """The plugins, and single tools, that the session may use; None: all that are exposed."""
    history: tuple[Message, ...] = ()
    """The messages that a new session begins with."""


class Runtime:
    """Store, plugins and ledger, shared by sessions. Close it to let go of the plugins and the store."""

    def __init__(
        self,
        store: Store,
        registry: PluginRegistry,
        *,
        ledger: TokenLedger | None = None,
        user_instructions: Path | None = None,
        shared_registry: bool = False,
        secrets: Redactor | None = None,
    ) -> None:
        self.store = store
        self.registry = registry
        self.ledger = ledger or TokenLedger()
        self._user_instructions = user_instructions
        self._shared_registry = shared_registry
        self.secrets: Redactor = secrets or registry.services.get("secrets") or Redactor.none()

    def create(self, plan: Plan) -> Session:
        """A new session; its log begins when this returns. Raises `ConfigError` for a workspace that is no directory."""
        plan = self._make_reachable(plan)
        workspace = plan.workspace.resolve()
        if not workspace.is_dir():
            raise ConfigError(
                f"The workspace {plan.workspace} is not a directory; create it or pass another one."
            )
        state = State(session_id=plan.id or new_id("s"), agent_id=new_id("a"))
        journal = Journal(self.store, state, secrets=self.secrets)
        created = SessionCreated(
            **journal.head(), workspace=str(workspace), name=plan.name, jaato_version=__version__
        )
        self.store.hold(state.session_id)
        first: list[Event] = [created, self._agent(plan, journal, workspace)]
        if plan.history:
            from jaato.agent.history import history_events  # few sessions begin with one

            first += history_events(plan.history, journal.head, created.timestamp)
        journal.begin(*first)
        return self._assemble(plan, journal)

    def _make_reachable(self, plan: Plan) -> Plan:
        """The plan, with the plugin `introspection` where tools could not be reached without it: where they are many, or
        servers bring more of them later."""
        catalog = self.registry.subset(plan.plugins)
        later = bool(catalog.sources or catalog.unvisited)
        if ACTIVATOR in catalog or not (later or len(catalog) > MAX_DECLARED):
            return plan
        if "introspection" in self.registry.disabled or not plan.provider.name:
            return plan  # without a model, the clients of a server list its tools
        self.registry.expose_tool("introspection")
        names = None if plan.plugins is None else (*plan.plugins, "introspection")
        return msgspec.structs.replace(plan, plugins=names)

    def _agent(self, plan: Plan, journal: Journal, workspace: Path) -> AgentCreated:
        return AgentCreated(
            **journal.head(),
            name=plan.agent_name,
            provider=plan.provider.name,
            model=plan.model,
            system_prompt=plan.prompt if plan.prompt is not None else self.prompt(workspace, plan.plugins),
            core_tools=[tool.name for tool in choose_first_tools(self.registry.subset(plan.plugins))],
        )

    def open(self, journal: Journal, plan: Plan) -> Session:
        """A stored session, as it was; another provider or model in the plan is recorded as a switch. One whose damaged
        log has lost its agent gets a new one, which knows the conversation."""
        plan = self._make_reachable(plan)
        state = journal.state
        if not state.agent_id:
            state.agent_id = new_id("a")
            if not self.store.read_only:
                journal.record(self._agent(plan, journal, Path(state.workspace)))
        if (plan.provider.name, plan.model) != (state.provider, state.model) and not self.store.read_only:
            journal.record(SessionUpdated(**journal.head(), provider=plan.provider.name, model=plan.model))
        return self._assemble(plan, journal)

    def prompt(self, workspace: Path, plugins: tuple[str, ...] | None = None) -> str:
        """The system prompt for a new agent in this workspace, with what its plugins say."""
        return system_prompt(
            workspace,
            base=BASE if ACTIVATOR in self.registry.subset(plugins) else SHORT,
            instructions=[
                toolset.instructions
                for toolset in self.registry.toolsets()
                if plugins is None or toolset.name in plugins
            ],
            today=datetime.datetime.now(datetime.UTC).date().isoformat(),
            user_file=self._user_instructions,
        )

    def _assemble(self, plan: Plan, journal: Journal) -> Session:
        catalog = self.registry.subset(plan.plugins)
        questions = Questions(journal, plan.question_timeout_s, functools.partial(check_edit, catalog))
        settings, roots = (self.registry.services.get(name) for name in ("settings", "roots"))
        state_dir = next(iter(plan.protected), None)
        asker = dispatcher_for(questions, plan.policy, journal.secrets, state_dir, settings)

        def granted(grant: Grant) -> None:
            journal.record(PermissionGranted(**journal.head(), grant=grant))

        def revoked(grant: Grant) -> None:
            journal.record(PermissionRevoked(**journal.head(), grant_id=grant.id))

        gate = Gate(
            plan.policy,
            asker=asker if plan.asker is None else MaskedAsker(plan.asker, journal.secrets),
            workspace=Path(journal.state.workspace),
            turnstile=functools.cache(anyio.Lock),  # one question at a time
            on_grant=granted,
            on_revoke=revoked,
            on_mode=lambda mode: journal.record(SessionUpdated(**journal.head(), mode=mode, switched=True)),
            settle=questions.settle,
            grants=[grant for grant in journal.state.grants.values() if grant.scope == "session"],
            protected=plan.protected,
            control_names=roots.names if roots is not None else STANDARD,
            timeout_s=plan.question_timeout_s,
            profiles=profiles_of(self.registry.services, self.registry.workspace),
            preview=preview_in_thread,
        )
        parts = SessionParts(
            journal=journal,
            questions=questions,
            provider=plan.provider,
            catalog=catalog,
            gate=gate,
            settings=plan.settings,
            limits=plan.limits,
            budget=plan.budget,
            loop_detection=plan.loop_detection,
            retry=plan.retry,
            ledger=self.ledger,
            compaction=plan.compaction,
            context_limits=plan.context_limits,
            instructions=self._instructions,
            keep_interrupted_turns=plan.keep_interrupted_turns,
            max_parallel_calls=plan.parallel,
            deferred_tools=plan.deferred,
            core_tools=plan.core,
            enrich=self._enrich,
            enrich_result=self._enrich_result,
            run_command=lambda session, name, rest: run_command(session, self.registry, name, rest),
            services={
                "registry": self.registry,
                "secrets": journal.secrets,
                "waypoints": Waypoints(journal),
                "sandbox": self.registry.services.get("sandbox"),
                **plan.services,
            },
        )
        return Session(parts, SubagentSessionFactory(self.registry, parts))

    def _instructions(self) -> list[tuple[str, str]]:
        """What each plugin puts into the system prompt."""
        return [(toolset.name, toolset.instructions) for toolset in self.registry.toolsets()]

    async def _enrich(self, prompt: str) -> str:
        registry = self.registry
        text, named = await enrich_prompt_async(prompt, enrichers(registry.everyone()), registry.workspace)
        session: Session | None = SERVICES.get().get("session")
        if named and session is not None:
            session.activate([name for name in named if name not in session.state.disabled])
        return text

    async def _enrich_result(self, call: Call, value: Any) -> Any:
        asked = result_enrichers(self.registry.everyone(), call.name)
        return await enrich_result_async(call, value, asked) if asked else value

    def shut_down(self) -> None:
        """Shut the plugins down, unless the caller owns them."""
        if not self._shared_registry:
            self.registry.shutdown()

    def close(self) -> None:
        """Shut the plugins down and close the store."""
        self.shut_down()
        self.store.close()


async def preview_in_thread(tool: Tool, call: Call) -> str:
    """What a call would change in files, as `preview_call`, off the loop; empty when that takes long."""
    if tool.previews is None:
        return ""
    before = SERVICES.set(call.services)
    try:
        with anyio.move_on_after(PREVIEW_S):
            return await anyio.to_thread.run_sync(preview_call, tool, call, abandon_on_cancel=True)
        return ""
    finally:
        SERVICES.reset(before)
