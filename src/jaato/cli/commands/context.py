"""`jaato context`: show what the model's context of a stored session consists of."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from jaato.abc.compactor import GCConfig
from jaato.abc.store import Store
from jaato.agent.compaction.account import Account, account_lines, count_fixed_chars
from jaato.agent.compaction.window import NO_LIMITS, ContextLimit, measure_usage, resolve_limit
from jaato.agent.journal import Journal
from jaato.agent.state import SessionState, State
from jaato.cli.arguments.values import workspace_of
from jaato.cli.commands.sessions import session_of
from jaato.cli.output.console import print_json, print_line
from jaato.protocol.specs import ToolSpec
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.plugins.setup import create_registry
from jaato.runtime.secrets import collect_secrets
from jaato.runtime.session_factory import context_limits
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.session_store import find_newest_session, open_existing_store
from jaato.settings import Settings


def main(args: Namespace) -> int:
    """Print the account of a session's main agent, and how full the contexts of its subagents are."""
    workspace = workspace_of(args)
    settings = settings_for(SessionOptions(workspace=workspace), workspace)
    store = open_existing_store(settings)
    try:
        journal = Journal(store, State(), secrets=collect_secrets(settings, workspace=workspace))
        journal.load(find_session(store, args.session, workspace))
    finally:
        store.close()
    place = Path(journal.state.workspace)
    options = SessionOptions(workspace=place)
    registry = None
    if place.is_dir():
        settings = settings_for(options, place)
        registry = create_registry(place, settings, journal.state.model, options)
    try:
        fields = describe_session(journal.session_state, registry, settings)
    finally:
        if registry is not None:
            registry.shutdown()
    if args.json:
        print_json(fields)
        return 0
    print_line(f"session {fields['session_id']}")
    for line in account_lines(fields):
        print_line(line)
    for row in fields["agents"]:
        print_line(
            f"subagent {row['name']}: {row['total_tokens']:,} of {row['context_limit']:,} tokens "
            f"({row['percent_used']:.1f} %)"
        )
    return 0


def find_session(store: Store, text: str | None, workspace: Path) -> str:
    """The id of a session, by default of the newest of the workspace. Raises `SessionNotFound`."""
    if text:
        return session_of(store, text, workspace)
    return find_newest_session(store, str(workspace))


def describe_session(
    session: SessionState, registry: PluginRegistry | None, settings: Settings
) -> dict[str, Any]:
    """The account of the main agent, and the totals of the subagents that are not closed. Raises `ConfigError` for a
    threshold that makes no sense."""
    config = GCConfig(threshold_percent=settings["gc_threshold"])
    threshold = None if settings["gc"] == "none" else config.threshold_percent
    fields = account_of(session.root, registry, settings).describe(threshold)
    agents: list[dict[str, Any]] = []
    for member in session.subagents.values():
        if member.is_closed or member.created is None:
            continue
        row = account_of(member.state, registry, settings).describe(threshold)
        kept = ("model", "context_limit", "context_limit_source", "total_tokens", "percent_used", "blocks")
        agents.append({"name": member.created.name, **{key: row[key] for key in kept}})
    return {"session_id": session.root.session_id, **fields, "agents": agents}


def account_of(state: State, registry: PluginRegistry | None, settings: Settings) -> Account:
    """The account of one agent; the limit is the one its last reply was recorded with."""
    tools: list[ToolSpec] = []
    instructions: list[tuple[str, str]] = []
    if registry is not None:
        found = [registry.catalog.find(name) for name in (*state.core_tools, *state.activated)]
        tools = [one.tool.spec for one in found if one is not None]
        instructions = [(toolset.name, toolset.instructions) for toolset in registry.toolsets()]
    limit = resolve_limit(state, context_limits(settings), None, None)
    if state.context_limit is not None and state.limit_source is not None:
        limit = resolve_limit(state, NO_LIMITS, state.context_limit, None)
        if limit.source == "catalogue":
            limit = ContextLimit(limit.tokens, state.limit_source)
    usage = measure_usage(state, limit, count_fixed_chars(state.system_prompt, tools))
    return Account(state, usage, tools, lambda: instructions)
