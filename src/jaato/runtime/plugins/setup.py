"""What a session is given to work with: its plugins, those a workspace brings and is trusted with, its strategy."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from jaato.abc.compactor import GCConfig
from jaato.agent.compaction.setup import CompactionSetup
from jaato.errors import ConfigError, PluginError
from jaato.runtime.plugins.adapter import Toolset
from jaato.runtime.plugins.discovery import BUILTIN_STRATEGIES, discover_gc_plugins, load_gc_plugin
from jaato.runtime.plugins.given import expose_given, make_given_configs
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.plugins.workspace import find_workspace_plugins
from jaato.runtime.secrets import MCP_FILE, REGISTRIES_FILE, collect_secrets
from jaato.runtime.session_options import SessionOptions
from jaato.settings import Settings, home_of
from jaato.tools.catalog import Catalog
from jaato.tools.filesystem.containment import Roots
from jaato.tools.filesystem.control_files import control_names
from jaato.tools.permissions.trust import SessionTrust
from jaato.tools.processes.sandbox.sandbox import Sandbox
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.search.embeddings import EmbeddingIndex
from jaato.tools.tool import Tool, options_of, tool_from


def create_registry(
    workspace: Path,
    settings: Settings,
    model: str,
    options: SessionOptions,
    secrets: Redactor | None = None,
    trust: SessionTrust | None = None,
) -> PluginRegistry:
    """The plugins of a session and the functions it was given; `secrets` are those the session masks, `trust` is what was
    vouched for when it began."""
    program = options.program
    granted = [workspace / Path(path).expanduser() for path in settings["roots"]]
    sandbox = sandbox_for(workspace, settings, options.state_dir or settings.state_dir)
    trust = trust or load_trust(settings, options.state_dir)
    services = {
        "environ": settings.environ,
        "settings": settings,
        "roots": Roots(
            workspace,
            granted,
            names=control_names(tuple(settings["control_files"])),
            control_change=sandbox.control_guard.change,
        ),
        "sandbox": sandbox,
        "trust": trust,
    }
    catalog = Catalog(EmbeddingIndex(settings.cache_dir / "tool-vectors"))
    brought = find_workspace_plugins(workspace, trust)
    registry = PluginRegistry(
        model,
        workspace=workspace,
        services={
            **services,
            "brought": brought,
            "secrets": secrets or collect_secrets(settings, options.api_key, workspace),
        },
        plugin_dirs=[settings.config_dir / "plugins"],
        catalog=catalog,
        trees=[one.tree for one in brought if one.standing == "trusted"],
        disabled=[*settings["disabled_plugins"], *([] if program.builtin_tools else ["introspection"])],
    )
    for one in brought:
        if one.warning and one.tree.name not in registry.disabled:
            registry.report(one.tree.name, one.warning)
    registry.discover()
    if options.plugins is None and program.builtin_tools:
        registry.expose_all(make_given_configs(program, workspace))
    for name in options.plugins or ():
        registry.expose_tool(name)
    expose_given(registry, program)
    if options.tools:
        registry.add_toolset(Toolset("program", None, tools=[program_tool(entry) for entry in options.tools]))
    for entry in registry.catalog:
        if entry.background_after_s is not None:
            entry.background_after_s = settings["background_after_s"]
    return registry


def load_trust(settings: Settings, state_dir: Path | None = None) -> SessionTrust:
    """What the user vouches for now, in the list of trusted files and by files of his own that need no trust."""
    home = home_of(settings.environ)
    own = (home / MCP_FILE, settings.config_dir / REGISTRIES_FILE, settings.config_dir / "profiles")
    return SessionTrust(state_dir or settings.state_dir, own)


def sandbox_for(workspace: Path, settings: Settings, state_dir: Path) -> Sandbox:
    """What confines the processes of this workspace."""
    digest = hashlib.sha256(os.fsencode(workspace.resolve())).hexdigest()[:16]
    return Sandbox(
        workspace,
        environ=settings.environ,
        private=(state_dir, settings.config_dir),
        cache=settings.cache_dir / "sandbox" / digest,
        backend=settings["sandbox_backend"],
        names=control_names(tuple(settings["control_files"])),
        quarantine=state_dir / "removed",
        allow_hosts=settings["allow_hosts"],
    )


def program_tool(entry: Callable[..., Any] | Tool) -> Tool:
    """A tool the embedding program hands over: declared from the start, and run without asking."""
    import msgspec

    if not isinstance(entry, Tool) and not callable(entry):
        raise PluginError(f"{entry!r:.80} is no tool: give functions, or objects that `@tool` has made.")
    made = entry if isinstance(entry, Tool) else tool_from(entry, "program")
    given = None if isinstance(entry, Tool) else options_of(entry)
    category = made.spec.category if given is not None and given.category else "program"
    made.spec = msgspec.structs.replace(made.spec, discoverability="core", category=category)
    made.auto_approved = True
    return made


def create_compaction(settings: Settings, registry: PluginRegistry, provider: str) -> CompactionSetup | None:
    """What makes room in a full context, as the settings say. One that cannot be loaded is reported, and nothing replaces it;
    raises `ConfigError` for one that is not there."""
    name = settings["gc"]
    if provider == "local" and settings.source("gc") == "default":
        name = "gc_truncate"  # the embedded model would read for minutes to write a summary
    if not name or name == "none":
        return None
    modules: Mapping[str, ModuleType] = {}
    if name not in BUILTIN_STRATEGIES:
        modules = registry.modules.find(registry.disabled)
        known = discover_gc_plugins(modules)
        if name not in known:
            raise ConfigError(
                f"gc = {name!r} ({settings.source('gc')}): there is no such strategy, but {', '.join(sorted(known))}; "
                "none: no compaction."
            )
    config = GCConfig(threshold_percent=settings["gc_threshold"])
    try:
        return CompactionSetup(load_gc_plugin(name, modules=modules), config)
    except PluginError as error:
        registry.report(name, f"cannot make room: {error}")
        return None
