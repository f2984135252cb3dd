"""The remote sources of a workspace and its user: which are configured, and which may be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from jaato import settings
from jaato.errors import ConfigError, PermissionDenied
from jaato.tools.host_services import environ_of
from jaato.tools.permissions.trust import Trust
from jaato.tools.remote.config_file import C, ConfigProblem, find_source, load_sources
from jaato.tools.remote.fields import Scope
from jaato.tools.remote.trust import SourceTrust, refuse_untrusted

if TYPE_CHECKING:
    from jaato.abc.plugin import Host
    from jaato.tools.redaction.redactor import Redactor


@dataclass(frozen=True, slots=True)
class SourceContext:
    """Where everything is, the user's environment, and the private addresses the user allows."""

    workspace: Path
    home: Path
    config_dir: Path
    state_dir: Path
    cache_dir: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    allow_hosts: tuple[str, ...] = ()
    secrets: Redactor | None = None
    """What the session masks: it learns the keys in entries."""
    trust: Trust | None = None
    """What was vouched for when the session began; without it, what is at each moment."""


def source_context(
    workspace: Path,
    environ: Mapping[str, str],
    known: settings.Settings | None = None,
    secrets: Redactor | None = None,
) -> SourceContext:
    """The context of a user and a workspace; without settings, with the user's own directories and no private address."""
    return SourceContext(
        workspace,
        settings.home_of(environ),
        known.config_dir if known else settings.user_dir(environ, "XDG_CONFIG_HOME", ".config"),
        known.state_dir if known else settings.user_dir(environ, "XDG_STATE_HOME", ".local/state"),
        known.cache_dir if known else settings.user_dir(environ, "XDG_CACHE_HOME", ".cache"),
        environ,
        tuple(known["allow_hosts"]) if known else (),
        secrets,
    )


def host_context(host: Host) -> SourceContext:
    """The context of a plugin's session."""
    known, secrets = (service_of(host, name) for name in ("settings", "secrets"))
    return source_context(host.workspace, environ_of(host), known, secrets)


def service_of(host: Host, name: str) -> Any:
    """A service of the host; None where it has none of this name."""
    try:
        return host.service(name)
    except KeyError:
        return None


class SourceDirectory(Generic[C]):
    """The sources of one kind by name. Starts nothing and asks nobody."""

    def __init__(
        self,
        context: SourceContext,
        kind: type[C],
        user_file: Path,
        workspace_file: str,
        trust: SourceTrust[C],
    ) -> None:
        self.context = context
        self.kind = kind
        self.trust = trust
        self._files: dict[Scope, Path] = {"user": user_file, "workspace": context.workspace / workspace_file}
        self.sources: dict[str, C] = {}
        self.problems: tuple[ConfigProblem, ...] = ()
        self.reload()

    def reload(self) -> None:
        """Read the configuration again."""
        user_file, workspace_file = self._files.values()
        found = load_sources(
            self.kind, user_file, self.context.workspace, workspace_file, self.trust.store.owns
        )
        self.sources, self.problems = found.sources, found.problems

    def file(self, scope: Scope) -> tuple[Path, Path | None]:
        """The configuration file of a scope, and the workspace within which it has to be, if any."""
        return self._files[scope], self.context.workspace if scope == "workspace" else None

    def trusts(self, config: C) -> bool:
        """Whether it may be used."""
        try:
            return self.trust.holds(config)
        except ConfigError:
            return False

    def configured(self, name: str) -> C:
        """The source of this name. Raises `ConfigError` with what is wrong with it, or the names there are."""
        for problem in self.problems:
            if problem.name == name and name not in self.sources:
                raise ConfigError(str(problem))
        return find_source(self.kind, self.sources, name)

    def enabled(self, name: str) -> C:
        """The source of this name, which is not switched off. Raises `ConfigError`."""
        config = self.configured(name)
        if config.disabled:
            raise ConfigError(f"The {config.NOUN} {name!r} is switched off in {config.origin}.")
        return config

    def check_trust(self, config: C) -> C:
        """The source, which may be used. Raises `PermissionDenied`."""
        if not self.trusts(config):
            raise PermissionDenied(refuse_untrusted(config))
        return config
