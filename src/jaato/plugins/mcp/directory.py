"""What is known of the configured servers without starting any: their entries, their trust, their manifests."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from jaato.errors import ConfigError, PermissionDenied
from jaato.plugins.mcp.config import FILE, ServerConfig, expand_variables, secrets_in
from jaato.plugins.mcp.errors import ServerUnusable
from jaato.plugins.mcp.manifest import Manifest, save
from jaato.plugins.mcp.manifest import load as load_manifest
from jaato.plugins.mcp.pins import ManifestReview, Pins
from jaato.plugins.mcp.server_log import LogFile
from jaato.plugins.mcp.tools import unusable
from jaato.plugins.mcp.trust import ServerTrust
from jaato.tools.remote.directory import SourceContext, SourceDirectory

if TYPE_CHECKING:
    from jaato.plugins.mcp.config import McpServerOptions
    from jaato.plugins.mcp.oauth.callback import Ask
    from jaato.tools.processes.sandbox.sandbox import Sandbox


class Directory(SourceDirectory[ServerConfig]):
    """The servers of one workspace and its user. Starts nothing.

    `ask` is how a person is asked to log in, where there is one; `sandbox` has the rules under which servers are started:
    without one, those of the user's settings.
    """

    def __init__(
        self, context: SourceContext, *, ask: Ask | None = None, sandbox: Sandbox | None = None
    ) -> None:
        self._ask = ask
        self._given_sandbox = sandbox
        self._pins = Pins(context.state_dir)
        self._settings: dict[str, McpServerOptions] = {}
        self._judged: dict[str, ManifestReview | None] = {}
        trust = ServerTrust(context.state_dir, context.trust)
        super().__init__(context, ServerConfig, context.home / FILE, FILE, trust)
        if context.trust is not None:
            self._pins.hold(self.sources.values())

    def reload(self) -> None:
        """Read the configuration again."""
        super().reload()
        self._settings.clear()
        self._judged.clear()

    @functools.cached_property
    def _sandbox(self) -> Sandbox:
        from jaato.tools.processes.sandbox.sandbox import Sandbox

        context = self.context
        return self._given_sandbox or Sandbox(
            context.workspace,
            environ=context.environ,
            private=(context.state_dir,),
            allow_hosts=context.allow_hosts,
        )

    def entry(self, name: str) -> ServerConfig:
        """The configuration of a server. Raises `ServerUnusable`, naming those there are."""
        try:
            return self.enabled(name)
        except ConfigError as error:
            raise ServerUnusable(str(error)) from None

    def needs_login(self, config: ServerConfig) -> bool:
        """Whether it said, when it was last asked, that somebody has to log in."""
        if config.kind == "stdio":
            return False
        from jaato.plugins.mcp.oauth.token_store import needs_login

        try:
            return needs_login(expand_variables(config, self.context.environ), self.context.state_dir)
        except ConfigError:
            return False

    def setting(self, name: str) -> McpServerOptions:
        """What to start a server with. Raises `ServerUnusable` for one that may not start or lacks something."""
        config = self.entry(name)
        try:
            self.check_trust(config)
        except PermissionDenied as error:
            raise ServerUnusable(
                f"{error} What the user trusts now counts in sessions that begin then."
            ) from None
        setting = self._settings.get(name)
        if setting is None:
            from jaato.plugins.mcp.config import McpServerOptions
            from jaato.tools.redaction.redactor import Redactor

            try:
                filled = expand_variables(config, self.context.environ)
            except ConfigError as error:
                raise ServerUnusable(str(error)) from None
            secrets = self.context.secrets or Redactor()
            for key, value in secrets_in(filled).items():
                secrets.add(key, value)
            setting = self._settings[name] = McpServerOptions(
                filled,
                self.context.environ,
                self.context.workspace,
                self.context.state_dir,
                self._sandbox,
                self.context.allow_hosts,
                LogFile(self.context.state_dir, config),
                self._ask,
                judged.manifest.protocol_version if (judged := self.judgement(config)) else "",
                secrets.mask,
                self.context.cache_dir,
            )
        return setting

    def judgement(self, config: ServerConfig) -> ManifestReview | None:
        """What was last known of a server, without what is held back; None when nothing is."""
        if config.name not in self._judged:
            manifest = load_manifest(self.context.cache_dir, config.digest)
            self._judged[config.name] = None if manifest is None else self._judge(config, manifest)
        return self._judged[config.name]

    def _judge(self, config: ServerConfig, manifest: Manifest) -> ManifestReview:
        try:
            return self._pins.judge(config, manifest)
        except (ConfigError, OSError) as error:
            empty = msgspec.structs.replace(
                manifest, tools=[], prompts=[], instructions="", dropped=[str(error)]
            )
            return ManifestReview(empty, ())

    def learn(self, manifest: Manifest) -> list[str]:
        """Keep what a server has just said it offers; under which names it stands here. From any thread."""
        owners = [config for config in self.sources.values() if config.digest == manifest.digest]
        if not owners:
            return []
        bad = {entry.name: why for entry in manifest.tools if (why := unusable(entry))}
        if bad:
            manifest = msgspec.structs.replace(
                manifest,
                tools=[entry for entry in manifest.tools if entry.name not in bad],
                dropped=[*manifest.dropped, *(f"the tool {name!r}: {why}" for name, why in bad.items())],
            )
        save(self.context.cache_dir, manifest)
        for config in owners:
            self._judged[config.name] = self._judge(config, manifest)
        return [config.name for config in owners]
