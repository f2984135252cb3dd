"""The configured servers, their trust and their cached manifests, without starting any."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from jaato.errors import ConfigError, PermissionDenied
from jaato.plugins.mcp.config import FILE, ServerConfig, expand_variables, secrets_in
from jaato.plugins.mcp.errors import ServerUnusable
from jaato.plugins.mcp.manifest import Manifest, ToolEntry, save
from jaato.plugins.mcp.manifest import load as load_manifest
from jaato.plugins.mcp.pins import ManifestReview, Pins
from jaato.plugins.mcp.server_log import LogFile
from jaato.plugins.mcp.tools import unusable_reason
from jaato.plugins.mcp.trust import ServerTrust
from jaato.tools.remote.sources import SourceContext, SourceDirectory

if TYPE_CHECKING:
    from jaato.plugins.mcp.config import McpServerOptions
    from jaato.plugins.mcp.oauth.callback import Ask
    from jaato.tools.processes.sandbox.sandbox import Sandbox


class Directory(SourceDirectory[ServerConfig]):
    """The servers of one workspace and its user. Starts nothing.

    `ask` asks the user to log in, if there is one; servers are started under `sandbox`, by default that of the user's
    settings.
    """

    def __init__(
        self, context: SourceContext, *, ask: Ask | None = None, sandbox: Sandbox | None = None
    ) -> None:
        self._ask = ask
        self._given_sandbox = sandbox
        self._pins = Pins(context.state_dir)
        self._options: dict[str, McpServerOptions] = {}
        self._reviews: dict[str, ManifestReview | None] = {}
        trust = ServerTrust(context.state_dir, context.trust)
        super().__init__(context, ServerConfig, context.home / FILE, FILE, trust)
        if context.trust is not None:
            self._pins.hold(self.sources.values())

    def reload(self) -> None:
        """Read the configuration again."""
        super().reload()
        self._options.clear()
        self._reviews.clear()

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
        """Whether the last request to the server needed a login."""
        if config.kind == "stdio":
            return False
        from jaato.plugins.mcp.oauth.token_store import needs_login

        try:
            return needs_login(expand_variables(config, self.context.environ), self.context.state_dir)
        except ConfigError:
            return False

    def options(self, name: str) -> McpServerOptions:
        """The options to start a server with. Raises `ServerUnusable` for one that is untrusted or lacks a variable."""
        config = self.entry(name)
        try:
            self.check_trust(config)
        except PermissionDenied as error:
            raise ServerUnusable(f"{error} Trust given now takes effect in new sessions.") from None
        options = self._options.get(name)
        if options is None:
            from jaato.plugins.mcp.config import McpServerOptions
            from jaato.tools.redaction.redactor import Redactor

            try:
                filled = expand_variables(config, self.context.environ)
            except ConfigError as error:
                raise ServerUnusable(str(error)) from None
            secrets = self.context.secrets or Redactor()
            for key, value in secrets_in(filled).items():
                secrets.add(key, value)
            options = self._options[name] = McpServerOptions(
                filled,
                self.context.environ,
                self.context.workspace,
                self.context.state_dir,
                self._sandbox,
                self.context.allow_hosts,
                LogFile(self.context.state_dir, config),
                self._ask,
                review.manifest.protocol_version if (review := self.review(config)) else "",
                secrets.mask,
                self.context.cache_dir,
            )
        return options

    def review(self, config: ServerConfig) -> ManifestReview | None:
        """The last manifest of a server, without the definitions held back; None without a manifest."""
        if config.name not in self._reviews:
            manifest = load_manifest(self.context.cache_dir, config.digest)
            self._reviews[config.name] = None if manifest is None else self._review(config, manifest)
        return self._reviews[config.name]

    def _review(self, config: ServerConfig, manifest: Manifest) -> ManifestReview:
        try:
            return self._pins.review(config, manifest)
        except (ConfigError, OSError) as error:
            empty = msgspec.structs.replace(
                manifest, tools=[], prompts=[], instructions="", dropped=[str(error)]
            )
            return ManifestReview(empty, ())

    def tool(self, server: str, name: str) -> ToolEntry | None:
        """A tool of a known server; None when the server is unknown or has no usable one. Raises `ServerUnusable`."""
        review = self.review(self.entry(server))
        return review.tool(name) if review else None

    def missing_tool(self, server: str, name: str) -> ServerUnusable:
        """The error for a tool that `tool` does not find."""
        review = self.review(self.entry(server))
        unknown = f"The MCP server {server!r} has not listed its tools yet."
        return ServerUnusable(review.missing(server, name) if review else unknown)

    def learn(self, manifest: Manifest) -> list[str]:
        """Cache the new manifest of a server and review it; returns the names of its entries. Thread-safe."""
        owners = [config for config in self.sources.values() if config.digest == manifest.digest]
        if not owners:
            return []
        bad = {entry.name: why for entry in manifest.tools if (why := unusable_reason(entry))}
        if bad:
            manifest = msgspec.structs.replace(
                manifest,
                tools=[entry for entry in manifest.tools if entry.name not in bad],
                dropped=[*manifest.dropped, *(f"the tool {name!r}: {why}" for name, why in bad.items())],
            )
        save(self.context.cache_dir, manifest)
        for config in owners:
            self._reviews[config.name] = self._review(config, manifest)
        return [config.name for config in owners]
