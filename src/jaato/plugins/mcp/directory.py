"""What is known of the configured servers without starting any: their entries, their trust, their manifests."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jaato.errors import ConfigError
from jaato.plugins.mcp.config import Problem, ServerConfig, load, search
from jaato.plugins.mcp.faults import ServerUnusable
from jaato.plugins.mcp.logs import LogFile
from jaato.plugins.mcp.manifest import Manifest, save
from jaato.plugins.mcp.manifest import load as load_manifest
from jaato.plugins.mcp.pins import Judgement, Pins
from jaato.plugins.mcp.tools import unusable
from jaato.plugins.mcp.trusted import Trusted
from jaato.tools.trust import Trust

if TYPE_CHECKING:
    from jaato.plugins.mcp.oauth_browser import Ask
    from jaato.plugins.mcp.server import Setting
    from jaato.tools.processes.sandbox.sandbox import Sandbox
    from jaato.tools.secrets import Secrets


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything is, and the user's environment."""

    workspace: Path
    home: Path
    state_dir: Path
    cache_dir: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    allow_hosts: tuple[str, ...] = ()
    ask: Ask | None = None
    """How a person is asked to log in, where there is one."""
    secrets: Secrets | None = None
    """What the session masks: it learns the keys in servers' entries."""
    sandbox: Sandbox | None = None
    """Under whose rules servers are started; without one, under those of the user's settings."""
    trust: Trust | None = None
    """What was vouched for when the session began; without it, what is at each moment."""


class Directory:
    """The servers of one workspace and its user. Starts nothing."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._trust = places.trust or Trust(places.state_dir)
        self._trusted = Trusted(places.state_dir, self._trust)
        self._pins = Pins(places.state_dir)
        self._settings: dict[str, Setting] = {}
        self._judged: dict[str, Judgement | None] = {}
        self.servers: dict[str, ServerConfig] = {}
        self.problems: tuple[Problem, ...] = ()
        self.reload()
        if places.trust is not None:
            self._pins.hold(self.servers.values())

    def reload(self) -> None:
        """Read the configuration again."""
        found = load(self.places.workspace, self.places.home, self._trust.owns)
        self.servers, self.problems = found.servers, found.problems
        self._settings.clear()
        self._judged.clear()

    @functools.cached_property
    def _sandbox(self) -> Sandbox:
        from jaato.tools.processes.sandbox.sandbox import Sandbox

        places = self.places
        return places.sandbox or Sandbox(
            places.workspace,
            environ=places.environ,
            private=(places.state_dir,),
            allow_hosts=places.allow_hosts,
        )

    def entry(self, name: str) -> ServerConfig:
        """The configuration of a server. Raises `ServerUnusable`, naming those there are."""
        try:
            config = search(self.servers, name)
        except ConfigError as error:
            raise ServerUnusable(str(error)) from None
        if config.disabled:
            raise ServerUnusable(f"The MCP server {name!r} is switched off in {config.origin}.")
        return config

    def trusts(self, config: ServerConfig) -> bool:
        """Whether it may start."""
        try:
            return self._trusted.holds(config)
        except ConfigError:
            return False

    def needs_login(self, config: ServerConfig) -> bool:
        """Whether it said, when it was last asked, that somebody has to log in."""
        if config.kind == "stdio":
            return False
        from jaato.plugins.mcp.expand import expanded
        from jaato.plugins.mcp.oauth_store import needs_login

        try:
            return needs_login(expanded(config, self.places.environ), self.places.state_dir)
        except ConfigError:
            return False

    def setting(self, name: str) -> Setting:
        """What to start a server with. Raises `ServerUnusable` for one that may not start or lacks something."""
        config = self.entry(name)
        if not self.trusts(config):
            raise ServerUnusable(
                f"The MCP server {name!r} is named by this workspace ({config.origin}) and not trusted as it is "
                f"now. The user can look at it and trust it with `jaato mcp trust {name}`, for sessions that begin then."
            )
        setting = self._settings.get(name)
        if setting is None:
            from jaato.plugins.mcp.expand import expanded, secrets_in
            from jaato.plugins.mcp.server import Setting
            from jaato.plugins.mcp.ways import way_to
            from jaato.tools.secrets import Secrets

            try:
                filled = expanded(config, self.places.environ)
            except ConfigError as error:
                raise ServerUnusable(str(error)) from None
            secrets = self.places.secrets or Secrets()
            for key, value in secrets_in(filled).items():
                secrets.add(key, value)
            setting = self._settings[name] = Setting(
                filled,
                self.places.environ,
                self.places.workspace,
                self.places.state_dir,
                way_to,
                self._sandbox,
                self.places.allow_hosts,
                LogFile(self.places.state_dir, config),
                self.places.ask,
                judged.manifest.protocol_version if (judged := self.judgement(config)) else "",
                secrets.mask,
                self.places.cache_dir,
            )
        return setting

    def judgement(self, config: ServerConfig) -> Judgement | None:
        """What was last known of a server, without what is held back; None when nothing is."""
        if config.name not in self._judged:
            manifest = load_manifest(self.places.cache_dir, config.digest)
            self._judged[config.name] = None if manifest is None else self._judge(config, manifest)
        return self._judged[config.name]

    def _judge(self, config: ServerConfig, manifest: Manifest) -> Judgement:
        try:
            return self._pins.judge(config, manifest)
        except (ConfigError, OSError) as error:
            empty = msgspec.structs.replace(
                manifest, tools=[], prompts=[], instructions="", dropped=[str(error)]
            )
            return Judgement(empty, ())

    def learn(self, manifest: Manifest) -> list[str]:
        """Keep what a server has just said it offers; under which names it stands here. From any thread."""
        owners = [config for config in self.servers.values() if config.digest == manifest.digest]
        if not owners:
            return []
        bad = {entry.name: why for entry in manifest.tools if (why := unusable(entry))}
        if bad:
            manifest = msgspec.structs.replace(
                manifest,
                tools=[entry for entry in manifest.tools if entry.name not in bad],
                dropped=[*manifest.dropped, *(f"the tool {name!r}: {why}" for name, why in bad.items())],
            )
        save(self.places.cache_dir, manifest)
        for config in owners:
            self._judged[config.name] = self._judge(config, manifest)
        return [config.name for config in owners]
