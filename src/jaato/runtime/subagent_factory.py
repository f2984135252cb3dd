"""How the sessions of subagents are made: what they share with the agent above them, and what is their own."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from jaato.abc.provider import Provider
from jaato.abc.subagents import SubagentRequest, ToolChoice
from jaato.agent.active_tools import ACTIVATOR, choose_first_tools
from jaato.agent.model import ProviderOpener
from jaato.agent.session import Session, SessionParts
from jaato.agent.state import SubagentRecord
from jaato.agent.subagents.permission_gate import SubagentGate
from jaato.agent.subagents.subagent import AgentSession, SubagentError, SubagentLimits
from jaato.agent.subagents.supervisor import Supervisor
from jaato.agent.turn import Limits
from jaato.protocol.specs import AgentBounds
from jaato.runtime.embedding.hooks import SubagentHooks
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.settings import Settings
from jaato.tools.catalog import MAX_DECLARED, Catalog

if TYPE_CHECKING:
    from jaato.tools.tool import Tool

ALWAYS = ("list_tools", ACTIVATOR)
"""The tools for discovery, which every subagent with tools has."""
ABOUT = """\
You are the subagent {name}. Messages marked [parent] come from the agent that gave you your task; you do not talk to the \
user. Do the task and nothing else. Your last message is all the other agent gets: say in it what you found or did, with \
the facts it needs, and what you could not do."""


class SubagentSessionFactory:
    """Makes the sessions of one root session's subagents. Providers that a profile names are made once and shared.

    `parts` are those of the root session; those of each subagent are its parent's, narrowed.
    """

    def __init__(self, registry: PluginRegistry, parts: SessionParts) -> None:
        self._registry = registry
        self._parts = {parts.journal.state.agent_id: parts}
        self._providers: dict[str, Provider] = {}
        settings: Settings | None = registry.services.get("settings")
        self._settings = settings
        self._hooks: SubagentHooks | None = None
        self.limits = SubagentLimits()
        if settings is not None:
            self.limits = SubagentLimits(
                max(0, settings["subagent_depth"]),
                max(1, settings["subagents_at_once"]),
                max(1, settings["subagents_open"]),
            )

    async def prepare(
        self, root: AgentSession, parent_id: str, order: SubagentRequest, name: str
    ) -> dict[str, Any]:
        """The fields of the event with which the new agent begins. Raises `SubagentError` and `ConfigError`s."""
        self._attach_hooks(root)
        parent = self._parts[parent_id]
        state = parent.journal.state
        provider, model = order.provider or state.provider, order.model or state.model
        if provider != state.provider:
            model = self._provider(provider, order.model)[1]
        bounds = self._bounds(parent, order)
        catalog = narrow_catalog(parent.catalog, bounds.tools)
        about = ABOUT.format(name=name)
        prompts = [state.system_prompt, about, order.instructions or ""]
        if order.whole_prompt and order.instructions:
            prompts = [order.instructions, about]
        return {
            "name": name,
            "provider": provider,
            "model": model,
            "system_prompt": "\n\n".join(part for part in prompts if part),
            "core_tools": [tool.name for tool in first_tools(parent, catalog, bounds)],
            "profile": order.profile,
            "background": order.background,
            "bounds": bounds if bounds != AgentBounds() else None,
            "settings": order.settings,
        }

    def _attach_hooks(self, root: AgentSession) -> None:
        """Attach the UI hooks of a root session, before its first subagent."""
        if self._hooks is None and isinstance(root, Session):
            self._hooks = SubagentHooks(self._registry, root)

    def _bounds(self, parent: SessionParts, order: SubagentRequest) -> AgentBounds:
        """The bounds with every tool by its own name. Raises `SubagentError` for one that the parent does not have."""
        chosen: set[str] | None = None
        for choice in order.choices:
            names = self._choose_tools(parent.catalog, choice)
            chosen = names if chosen is None else chosen & names
        tools = None if chosen is None else sorted(chosen)
        return msgspec.structs.replace(order.bounds, tools=tools)

    def _choose_tools(self, catalog: Catalog, choice: ToolChoice) -> set[str]:
        names = {tool.name for entry in choice.tools or () for tool in match_tools(catalog, entry)}
        for plugin in choice.plugins or ():
            toolset = self._registry.toolset(plugin)
            if toolset is None:
                known = ", ".join(self._registry.list_exposed())
                raise SubagentError(f"There is no plugin {plugin[:80]!r}; there are {known}.")
            names |= {tool.name for tool in toolset.tools if tool.name in catalog}
        return names

    def _provider(self, name: str, model: str | None) -> tuple[Provider, str]:
        """Another provider than the session's own, made once. Raises `ConfigError`."""
        from jaato.runtime.provider_selection import make_other_provider

        made, chosen = make_other_provider(name, self._settings, model)
        key = name if name != "scripted" else f"{name} {chosen}"
        return self._providers.setdefault(key, made), chosen

    def create(self, supervisor: Supervisor, parent_id: str, record: SubagentRecord) -> Session:
        """A session for an agent of the log, not entered yet. Its provider, if it is not its parent's, is opened when
        it is first asked."""
        self._attach_hooks(supervisor.root)
        parent, created = self._parts[parent_id], record.created
        assert created is not None
        bounds = created.bounds or AgentBounds()
        few = bounds.tools is not None and len(bounds.tools) <= MAX_DECLARED
        name, model = created.provider, created.model
        provider = parent.provider
        if provider.name != name:
            provider = ProviderOpener(name, lambda: self._provider(name, model)[0])
        parts = msgspec.structs.replace(
            parent,
            journal=parent.journal.branch(created.agent_id),
            provider=provider,
            catalog=narrow_catalog(parent.catalog, bounds.tools),
            gate=SubagentGate(parent.gate, bounds),
            settings=created.settings or parent.settings,
            limits=limit_turns(parent.limits, bounds.max_turns),
            services=parent.services | self._get_shared_services(supervisor.root),
            core_tools=tuple(created.core_tools) if few or parent.core_tools is not None else None,
        )
        self._parts[created.agent_id] = parts
        return Session(parts, supervisor=supervisor)

    def _get_shared_services(self, root: AgentSession) -> dict[str, Any]:
        """What was made for the root session once it was there, and its subagents find as well."""
        services = root.services if isinstance(root, Session) else {}
        return {name: services[name] for name in ("keeper", "client_files") if name in services}

    async def aclose(self) -> None:
        """Let go of the providers that were made for subagents."""
        made, self._providers = list(self._providers.values()), {}
        for provider in made:
            await provider.aclose()


