"""How the sessions of subagents are made: what they share with the agent above them, and what is their own."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jaato.abc.provider import Provider
from jaato.abc.subagents import Order, ToolChoice
from jaato.agent.child import CrewLimits, NoSubagent
from jaato.agent.compaction.room import Compaction
from jaato.agent.family import Member
from jaato.agent.narrow import NarrowGate
from jaato.agent.session import Session
from jaato.agent.turn import Limits
from jaato.errors import ConfigError
from jaato.protocol.events import AgentCreated
from jaato.protocol.specs import AgentBounds
from jaato.runtime.registry import PluginRegistry
from jaato.runtime.telling import Telling
from jaato.settings import Settings, Value
from jaato.settings.fields import FIELDS
from jaato.tools.catalog import Catalog

if TYPE_CHECKING:
    from jaato.tools.tool import Tool

ALWAYS = ("list_tools", "get_tool_schemas")
"""Whoever may use some tools may look for them."""
MOST_CORE = 24
"""So many chosen tools are declared from the start; of more only those that say so themselves."""
OWN_SERVICES = ("session", "plans", "clarify", "background", "crew")
ABOUT = """\
You are the subagent {name}. Messages marked [parent] come from the agent that gave you your task; you do not talk to the \
user. Do the task and nothing else. Your last message is all the other agent gets: say in it what you found or did, with \
the facts it needs, and what you could not do."""


class Recruiter:
    """Makes the sessions of one root session's subagents. Providers that a profile names are made once and shared."""

    def __init__(self, registry: PluginRegistry) -> None:
        self._registry = registry
        self._providers: dict[str, Provider] = {}
        settings: Settings | None = registry.services.get("settings")
        self._settings = settings
        self._telling: Telling | None = None
        self.limits = CrewLimits()
        if settings is not None:
            self.limits = CrewLimits(
                max(0, settings["subagent_depth"]),
                max(1, settings["subagents_at_once"]),
                max(1, settings["subagents_open"]),
            )

    async def enlist(self, parent: Session, order: Order, name: str) -> dict[str, Any]:
        """The fields of the event with which the new agent begins. Raises `NoSubagent` and `ConfigError`s."""
        self._attend(parent)
        state = parent.state
        provider, model = order.provider or state.provider, order.model or state.model
        if provider != state.provider:
            model = self._provider(provider, order.model)[1]
        bounds = self._bounds(parent, order)
        catalog = narrowed(parent.catalog, bounds.tools)
        about = ABOUT.format(name=name)
        said = [state.system_prompt, about, order.instructions or ""]
        if order.whole_prompt and order.instructions:
            said = [order.instructions, about]
        return {
            "name": name,
            "provider": provider,
            "model": model,
            "system_prompt": "\n\n".join(part for part in said if part),
            "core_tools": [tool.name for tool in first_tools(parent, catalog, bounds)],
            "profile": order.profile,
            "background": order.background,
            "bounds": bounds if bounds != AgentBounds() else None,
            "settings": order.settings,
        }

    def _attend(self, session: Session) -> None:
        """Let who asked for it hear of subagents, from the first on."""
        if self._telling is None:
            self._telling = Telling(self._registry, session.crew.root)

    def _bounds(self, parent: Session, order: Order) -> AgentBounds:
        """The bounds with every tool by its own name. Raises `NoSubagent` for one that the parent does not have."""
        import msgspec

        chosen: set[str] | None = None
        for choice in order.choices:
            names = self._chosen(parent.catalog, choice)
            chosen = names if chosen is None else chosen & names
        tools = None if chosen is None else sorted(chosen)
        return msgspec.structs.replace(order.bounds, tools=tools)

    def _chosen(self, catalog: Catalog, choice: ToolChoice) -> set[str]:
        names = {tool.name for entry in choice.tools or () for tool in meant(catalog, entry)}
        for plugin in choice.plugins or ():
            toolset = self._registry.toolset(plugin)
            if toolset is None:
                known = ", ".join(self._registry.list_exposed())
                raise NoSubagent(f"There is no plugin {plugin[:80]!r}; there are {known}.")
            names |= {tool.name for tool in toolset.tools if tool.name in catalog}
        return names

    def _provider(self, name: str, model: str | None) -> tuple[Provider, str]:
        """Another provider than the session's own, made once. Raises `ConfigError`."""
        from jaato.runtime.choose import make_provider

        settings = self._settings
        if settings is None:
            raise ConfigError(f"No settings say how to reach the provider {name!r}; use the session's own.")
        values = {  # where the session's provider is says nothing about another's
            **settings.values,
            **{one: Value(FIELDS[one].default, "default") for one in ("base_url", "interface")},
        }
        made, chosen = make_provider(name, replace(settings, values=values), model=model)
        key = name if name != "scripted" else f"{name} {chosen}"
        return self._providers.setdefault(key, made), chosen

    async def outfit(self, session: Session, created: AgentCreated) -> None:
        """Give a session the provider it was made for, and what makes room in its context. Raises `ConfigError`."""
        if session.provider.name != created.provider:
            session.provider = self._provider(created.provider, created.model)[0]
        root: Session = session.crew.root
        if session.compaction is None and root.compaction is not None:
            room = root.compaction
            session.compaction = Compaction(
                room.strategy, room.config, room.asking_s, room.collecting_s, room.model_s
            )
        session.reply.streaming = root.reply.streaming

    def session(self, parent: Session, member: Member) -> Session:
        """A session for an agent of the log, not entered yet, which speaks with its parent's provider."""
        self._attend(parent)
        created = member.created
        assert created is not None
        bounds = created.bounds or AgentBounds()
        catalog = narrowed(parent.catalog, bounds.tools)
        few = bounds.tools is not None and len(bounds.tools) <= MOST_CORE
        return Session(
            journal=parent.journal.branch(created.agent_id),
            desk=parent.desk,
            provider=parent.provider,
            catalog=catalog,
            gate=NarrowGate(parent.gate, bounds),
            settings=created.settings or parent.settings,
            limits=fewer(parent.limits, bounds.max_turns),
            retry=parent.retry,
            ledger=parent.ledger,
            parallel=parent.parallel,
            deferred=parent.deferred,
            core=tuple(created.core_tools) if few or parent.core is not None else None,
            enrich=parent.enrich,
            enrich_result=parent.enrich_result,
            execute=parent.execute,
            services={key: value for key, value in parent.services.items() if key not in OWN_SERVICES},
            member_of=parent.crew,
        )

    async def aclose(self) -> None:
        """Let go of the providers that were made for subagents."""
        made, self._providers = list(self._providers.values()), {}
        for provider in made:
            await provider.aclose()


