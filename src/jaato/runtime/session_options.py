"""The options of a session that is to be made, and the settings that hold under them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from jaato.abc.asker import Asker
from jaato.abc.provider import Provider
from jaato.agent.retry import RetryPolicy
from jaato.agent.turn import Limits
from jaato.errors import ConfigError
from jaato.protocol.messages import Message
from jaato.protocol.specs import Mode, ModelSettings
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.settings import Settings, environment, load, user_dir
from jaato.settings.budgets import parse_budgets
from jaato.tools.call import NO_DEPENDENCIES, Dependencies
from jaato.tools.ledger import TokenLedger
from jaato.tools.permissions.gate import Policy
from jaato.tools.permissions.trust import Trust
from jaato.tools.tool import Tool

if TYPE_CHECKING:
    from jaato.runtime.known_providers import ProviderChoice


Progress = Callable[[str, int, int | None], None]
"""Called with the progress of a slow step: what it is, bytes done and bytes in total."""


class ProgramOptions(msgspec.Struct, frozen=True):
    """What an embedding program gives a session beside its settings."""

    plugins: tuple[Any, ...] = ()
    """Plugins of its own: classes, objects, or functions that make them."""
    builtin_tools: bool = True
    """Without them the session has what the program gives it, declared from the start, and nothing else."""
    mcp_servers: dict[str, Any] = {}
    """By name, as in `.mcp.json`."""
    servers_within_s: float | None = None
    """How long a session waits for them before it begins; None: until each has listed its tools."""
    subagents: dict[str, Any] = {}
    """Profiles by name, as in `.jaato/profiles`."""
    dependencies: Dependencies = NO_DEPENDENCIES
    history: tuple[Message, ...] = ()
    """The messages that a new session begins with."""


class SessionOptions(msgspec.Struct, frozen=True):
    """What a session should be; what is None comes from the settings."""

    model: str | None = None
    provider: str | Provider | None = None
    tools: tuple[Callable[..., Any] | Tool, ...] = ()
    workspace: Path | None = None
    session: str | None = None
    id: str | None = None
    """The id of a new session, where it is to be known beforehand."""
    name: str | None = None
    prompt: str | None = None
    plugins: tuple[str, ...] | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    yes: bool = False
    read_only: bool = False
    mode: Mode | None = None
    sandbox: Literal["workspace-write", "full"] | None = None
    allow_domains: tuple[str, ...] = ()
    add_dirs: tuple[str, ...] = ()
    settings: ModelSettings = ModelSettings()
    limits: Limits | None = None
    budget: tuple[str, ...] = ()
    """Budgets as people write them, see `jaato.settings.budgets`; beside those of the settings."""
    retry: RetryPolicy = RetryPolicy()
    base_url: str | None = None
    interface: str | None = None
    api_key: str | None = None
    state_dir: Path | None = None
    environ: dict[str, str] | None = None
    resume: bool = False
    """Go on with the newest session of the workspace."""
    progress: Progress | None = None
    chosen: Callable[[ProviderChoice, str], None] | None = None
    """Called with the chosen provider and model, and the reason."""
    confirm: Callable[[str], Awaitable[bool]] | None = None
    """Asked before something large is downloaded; without it, and without `yes`, nothing is."""
    registry: PluginRegistry | None = None
    """Plugins that the caller shuts down; None: created for this session."""
    policy: Policy | None = None
    asker: Asker | None = None
    ledger: TokenLedger | None = None
    program: ProgramOptions = ProgramOptions()


def workspace_of(options: SessionOptions) -> Path:
    """The directory a new session works in. Raises `ConfigError` when its plugins work in another one."""
    registry = options.registry
    if options.workspace is None:
        return registry.workspace if registry is not None else Path.cwd().resolve()
    workspace = options.workspace.resolve()
    if registry is not None and registry.workspace != workspace:
        raise ConfigError(
            f"The plugins work in {registry.workspace}, the session in {workspace}; "
            "make the registry with PluginRegistry(workspace=…)."
        )
    return workspace


def settings_for(options: SessionOptions, workspace: Path) -> Settings:
    """The settings under which a session of this workspace works."""
    environ = environment() if options.environ is None else options.environ
    state_dir = options.state_dir or user_dir(environ, "XDG_STATE_HOME", ".local/state")
    return load(flag_settings(options), environ=environ, workspace=workspace, trusted=Trust(state_dir).trusts)


def flag_settings(options: SessionOptions) -> dict[str, Any]:
    """The settings given by hand. Raises `ConfigError` for a budget that is not understood."""
    return {
        **parse_budgets(options.budget).settings,
        "provider": options.provider if isinstance(options.provider, str) else None,
        "model": options.model,
        "base_url": options.base_url,
        "interface": options.interface,
    }
