"""`JaatoRuntime`: what the agents of a program share."""

from __future__ import annotations

import dataclasses

from jaato.abc.subagents import Order, ToolChoice
from jaato.agent.session import Session
from jaato.runtime.jaato_session import JaatoSession
from jaato.runtime.portal import PORTAL
from jaato.runtime.registry import PluginRegistry
from jaato.runtime.session_factory import assemble, registry_for
from jaato.runtime.session_options import Blueprint
from jaato.tools.ledger import TokenLedger


class JaatoRuntime:
    """What agents share: provider configuration, plugins, permissions, ledger. Close it when no session is left.

    Plugins that were given stay the giver's to shut down; those the runtime made itself end with it.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        self._owns_registry = blueprint.registry is None
        self.ledger: TokenLedger = blueprint.ledger or TokenLedger()
        """Where token use of all its agents is counted."""
        self._blueprint = dataclasses.replace(blueprint, ledger=self.ledger)

    @property
    def registry(self) -> PluginRegistry:
        """The plugins that agents of this runtime use; all built-in ones unless others were given."""
        if self._blueprint.registry is None:
            registry = PORTAL.call(registry_for(self._blueprint))
            self._blueprint = dataclasses.replace(self._blueprint, registry=registry)
        assert self._blueprint.registry is not None
        return self._blueprint.registry

    def close(self) -> None:
        """Let go of the plugins that the runtime made."""
        registry = self._blueprint.registry
        if self._owns_registry and registry is not None:
            registry.shutdown()
            self._blueprint = dataclasses.replace(self._blueprint, registry=None)

    def create_session(
        self,
        model: str | None = None,
        tools: list[str] | None = None,
        system_instructions: str | None = None,
        *,
        parent: JaatoSession | None = None,
        name: str | None = None,
        session: str | None = None,
    ) -> JaatoSession:
        """A new session, cheap to make, or the stored one of the id `session`; `tools` names the plugins it may use.

        With a `parent` it is a subagent of that one's agent, in the same log; it ends with it at the latest. Raises
        `ToolError` where a bound on subagents says no.
        """
        if parent is not None:
            order = Order(
                task="",
                name=name,
                instructions=system_instructions,
                model=model,
                choices=(ToolChoice(plugins=tools),) if tools is not None else (),
            )
            return PORTAL.call(self._below(parent.live, order))
        registry = self.registry
        changed = dataclasses.replace(
            self._blueprint,
            model=model or self._blueprint.model,
            plugins=tuple(tools) if tools is not None else self._blueprint.plugins,
            session=session,
            prompt=system_instructions if system_instructions is not None else self._blueprint.prompt,
        )
        live, close = PORTAL.call(assemble(changed, wire=False))

        async def end() -> None:
            await close()
            registry.forget_session(made)

        made = JaatoSession(live, end)
        registry.set_session(made)
        return made

    async def _below(self, parent: Session, order: Order) -> JaatoSession:
        supervisor = parent.supervisor
        child = await supervisor.spawn(parent.state.agent_id, order)
        session = child.session
        assert isinstance(session, Session)
        session.model.streaming = parent.model.streaming

        async def end() -> None:
            await supervisor.dismiss(child)

        return JaatoSession(session, end)