def limit_turns(limits: Limits, max_turns: int | None) -> Limits:
    """The limits of a turn with the smaller number of model calls."""
    calls = [count for count in (limits.model_calls, max_turns) if count is not None]
    return msgspec.structs.replace(limits, model_calls=min(calls) if calls else None)


def match_tools(catalog: Catalog, entry: str) -> list[Tool]:
    """The tools a name, an alias or a pattern means. Raises `SubagentError` when there is none."""
    found = catalog.find(entry)
    if found is not None:
        return [found.tool]
    matching = [tool for tool in catalog if fnmatch.fnmatchcase(tool.name, entry)]
    if matching:
        return matching
    close = catalog.similar(entry[:200])
    raise SubagentError(
        f"You have no tool {entry[:80]!r} that you could give."
        + (f" Did you mean {', '.join(close)}?" if close else "")
    )


def narrow_catalog(catalog: Catalog, names: Iterable[str] | None) -> Catalog:
    """The tools of these names, and those that look for tools; all of them for None. What is not there is left out."""
    if names is None:
        return catalog
    chosen = Catalog()
    wanted = {*names, *ALWAYS}
    chosen.add(tool for tool in catalog if tool.name in wanted)
    return chosen


def first_tools(parent: SessionParts, catalog: Catalog, bounds: AgentBounds) -> list[Tool]:
    """The tools a subagent is shown from the start."""
    if bounds.tools is not None and len(bounds.tools) <= MAX_DECLARED:
        return list(catalog)
    if parent.core_tools is not None:
        found = [catalog.find(name) for name in parent.core_tools]
        return [entry.tool for entry in found if entry is not None]
    return choose_first_tools(catalog)