def fewer(limits: Limits, max_turns: int | None) -> Limits:
    """The limits of a turn with the smaller number of model calls."""
    calls = [count for count in (limits.model_calls, max_turns) if count is not None]
    return replace(limits, model_calls=min(calls) if calls else None)


def meant(catalog: Catalog, entry: str) -> list[Tool]:
    """The tools a name, an alias or a pattern means. Raises `NoSubagent` when there is none."""
    found = catalog.find(entry)
    if found is not None:
        return [found.tool]
    matching = [tool for tool in catalog if fnmatch.fnmatchcase(tool.name, entry)]
    if matching:
        return matching
    close = catalog.similar(entry[:200])
    raise NoSubagent(
        f"You have no tool {entry[:80]!r} that you could give."
        + (f" Did you mean {', '.join(close)}?" if close else "")
    )


def narrowed(catalog: Catalog, names: Iterable[str] | None) -> Catalog:
    """The tools of these names, and those that look for tools; all of them for None. What is not there is left out."""
    if names is None:
        return catalog
    chosen = Catalog()
    wanted = {*names, *ALWAYS}
    chosen.add(tool for tool in catalog if tool.name in wanted)
    return chosen


def first_tools(parent: Session, catalog: Catalog, bounds: AgentBounds) -> list[Tool]:
    """The tools a subagent is shown from the start."""
    if bounds.tools is not None and len(bounds.tools) <= MOST_CORE:
        return list(catalog)
    if parent.core is not None:
        found = [catalog.find(name) for name in parent.core]
        return [entry.tool for entry in found if entry is not None]
    return catalog.core
