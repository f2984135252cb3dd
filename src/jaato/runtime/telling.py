"""What the subagent plugin was asked to tell of subagents, told from the one stream of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaato.agent.session import Session
from jaato.protocol.events import Event, PlanUpdated, Retry
from jaato.runtime.hooks import pass_on
from jaato.runtime.registry import PluginRegistry

if TYPE_CHECKING:
    from jaato.plugins.subagent.plugin import SubagentPlugin


class Telling:
    """Listens to a root session for the plugin's hooks, retry callback and plan reporter, whenever they are set. Hooks
    that the session itself was given are not told twice."""

    def __init__(self, registry: PluginRegistry, root: Session) -> None:
        self._registry = registry
        self._root = root
        root.journal.bus.listen(self._listen)

    def _plugin(self) -> SubagentPlugin | None:
        from jaato.plugins.subagent.plugin import SubagentPlugin

        toolset = self._registry.toolset(SubagentPlugin.name)
        plugin = toolset.plugin if toolset is not None else None
        return plugin if isinstance(plugin, SubagentPlugin) else None

    def _listen(self, event: Event) -> None:
        root = self._root
        if event.agent_id not in root.journal.family.members:
            return
        plugin = self._plugin()
        if plugin is None:
            return
        fed = root.services.get("fed_hooks", ())
        if plugin.ui_hooks is not None and all(one is not plugin.ui_hooks for one in fed):
            pass_on(plugin.ui_hooks, root, event, {root.state.agent_id: "main"})
        match event:
            case Retry() if plugin.retry_callback is not None:
                plugin.retry_callback(event.error.message, event.attempt, event.max_attempts, event.wait_s)
            case PlanUpdated() if plugin.plan_reporter is not None:
                plugin.plan_reporter(event.agent_id, event.plan)
