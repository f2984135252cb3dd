"""The documented UI hooks, fed from the one stream of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from jaato.agent.session import Session
from jaato.agent.subagents.subagent import AgentSession
from jaato.log import logger
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    AgentOutput,
    AgentStatusChanged,
    ContextUpdated,
    Event,
    GcCompleted,
    MessageModel,
    PlanUpdated,
    Retry,
    ToolCallEnd,
    ToolCallStart,
    TurnCompleted,
)

if TYPE_CHECKING:
    from jaato.plugins.subagent.plugin import SubagentPlugin
    from jaato.runtime.plugins.registry import PluginRegistry

LOG = logger("hooks")


class AgentUIHooks(Protocol):
    """The hooks of a rich terminal; `agent_id` names the agent."""

    def on_agent_created(
        self, agent_id: str, agent_name: str, agent_type: str, profile_name: str | None,
        parent_agent_id: str | None, created_at: str,
    ) -> None: ...  # fmt: skip

    def on_agent_status_changed(self, agent_id: str, status: str, error: str | None = None) -> None: ...

    def on_agent_output(self, agent_id: str, source: str, text: str, mode: str) -> None: ...

    def on_tool_call_start(self, agent_id: str, tool_name: str, tool_args: dict[str, Any]) -> None: ...

    def on_tool_call_end(
        self, agent_id: str, tool_name: str, success: bool, duration_seconds: float
    ) -> None: ...

    def on_agent_turn_completed(self, agent_id: str, turn_data: dict[str, Any]) -> None: ...

    def on_agent_context_updated(self, agent_id: str, usage: dict[str, Any]) -> None: ...

    def on_agent_history_updated(self, agent_id: str, history: list[Any]) -> None: ...

    def on_agent_completed(self, agent_id: str, success: bool) -> None: ...


def call_hook(
    hook: Callable[..., object] | None, agent_id: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    """Call a hook, if there is one, as it is documented: all by position, or all by keyword."""
    if hook is None:
        return
    if keywords:
        hook(agent_id=agent_id, **keywords)
    else:
        hook(agent_id, *arguments)


STATUSES = {"idle": "done", "blocked": "active"}


def attach_hooks(hooks: Any, session: Session, agent_id: str | None = None) -> Callable[[], None]:
    """Call the hooks for every event of a session, those of its subagents under their own ids; returns the function that
    ends it.

    Hooks an object does not have are left out: a terminal may care for some only.
    """
    own, session_state = session.state.agent_id, session.journal.session_state
    shown = agent_id or own
    try:
        call_hook(
            getattr(hooks, "on_agent_created", None),
            shown,
            ("main", "main", None, None, session.state.created_at),
            {},
        )
    except Exception:
        LOG.exception("on_agent_created failed")
    fed: list[Any] = session.services.setdefault("fed_hooks", [])
    fed.append(hooks)

    def listen(event: Event) -> None:
        if own in (event.agent_id, session_state.root.agent_id, *session_state.ancestors_of(event.agent_id)):
            dispatch_event(hooks, session, event, {own: shown})

    silence = session.journal.bus.listen(listen)

    def end() -> None:
        silence()
        fed.remove(hooks)

    return end


def dispatch_event(hooks: Any, session: Session, event: Event, names: dict[str, str]) -> None:
    """Call the hook that an event has; `names` are ids the hooks know by another name."""
    agent = session.supervisor.session_of(event.agent_id)

    def call(name: str, *arguments: Any, **keywords: Any) -> None:
        call_hook(getattr(hooks, name, None), names.get(event.agent_id, event.agent_id), arguments, keywords)

    match event:
        case AgentOutput():
            call("on_agent_output", event.source, event.text, event.mode)
        case AgentStatusChanged():
            why = (event.reason,) if event.status == "error" and event.reason else ()
            call("on_agent_status_changed", STATUSES.get(event.status, event.status), *why)
        case ToolCallStart():
            call("on_tool_call_start", tool_name=event.tool, tool_args=event.arguments)
        case ToolCallEnd():
            ended = {"success": event.result.ok, "duration_seconds": event.duration_s}
            call("on_tool_call_end", tool_name=event.tool, **ended)
        case ContextUpdated():
            call("on_agent_context_updated", context_usage(agent))
        case MessageModel() | GcCompleted():
            call("on_agent_history_updated", list(agent.state.messages))
        case TurnCompleted():
            call("on_agent_turn_completed", turn_data(event))
            call("on_agent_context_updated", context_usage(agent))
            call("on_agent_history_updated", list(agent.state.messages))
        case AgentCompleted() if event.reason != "closed":
            call("on_agent_completed", event.success)
        case AgentCreated():
            kind = "main" if event.parent_agent_id is None else "subagent"
            parent = event.parent_agent_id and names.get(event.parent_agent_id, event.parent_agent_id)
            call("on_agent_created", event.name, kind, event.profile, parent, event.timestamp)
        case _:
            pass


class SubagentHooks:
    """Subscribes to a root session for the plugin's hooks, retry callback and plan reporter, whenever they are set. Hooks
    that the session itself was given are not called twice."""

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
        if event.agent_id not in root.journal.session_state.subagents:
            return
        plugin = self._plugin()
        if plugin is None:
            return
        fed = root.services.get("fed_hooks", ())
        if plugin.ui_hooks is not None and all(one is not plugin.ui_hooks for one in fed):
            dispatch_event(plugin.ui_hooks, root, event, {root.state.agent_id: "main"})
        match event:
            case Retry() if plugin.retry_callback is not None:
                plugin.retry_callback(event.error.message, event.attempt, event.max_attempts, event.wait_s)
            case PlanUpdated() if plugin.plan_reporter is not None:
                plugin.plan_reporter(event.agent_id, event.plan)


def completion_callback(hooks: Any, agent_id: str) -> Callable[[bool], None]:
    """A function that calls the hooks when the agent has completed; a failing hook is only reported."""

    def complete(success: bool) -> None:
        hook = getattr(hooks, "on_agent_completed", None)
        if hook is None:
            return
        try:
            hook(agent_id, success)
        except Exception:
            LOG.exception("on_agent_completed failed")

    return complete


def turn_data(event: TurnCompleted) -> dict[str, Any]:
    """The accounting of a turn in the documented words."""
    return {
        "turn_id": event.turn_id,
        "reason": event.reason,
        "prompt_tokens": event.usage.input_tokens,
        "output_tokens": event.usage.output_tokens,
        "total_tokens": event.usage.input_tokens + event.usage.output_tokens,
        "duration_seconds": event.duration_s,
        "function_calls": event.tool_calls,
        "cost_usd": event.cost_usd,
    }


def context_usage(session: AgentSession) -> dict[str, Any]:
    """How full the context is, what it consists of, and what the last reply took, in the documented keys."""
    fields = session.model.account.summarize(session.compaction.threshold_percent)
    last = session.state.last_usage
    return {
        **fields,
        "prompt_tokens": last.input_tokens if last else fields["total_tokens"],
        "output_tokens": last.output_tokens if last else 0,
    }
